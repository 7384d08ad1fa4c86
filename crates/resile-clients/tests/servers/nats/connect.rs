//! Connections that fail. Nothing was sent yet.

use std::time::Duration;

use async_nats::{ConnectError, ConnectOptions};

use super::start::{address, connect, options, seen, start};
use crate::row::{row, within};

async fn refused(options: ConnectOptions, port: u16) -> ConnectError {
    options.connect(address(port)).await.unwrap_err()
}

#[tokio::test]
async fn a_server_that_is_down_may_come_back() {
    within(async {
        let mut server = start("");
        server.kill();
        let error = refused(options(), server.port()).await;
        assert_eq!(seen(&error), row("nats-connect", "Io"), "{error}");
        server.restart();
        let _connected = connect(server.port()).await;

        server.signal("STOP");
        let hasty = options().connection_timeout(Duration::from_millis(200));
        let error = refused(hasty, server.port()).await;
        assert_eq!(seen(&error), row("nats-connect", "TimedOut"), "{error}");
        server.signal("CONT");
        let _connected = connect(server.port()).await;
    })
    .await;
}

#[tokio::test]
async fn a_wrong_password_stays_wrong() {
    within(async {
        let server = start("authorization { user: anna, password: right }");
        let wrong = options().user_and_password("anna".to_owned(), "wrong".to_owned());
        let error = refused(wrong, server.port()).await;
        assert_eq!(seen(&error), row("nats-connect", "AuthorizationViolation"), "{error}");
    })
    .await;
}
