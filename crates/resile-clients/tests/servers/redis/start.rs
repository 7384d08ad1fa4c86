//! A server, and connections to it.

use std::process::Command;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, RedisResult};
use resile_clients::redis::error;
use server::{Kind, Place, Server, program};

use crate::data::{Says, says};

/// The settings of a server beyond its port and its folder.
#[derive(Debug)]
pub(super) struct Redis(Vec<String>);

impl Kind for Redis {
    fn command(&self, place: &Place) -> Command {
        let mut command = Command::new(program("redis-server", &[], "redis-server"));
        command.args(["--port", &place.port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--dir"]).arg(&place.folder).args(&self.0);
        command
    }

    fn is_up(&self, place: &Place) -> bool {
        // Another process may hold the port. Then the log has neither line.
        let log = place.log();
        log.contains("eady to accept connections") || log.contains("Loading RDB")
    }
}

/// Starts an empty server.
pub(super) fn start(args: &[&str]) -> Server<Redis> {
    Server::start(Redis(args.iter().map(ToString::to_string).collect()))
}

pub(super) fn client(port: u16) -> Client {
    Client::open(format!("redis://127.0.0.1:{port}")).unwrap()
}

pub(super) async fn try_connect(port: u16) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
    client(port).get_multiplexed_async_connection_with_config(&config).await
}

pub(super) async fn connect(port: u16) -> MultiplexedConnection {
    try_connect(port).await.unwrap()
}

/// Makes a command of words.
pub(super) fn cmd(line: &str) -> Cmd {
    let mut words = line.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap());
    words.for_each(|word| {
        cmd.arg(word);
    });
    cmd
}

/// Sends a command that must succeed.
pub(super) async fn tell<T: FromRedisValue>(to: &mut MultiplexedConnection, line: &str) -> T {
    let answer = cmd(line).query_async(to).await;
    answer.unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Sends a command that must fail.
pub(super) async fn fail(to: &mut MultiplexedConnection, line: &str) -> RedisError {
    match cmd(line).query_async::<redis::Value>(to).await {
        Ok(value) => panic!("{line} succeeded: {value:?}"),
        Err(error) => error,
    }
}

/// Returns what the function says of an error.
pub(super) fn seen(error: &RedisError) -> Option<Says> {
    says(|it| self::error(error, it))
}

/// Sends a command until it has an answer that fits.
pub(super) async fn until(to: &mut MultiplexedConnection, line: &str, fits: impl Fn(&str) -> bool) {
    while !fits(&tell::<String>(to, line).await) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
