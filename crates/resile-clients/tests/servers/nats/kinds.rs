//! Errors that the client's own constructors make.

use std::io;

use async_nats::client::{FlushError, FlushErrorKind, PublishErrorKind};
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind,
    PublishError as StoreError, PublishErrorKind as StoreErrorKind, RequestError as ApiError,
    RequestErrorKind as ApiErrorKind,
};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use async_nats::{
    ConnectError, ConnectErrorKind, PublishError, RequestError, RequestErrorKind, SubscribeError,
    SubscribeErrorKind,
};
use resile_clients::resile::Health;

use super::start::seen;
use crate::data::{Says, classified, rows, word};

const IN_DOUBT: Option<Says> = Some((true, false, Health::Failing, false));
const WRONG: Option<Says> = Some((false, false, Health::Healthy, false));

fn says(family: &str, code: &str) -> Option<Says> {
    rows().iter().find(|row| row.family == family && row.code == code).map(|row| row.says)
}

#[test]
fn each_kind_has_the_verdict_of_its_row() {
    for (kind, code) in [
        (StoreErrorKind::StreamNotFound, "StreamNotFound"),
        (StoreErrorKind::WrongLastMessageId, "WrongLastMessageId"),
        (StoreErrorKind::WrongLastSequence, "WrongLastSequence"),
        (StoreErrorKind::TimedOut, "TimedOut"),
        (StoreErrorKind::BrokenPipe, "BrokenPipe"),
        (StoreErrorKind::MaxAckPending, "MaxAckPending"),
        (StoreErrorKind::MaxPayloadExceeded, "MaxPayloadExceeded"),
    ] {
        let error = StoreError::new(kind);
        assert_eq!(seen(&error), says("nats", code), "{code}");
        assert_eq!((classified(&error), word(&error)), (says("nats", code), code.to_owned()));
    }
    for (kind, code) in [
        (PublishErrorKind::MaxPayloadExceeded, "MaxPayloadExceeded"),
        (PublishErrorKind::InvalidSubject, "InvalidSubject"),
        (PublishErrorKind::Send, "Send"),
    ] {
        assert_eq!(seen(&PublishError::new(kind)), says("nats", code), "{code}");
    }
    for kind in [
        ConnectErrorKind::ServerParse,
        ConnectErrorKind::Dns,
        ConnectErrorKind::Authentication,
        ConnectErrorKind::AuthorizationViolation,
        ConnectErrorKind::TimedOut,
        ConnectErrorKind::Tls,
        ConnectErrorKind::Io,
        ConnectErrorKind::MaxReconnects,
    ] {
        let code = format!("{kind:?}");
        assert_eq!(seen(&ConnectError::new(kind)), says("nats-connect", &code), "{code}");
    }
}

#[test]
fn other_errors_have_the_verdict_of_their_source() {
    let no_source = RequestError::new(RequestErrorKind::Other);
    assert_eq!(word(&no_source), "");
    assert_eq!(seen(&no_source), IN_DOUBT);
    assert_eq!(seen(&FlushError::new(FlushErrorKind::FlushError)), IN_DOUBT);
    let foreign = io::Error::from(io::ErrorKind::ConnectionRefused);
    assert_eq!(seen(&StoreError::with_source(StoreErrorKind::Other, foreign)), IN_DOUBT);

    let closed = PublishError::new(PublishErrorKind::Send);
    let closed = RequestError::with_source(RequestErrorKind::Other, closed);
    assert_eq!(seen(&closed), says("nats", "Send"));
    let closed = ApiError::with_source(ApiErrorKind::Other, closed);
    let closed = GetStreamError::with_source(GetStreamErrorKind::Request, closed);
    assert_eq!(seen(&closed), says("nats", "Send"));
    assert_eq!(word(&closed), "Send");
    let nobody = ApiError::new(ApiErrorKind::NoResponders);
    let nobody = ConsumerError::with_source(ConsumerErrorKind::Request, nobody);
    assert_eq!(seen(&nobody), says("nats", "NoResponders"));
}

#[test]
fn a_wrong_name_stays_wrong() {
    for kind in [GetStreamErrorKind::EmptyName, GetStreamErrorKind::InvalidStreamName] {
        assert_eq!(seen(&GetStreamError::new(kind)), WRONG);
    }
    for kind in [
        CreateStreamErrorKind::EmptyStreamName,
        CreateStreamErrorKind::InvalidStreamName,
        CreateStreamErrorKind::DomainAndExternalSet,
    ] {
        assert_eq!(seen(&CreateStreamError::new(kind)), WRONG);
    }
    let unavailable = CreateStreamError::new(CreateStreamErrorKind::JetStreamUnavailable);
    assert_eq!(seen(&unavailable), says("nats", "NoResponders"));
}

/// An operation of several steps may fail in the second one, so a foreign type has no verdict.
#[test]
fn another_type_has_no_verdict() {
    let inner = RequestError::new(RequestErrorKind::NoResponders);
    assert_eq!(seen(&SubscribeError::with_source(SubscribeErrorKind::Other, inner)), None);
    assert_eq!(seen(&io::Error::other("words")), None);
}
