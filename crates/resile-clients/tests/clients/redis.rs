//! Errors of the client `redis`, made by its own constructors and its own parser.

use std::io;

use redis::{ErrorKind, RedisError, parse_redis_value};
use resile_clients::redis as codes;
use resile_clients::resile::Health;

use super::data::{classified, word};
use super::rows::{Says, rows, says};

fn seen(error: &RedisError) -> Option<Says> {
    says(|it| codes::error(error, it))
}

/// Parses an error reply.
fn reply(text: &str) -> RedisError {
    let value = parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
    value.extract_error().unwrap_err()
}

#[test]
fn each_reply_has_the_verdict_of_its_row() {
    for row in rows().into_iter().filter(|row| row.family == "redis") {
        assert_eq!(seen(&reply(row.code)), Some(row.says), "{}", row.code);
        let text = format!("{} and more words", row.code);
        assert_eq!(seen(&reply(&text)), Some(row.says), "{text}");
        assert_eq!(classified(&reply(&text)), Some(row.says), "{text}");
        assert_eq!(word(&reply(&text)), row.code.split(' ').next().unwrap());
    }
    assert_eq!(seen(&reply("NEVERSEEN words")), None);
}

/// A source that is an `Arc` hides the `io::Error` in it.
#[test]
fn an_io_error_inside_is_found() {
    let of = |kind: io::ErrorKind| seen(&io::Error::from(kind).into()).unwrap();
    let failing = |booking| (true, booking, Health::Failing, false);
    assert_eq!(of(io::ErrorKind::ConnectionRefused), failing(true));
    for kind in [
        io::ErrorKind::TimedOut,
        io::ErrorKind::WouldBlock,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::Other,
    ] {
        assert_eq!(of(kind), failing(false), "{kind}");
    }
    assert_eq!(of(io::ErrorKind::PermissionDenied), (false, false, Health::Unknown, false));
    assert_eq!(seen(&(ErrorKind::Io, "dropped").into()), Some(failing(false)));
    assert_eq!(
        word::<RedisError>(&io::Error::from(io::ErrorKind::BrokenPipe).into()),
        "connection_lost"
    );
    assert_eq!(
        word::<RedisError>(&(ErrorKind::ClusterConnectionNotFound, "").into()),
        "ClusterConnectionNotFound"
    );
}

#[test]
fn each_kind_has_a_verdict() {
    let of = |kind| seen(&RedisError::from((kind, "words"))).unwrap();
    for kind in [
        ErrorKind::MasterNameNotFoundBySentinel,
        ErrorKind::NoValidReplicasFoundBySentinel,
        ErrorKind::ClusterConnectionNotFound,
    ] {
        assert_eq!(of(kind), (true, true, Health::Failing, false), "{kind:?}");
    }
    for kind in [
        ErrorKind::UnexpectedReturnType,
        ErrorKind::InvalidClientConfig,
        ErrorKind::Client,
        ErrorKind::EmptySentinelList,
        ErrorKind::RESP3NotSupported,
    ] {
        assert_eq!(of(kind), (false, false, Health::Healthy, false), "{kind:?}");
    }
    assert_eq!(of(ErrorKind::AuthenticationFailed), (false, false, Health::Unknown, false));
    // The type of a value may be wrong after the command was executed.
    assert_eq!(of(ErrorKind::Parse), (true, false, Health::Failing, false));
}

/// Other commands of the pipeline may have been executed.
#[test]
fn a_reply_without_a_source_may_stand_for_a_pipeline() {
    let alone = reply("LOADING words");
    assert_eq!(seen(&alone), Some((true, true, Health::Failing, false)));
    let kind = alone.kind();
    assert_eq!(seen(&(kind, "words").into()), Some((true, false, Health::Failing, false)));
}
