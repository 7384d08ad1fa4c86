//! Google Cloud Storage.
//!
//! A conditional write, such as one with `ifGenerationMatch`, is idempotent. A resumable upload asks
//! for its offset before it goes on, so its parts are idempotent too.

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, OwnLimit};
use crate::rule::{Rule, always, if_idempotent, never};

/// Returns the verdict on the `reason` in the body of an error. It says more than the status.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, gcs};
///
/// let limited = gcs::reason("rateLimitExceeded", NotIdempotent).unwrap();
/// assert!(limited.is_again());
/// ```
#[must_use]
pub fn reason(reason: &str, idempotency: Idempotency) -> Option<Verdict> {
    match reason {
        "rateLimitExceeded" | "userRateLimitExceeded" => Some(always(OwnLimit)),
        "quotaExceeded" | "dailyLimitExceeded" => Some(never(OwnLimit)),
        _ => None,
    }
    .map(|rule| rule.verdict(idempotency))
}

/// Returns the verdict on a status that may pass. The verdicts on other statuses are those of
/// `http::Classifier`.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::Idempotent, gcs};
///
/// assert!(gcs::status(503, Idempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn status(status: u16, idempotency: Idempotency) -> Option<Verdict> {
    rule(status).map(|rule| rule.verdict(idempotency))
}

const fn rule(status: u16) -> Option<Rule> {
    Some(match status {
        429 => if_idempotent(OwnLimit),
        408 | 500 | 502 | 503 | 504 => if_idempotent(Failing),
        _ => return None,
    })
}
