//! Errors that the client's own constructors make.

use std::io;
use std::sync::Arc;

use lapin::{ChannelState, ConnectionState, Error, ErrorKind};
use resile_clients::resile::Health;

use super::start::seen;
use crate::data::{classified, word};

fn of(kind: ErrorKind) -> (bool, bool, Health, bool) {
    seen(&kind.into()).unwrap()
}

#[test]
fn only_a_refused_call_was_surely_not_sent() {
    let closed = |call| of(ErrorKind::InvalidChannelState(ChannelState::Closed, call));
    for call in [
        "basic.publish",
        "basic.get",
        "basic.consume",
        "queue.declare",
        "exchange.bind",
        "confirm.select",
        "tx.commit",
    ] {
        assert_eq!(closed(call), (true, true, Health::Failing, false), "{call}");
    }
    // The broker sends these, or they are the reason for messages on their way.
    for call in [
        "basic.ack",
        "basic.nack",
        "basic.return",
        "basic.deliver",
        "queue.declare-ok",
        "channel.close",
        "channel.close-ok received",
        "unexpected channel.close-ok received",
        "start_recovery",
        "",
    ] {
        assert_eq!(closed(call), (true, false, Health::Failing, false), "{call}");
    }
}

#[test]
fn each_kind_has_a_verdict() {
    let in_doubt = (true, false, Health::Failing, false);
    assert_eq!(of(ErrorKind::InvalidChannel(7)), in_doubt);
    assert_eq!(of(ErrorKind::MissingHeartbeatError), in_doubt);
    let silent = Error::from(ErrorKind::MissingHeartbeatError);
    assert_eq!(
        (classified(&silent), word(&silent)),
        (Some(in_doubt), "MissingHeartbeatError".into())
    );
    for state in [ConnectionState::Closed, ConnectionState::Error, ConnectionState::Closing] {
        assert_eq!(of(ErrorKind::InvalidConnectionState(state)), in_doubt);
    }
    assert_eq!(of(ErrorKind::ChannelsLimitReached), (true, true, Health::Unknown, false));
    let broken = || Arc::new(io::Error::from(io::ErrorKind::Other));
    for kind in [
        ErrorKind::RuntimeShutdownError(broken()),
        ErrorKind::AuthProviderError("no token".to_owned()),
        ErrorKind::FutureCompleted,
        ErrorKind::NoDefaultRuntime,
    ] {
        assert_eq!(of(kind), (false, false, Health::Unknown, false));
    }
    assert_eq!(of(ErrorKind::IOError(broken())), in_doubt);
    let refused = Error::from(io::Error::from(io::ErrorKind::ConnectionRefused));
    assert_eq!(seen(&refused), Some((true, true, Health::Failing, false)));
}
