//! `hyper`, and the clients on it: `hyper-util`, `reqwest`, `kube` and many SDKs. Their errors have no code,
//! so the kinds have names here.

#[cfg(feature = "hyper-1")]
mod error;

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

#[cfg(feature = "hyper-1")]
pub use error::error;
#[cfg(feature = "kube-5")]
pub(crate) use error::word;

/// Returns the verdict on a kind. Most of them are a method of `hyper::Error` without its `is_`.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, hyper};
///
/// let canceled = hyper::kind("canceled", NotIdempotent).unwrap();
/// assert!(canceled.is_again()); // it was never sent
/// let cut = hyper::kind("incomplete_message", NotIdempotent).unwrap();
/// assert!(!cut.is_again());
/// ```
#[must_use]
pub fn kind(kind: &str, idempotency: Idempotency) -> Option<Verdict> {
    rule(kind).map(|rule| rule.whole(idempotency))
}

fn rule(kind: &str) -> Option<Rule> {
    Some(match kind {
        "connect" => always(Failing),
        // The connection was idle, or it was none: that tells nothing of the server.
        "canceled" => always(Unknown),
        "incomplete_message" | "closed" | "timeout" | "body" => if_idempotent(Failing),
        "parse" => never(Failing),
        "user" => never(Unknown),
        _ => return None,
    })
}
