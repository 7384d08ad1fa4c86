//! A broker, and connections to it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueuePurgeOptions,
};
use lapin::types::FieldTable;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Error, Result,
};
use resile_clients::amqp::error;
use server::{Kind, Place, Server, Shared, program, run};

use crate::data::{Says, says};

/// The folder of the scripts in a distribution. Those in `PATH` change the user.
const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";

/// A broker of one node. Its name server ends with it.
#[derive(Debug)]
pub(super) struct Rabbit {
    names: Names,
    /// The port that the node has for other nodes.
    distribution: u16,
}

/// Erlang's server of node names.
#[derive(Debug)]
struct Names {
    port: u16,
    child: Child,
}

impl Names {
    fn start() -> Self {
        let port = free_port();
        let mut command = Command::new(program("epmd", &[], "rabbitmq-server"));
        command.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { port, child: command.spawn().unwrap() }
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

impl Rabbit {
    fn new() -> Self {
        Self { names: Names::start(), distribution: free_port() }
    }

    /// Returns a script with the environment of this node.
    fn script(&self, script: &str, place: &Place) -> Command {
        let mut command = Command::new(program(script, &[SCRIPTS], "rabbitmq-server"));
        let port = |port: u16| port.to_string();
        let path = |name: &str| place.path(name);
        command.env("HOME", &place.folder); // the cookie of the node
        command.env("ERL_EPMD_ADDRESS", "127.0.0.1").env("ERL_EPMD_PORT", port(self.names.port));
        command.env("RABBITMQ_NODENAME", "resile@localhost");
        command.env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1");
        command.env("RABBITMQ_NODE_PORT", port(place.port));
        command.env("RABBITMQ_DIST_PORT", port(self.distribution));
        command.env("RABBITMQ_MNESIA_BASE", path("data")).env("RABBITMQ_LOG_BASE", path("logs"));
        command.env("RABBITMQ_LOGS", "-").env("RABBITMQ_CONF_ENV_FILE", "/dev/null");
        command.env("RABBITMQ_ENABLED_PLUGINS_FILE", path("plugins"));
        command.env("RABBITMQ_CONFIG_FILE", path("rabbitmq.conf"));
        command.env("RABBITMQ_ADVANCED_CONFIG_FILE", path("none.config"));
        command.env("RABBITMQ_GENERATED_CONFIG_DIR", path("generated"));
        command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+S 2:2 +sbwt none +sbwtdcpu none");
        command.env("RUNNING_UNDER_SYSTEMD", "1"); // no shell remains above the node
        command
    }
}

impl Kind for Rabbit {
    fn prepare(&self, place: &Place) {
        fs::write(place.path("plugins"), "[].").unwrap();
        let configuration = "disk_free_limit.absolute = 1MB\nmax_message_size = 100000\n";
        fs::write(place.path("rabbitmq.conf"), configuration).unwrap();
    }

    fn command(&self, place: &Place) -> Command {
        self.script("rabbitmq-server", place)
    }

    fn is_up(&self, place: &Place) -> bool {
        place.log().contains("Server startup complete")
    }
}

/// The broker of all tests that leave it alone.
static BROKER: Shared<Rabbit> = Shared::new();

pub(super) fn broker() -> Arc<Server<Rabbit>> {
    BROKER.get(Rabbit::new)
}

/// Starts a broker for a test that ends it or alarms it.
pub(super) fn own_broker() -> Server<Rabbit> {
    Server::start(Rabbit::new())
}

/// Runs `rabbitmqctl` beside a node.
pub(super) fn control(server: &Server<Rabbit>, line: &str) {
    let mut command = server.kind().script("rabbitmqctl", server.place());
    run(command.args(line.split(' ')));
}

pub(super) async fn try_connect(port: u16) -> Result<Connection> {
    connect_with("guest:guest", port, "%2f").await
}

pub(super) async fn connect_with(login: &str, port: u16, host: &str) -> Result<Connection> {
    let uri = format!("amqp://{login}@127.0.0.1:{port}/{host}");
    Connection::connect(&uri, ConnectionProperties::default()).await
}

pub(super) async fn connect(port: u16) -> Connection {
    try_connect(port).await.unwrap()
}

/// Opens a channel with publisher confirms.
pub(super) async fn open(connection: &Connection) -> Channel {
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    channel
}

/// Declares a durable queue.
pub(super) async fn declare(channel: &Channel, queue: &str, arguments: FieldTable) -> Result<()> {
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(queue.into(), options, arguments).await.map(|_| ())
}

/// Publishes to a queue, and waits for the confirmation.
pub(super) async fn publish(channel: &Channel, queue: &str) -> Result<Confirmation> {
    publish_to(channel, "", queue, BasicPublishOptions::default()).await
}

pub(super) async fn publish_to(
    channel: &Channel,
    exchange: &str,
    key: &str,
    options: BasicPublishOptions,
) -> Result<Confirmation> {
    let durable = BasicProperties::default().with_delivery_mode(2);
    channel.basic_publish(exchange.into(), key.into(), options, b"work", durable).await?.await
}

/// Takes all messages out of a queue and returns their number.
pub(super) async fn take(port: u16, queue: &str) -> u32 {
    let channel = open(&connect(port).await).await;
    channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await.unwrap()
}

/// Returns what the function says of an error.
pub(super) fn seen(error: &Error) -> Option<Says> {
    says(|it| self::error(error, it))
}
