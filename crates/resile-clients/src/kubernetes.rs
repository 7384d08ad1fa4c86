//! Kubernetes: the `reason` of a `Status`.
//!
//! kube 5 retries 429, 503 and 504 by itself, for every method: set `default_retry` to false. A
//! conflict is resolved one level up: read, change and write again.

#[cfg(feature = "kube-5")]
mod error;

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

#[cfg(feature = "kube-5")]
pub use error::error;

/// Returns the verdict on the reason of a `Status`. Its `retryAfterSeconds` is the hint: add it with
/// [`Verdict::after`].
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, kubernetes};
///
/// let busy = kubernetes::reason("TooManyRequests", NotIdempotent);
/// assert!(busy.unwrap().is_again());
/// let late = kubernetes::reason("Timeout", NotIdempotent);
/// assert!(!late.unwrap().is_again()); // it may have been created
/// ```
#[must_use]
pub fn reason(reason: &str, idempotency: Idempotency) -> Option<Verdict> {
    rule(reason).map(|rule| rule.verdict(idempotency))
}

fn rule(reason: &str) -> Option<Rule> {
    Some(match reason {
        "TooManyRequests" => always(Overload),
        "ServerTimeout" | "ServiceUnavailable" | "Timeout" | "InternalError" => {
            if_idempotent(Failing)
        }
        "Unauthorized" => never(Unknown),
        "Conflict"
        | "AlreadyExists"
        | "Gone"
        | "Expired"
        | "Forbidden"
        | "NotFound"
        | "MethodNotAllowed"
        | "RequestEntityTooLarge"
        | "UnsupportedMediaType"
        | "Invalid" => never(Healthy),
        _ => return None,
    })
}
