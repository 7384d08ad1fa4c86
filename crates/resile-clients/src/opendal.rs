//! `opendal`: the kinds of its errors.
//!
//! An error that its `RetryLayer` gave up is persistent and never sent again. The layer repeats each
//! operation whose error is temporary, also a write that may have been executed: leave it out.

#[cfg(feature = "opendal-0_59")]
mod error;

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, OwnLimit, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

#[cfg(feature = "opendal-0_59")]
pub use error::error;

/// Returns the verdict on a kind, by its name. `is_temporary` is what the error says of itself.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, opendal};
///
/// let limited = opendal::kind("RateLimited", true, NotIdempotent).unwrap();
/// assert!(limited.is_again() && limited.is_own_limit());
/// let lost = opendal::kind("Unexpected", true, NotIdempotent).unwrap();
/// assert!(!lost.is_again());
/// ```
#[must_use]
pub fn kind(kind: &str, is_temporary: bool, idempotency: Idempotency) -> Option<Verdict> {
    rule(kind, is_temporary).map(|rule| rule.verdict(idempotency))
}

fn rule(kind: &str, is_temporary: bool) -> Option<Rule> {
    let state = match kind {
        "RateLimited" if is_temporary => return Some(always(OwnLimit)),
        "RateLimited" => OwnLimit,
        "Unexpected" if is_temporary => Failing,
        "Unexpected" | "PermissionDenied" | "ConfigInvalid" => Unknown,
        "Unsupported" | "NotFound" | "IsADirectory" | "NotADirectory" | "AlreadyExists"
        | "IsSameFile" | "ConditionNotMatch" | "RangeNotSatisfied" | "Conflict" => Healthy,
        _ => return None,
    };
    Some(if is_temporary { if_idempotent(state) } else { never(state) })
}
