use std::borrow::Cow;
use std::time::Duration;

use ::kube_client::Error;
use ::kube_client::core::Status;
use resile::io::error_type;
use resile::{Health, Verdict};

use super::rule;
use crate::classifier::classifies;
use crate::rule::State::{Failing, Healthy, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};
use crate::{Idempotency, hyper};

/// Returns the verdict on an error of the client `kube`.
///
/// | error | again |
/// |---|---|
/// | a `Status` of the server | as its reason says, and its code if it has no known reason |
/// | … an eviction that a disruption budget refuses | always, the cluster is healthy |
/// | no answer | as [`hyper::error`](crate::hyper::error) says |
/// | a stream of events that breaks | if idempotent |
/// | authentication, configuration, a request that cannot be built | never |
/// | an answer that cannot be read | never: it may be executed |
///
/// `retryAfterSeconds` is the hint. The `Retry-After` of an answer without a `Status`, as a proxy sends
/// it, is lost in the client.
///
/// # Examples
///
/// ```
/// use resile::RetryPolicy;
/// use resile_clients::Classifier;
///
/// // Of a client with `default_retry: false`.
/// let policy = RetryPolicy::new().with_classifier(Classifier::non_idempotent());
/// # let _ = policy;
/// ```
#[must_use]
pub fn error(error: &Error, idempotency: Idempotency) -> Option<Verdict> {
    let rule = match error {
        Error::Api(status) => return by_status(status, idempotency),
        Error::HyperError(error) => return hyper::error(error, idempotency),
        Error::Service(error) => return hyper::error(&**error, idempotency),
        Error::ReadEvents(error) => {
            return Some(hyper::error(error, idempotency).unwrap_or(DOUBT.verdict(idempotency)));
        }
        Error::ProxyProtocolUnsupported { .. }
        | Error::ProxyProtocolDisabled { .. }
        | Error::FromUtf8(_)
        | Error::SerdeError(_)
        | Error::HttpError(_)
        | Error::BuildRequest(_)
        | Error::InferConfig(_)
        | Error::InferKubeconfig(_)
        | Error::TlsRequired
        | Error::Auth(_) => never(Unknown),
        _ => return None,
    };
    Some(rule.verdict(idempotency))
}

/// Nobody knows whether the request was executed.
const DOUBT: Rule = if_idempotent(Failing);

fn by_status(status: &Status, idempotency: Idempotency) -> Option<Verdict> {
    let details = status.details.as_ref();
    let mut causes = details.into_iter().flat_map(|details| &details.causes);
    let rule = if causes.any(|cause| cause.reason == "DisruptionBudget") {
        always(Healthy)
    } else {
        rule(&status.reason).or_else(|| rule(by_code(status.code)?))?
    };
    let verdict = rule.verdict(idempotency);
    let wait = details.map_or(0, |details| details.retry_after_seconds);
    let is_told =
        verdict.is_again() || matches!(verdict.health(), Health::Throttling | Health::Failing);
    Some(if wait > 0 && is_told {
        verdict.after(Duration::from_secs(wait.into()))
    } else {
        verdict
    })
}

/// Returns the reason that belongs to a code. A proxy has no reason.
const fn by_code(code: u16) -> Option<&'static str> {
    Some(match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        502 | 503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => return None,
    })
}

classifies!(Error => error, word);

/// Returns a known reason of the server, its code, or the word for the error below.
fn word(error: &Error) -> Option<Cow<'_, str>> {
    match error {
        // The client invents a reason for an answer without a `Status`.
        Error::Api(status) if rule(&status.reason).is_some() => Some(Cow::Borrowed(&status.reason)),
        Error::Api(status) => Some(status.code.to_string().into()),
        Error::HyperError(error) => hyper::word(error),
        Error::Service(error) => hyper::word(&**error),
        Error::ReadEvents(error) => error_type(error).map(Cow::Borrowed),
        _ => None,
    }
}
