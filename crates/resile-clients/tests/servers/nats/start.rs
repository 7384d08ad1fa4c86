//! A server, and connections to it.

use std::error::Error;
use std::fs;
use std::process::Command;
use std::time::Duration;

use async_nats::jetstream::{self, Context, stream};
use async_nats::{Client, ConnectOptions};
use resile_clients::nats::error;
use server::{Kind, Place, Server, program};

use crate::data::{Says, says};

/// The configuration of a server with JetStream, beyond its port and its folder.
#[derive(Debug)]
pub(super) struct Nats(String);

impl Kind for Nats {
    fn prepare(&self, place: &Place) {
        fs::write(place.path("nats.conf"), &self.0).unwrap();
    }

    fn command(&self, place: &Place) -> Command {
        let mut command =
            Command::new(program("nats-server", &["/usr/sbin", "/usr/local/sbin"], "nats-server"));
        command.args(["-a", "127.0.0.1", "-p", &place.port.to_string(), "-js", "-sd"]);
        command.arg(place.path("store")).arg("-c").arg(place.path("nats.conf"));
        command
    }

    fn is_up(&self, place: &Place) -> bool {
        place.log().contains("Server is ready") // the last line: the port is open then
    }
}

/// Starts an empty server.
pub(super) fn start(configuration: &str) -> Server<Nats> {
    Server::start(Nats(configuration.to_owned()))
}

pub(super) fn options() -> ConnectOptions {
    ConnectOptions::new()
        .reconnect_delay_callback(|_| Duration::from_millis(20))
        .request_timeout(Some(Duration::from_millis(300)))
}

pub(super) fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

pub(super) async fn connect(port: u16) -> Client {
    options().connect(address(port)).await.unwrap()
}

pub(super) async fn connect_as(port: u16, user: &str) -> Client {
    let options = options().user_and_password(user.to_owned(), user.to_owned());
    options.connect(address(port)).await.unwrap()
}

/// Returns a context whose publishes wait for their acknowledgement a short time only.
pub(super) fn hasty(client: &Client) -> Context {
    let timeout = Duration::from_millis(300);
    jetstream::ContextBuilder::new().ack_timeout(timeout).timeout(timeout).build(client.clone())
}

pub(super) fn context(client: &Client) -> Context {
    jetstream::new(client.clone())
}

/// A stream with one subject: its name.
pub(super) fn stream(name: &str) -> stream::Config {
    stream::Config { name: name.to_owned(), subjects: vec![name.to_owned()], ..Default::default() }
}

/// Returns the number of messages in a stream.
pub(super) async fn stored(context: &Context, stream: &str) -> u64 {
    context.get_stream(stream).await.unwrap().cached_info().state.messages
}

/// Returns what the function says of an error.
pub(super) fn seen(error: &(impl Error + 'static)) -> Option<Says> {
    says(|it| self::error(error, it))
}
