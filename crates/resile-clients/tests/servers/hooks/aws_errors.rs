//! Errors of operations of the AWS SDKs: the SDK of a service only adds the type of its own errors.

use std::io;
use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::{ConnectorError, SdkError};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::error::ErrorMetadata;
use resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_clients::aws::error;
use resile_clients::resile::Health;

use crate::data::{Says, classified, rows, says, word};

type Error = SdkError<ErrorMetadata, HttpResponse>;

fn seen(failed: &Error) -> Option<Says> {
    says(|it| error(failed, it))
}

const DOUBT: Option<Says> = Some((true, false, Health::Failing, false));
const OWN_FAULT: Option<Says> = Some((false, false, Health::Unknown, false));

fn raw(status: u16, header: (&'static str, &'static str)) -> HttpResponse {
    let response = http::Response::builder().status(status).header(header.0, header.1);
    response.body(SdkBody::empty()).unwrap().try_into().unwrap()
}

/// An answer with a code that the SDK has read from its body.
fn service(status: u16, code: Option<&str>, header: (&'static str, &'static str)) -> Error {
    let mut metadata = ErrorMetadata::builder();
    if let Some(code) = code {
        metadata = metadata.code(code);
    }
    Error::service_error(metadata.build(), raw(status, header))
}

const NOTHING: (&str, &str) = ("a", "b");

#[test]
fn each_code_has_the_verdict_of_its_row() {
    let mut found = 0;
    for row in rows().into_iter().filter(|row| row.family == "aws") {
        // The status alone says something else.
        for status in [400, 503] {
            let failed = service(status, Some(row.code), NOTHING);
            assert_eq!(seen(&failed), Some(row.says), "{row:?}");
            assert_eq!(classified(&failed), Some(row.says), "{row:?}");
            assert_eq!(word(&failed), row.code);
        }
        found += 1;
    }
    assert!(found > 20, "{found}");
}

#[test]
fn a_code_that_is_not_known_has_the_verdict_of_its_status() {
    for code in [None, Some("Unheard")] {
        assert_eq!(seen(&service(500, code, NOTHING)), DOUBT);
        let overload = Some((true, false, Health::Throttling, false));
        assert_eq!(seen(&service(503, code, NOTHING)), overload);
        let limit = Some((true, true, Health::Throttling, true));
        assert_eq!(seen(&service(429, code, NOTHING)), limit);
        assert_eq!(seen(&service(400, code, NOTHING)), None);
    }
    // An SDK that has no model of the error leaves the header.
    let header = ("x-amzn-errortype", "ns#SlowDown:");
    let limit = Some((true, true, Health::Throttling, true));
    assert_eq!(seen(&service(503, None, header)), limit);
}

#[test]
fn the_server_says_when() {
    let of = |header| error(&service(503, Some("SlowDown"), header), NotIdempotent).unwrap().hint();
    assert_eq!(of(("x-amz-retry-after", "1500")), Some(Duration::from_millis(1500)));
    assert_eq!(of(("retry-after", "2")), Some(Duration::from_secs(2)));
    assert_eq!(of(("retry-after", "soon")), None);
}

#[test]
fn an_attempt_without_an_answer_has_the_verdict_of_its_chain() {
    let of = |kind: io::ErrorKind| {
        Error::dispatch_failure(ConnectorError::io(io::Error::from(kind).into()))
    };
    let refused = Some((true, true, Health::Failing, false));
    assert_eq!(seen(&of(io::ErrorKind::ConnectionRefused)), refused);
    assert_eq!(seen(&of(io::ErrorKind::ConnectionReset)), DOUBT);
    for connector in [
        ConnectorError::timeout("late".into()),
        ConnectorError::io("words".into()),
        ConnectorError::other("words".into(), None),
    ] {
        assert_eq!(seen(&Error::dispatch_failure(connector)), DOUBT);
    }
    let user = Error::dispatch_failure(ConnectorError::user("wrong".into()));
    assert_eq!(seen(&user), OWN_FAULT);
    assert_eq!(seen(&Error::construction_failure("wrong")), OWN_FAULT);
    assert_eq!(seen(&Error::timeout_error("late")), DOUBT);
    assert!(error(&Error::timeout_error("late"), Idempotent).unwrap().is_again());
}

/// The server has executed the request.
#[test]
fn an_answer_that_cannot_be_read_leaves_a_doubt() {
    let unreadable = Error::response_error("not XML", raw(200, NOTHING));
    assert_eq!(seen(&unreadable), DOUBT);
}
