//! MongoDB: the labels of an error, its code, and the kinds of the driver.
//!
//! The driver retries by itself. Switch that off with `retry_reads(false)`, `retry_writes(false)` and
//! `max_adaptive_retries(0)`, or let it retry alone.
//!
//! An overloaded server sets the base of the delays, 100 ms if it names none. The driver has it as
//! `base_backoff`. The drivers double it before the first retry, so add `Verdict::with_base` of twice
//! the base.

#[cfg(feature = "mongodb-3")]
mod error;

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

#[cfg(feature = "mongodb-3")]
pub use error::error;

/// Returns the verdict on an error with these labels and this code. The labels count first.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, mongodb};
///
/// let labels = ["TransientTransactionError"];
/// let conflict = mongodb::code(&labels, Some(112), NotIdempotent);
/// assert!(conflict.unwrap().is_again()); // the whole transaction
/// let lost = mongodb::code(&[], Some(9001), NotIdempotent);
/// assert!(!lost.unwrap().is_again());
/// ```
#[must_use]
pub fn code(labels: &[&str], code: Option<i32>, idempotency: Idempotency) -> Option<Verdict> {
    let by_code = code.and_then(rule);
    by_labels(labels, by_code).or(by_code).map(|rule| rule.verdict(idempotency))
}

/// Returns the verdict on a kind of the driver's errors, by its name.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, mongodb};
///
/// let nobody = mongodb::kind("ServerSelection", NotIdempotent).unwrap();
/// assert!(nobody.is_again()); // nothing was sent
/// let lost = mongodb::kind("Io", NotIdempotent).unwrap();
/// assert!(!lost.is_again());
/// ```
#[must_use]
pub fn kind(kind: &str, idempotency: Idempotency) -> Option<Verdict> {
    kind_rule(kind).map(|rule| rule.verdict(idempotency))
}

fn kind_rule(kind: &str) -> Option<Rule> {
    Some(match kind {
        "ServerSelection" => always(Failing),
        "DnsResolve" => always(Unknown),
        "Io" | "ConnectionPoolCleared" => if_idempotent(Failing),
        "InvalidResponse" => never(Failing),
        "Authentication"
        | "InvalidTlsConfig"
        | "InvalidArgument"
        | "IncompatibleServer"
        | "SessionsNotSupported"
        | "Transaction"
        | "Shutdown" => never(Unknown),
        _ => return None,
    })
}

fn by_labels(labels: &[&str], by_code: Option<Rule>) -> Option<Rule> {
    by_label(|label| labels.contains(&label), by_code)
}

/// Returns the rule of the first label that counts.
fn by_label(has: impl Fn(&str) -> bool, by_code: Option<Rule>) -> Option<Rule> {
    let is_overloaded = has("SystemOverloadedError");
    Some(if is_overloaded && has("RetryableError") {
        always(Overload)
    } else if has("TransientTransactionError") {
        always(if is_overloaded { Overload } else { Healthy })
    } else if is_overloaded {
        never(Overload)
    } else if has("NoWritesPerformed") {
        always(by_code.map_or(Unknown, Rule::state))
    } else if has("UnknownTransactionCommitResult") || has("RetryableWriteError") {
        if_idempotent(Failing)
    } else if has("ResumableChangeStreamError") {
        always(Failing)
    } else {
        return None;
    })
}

const fn rule(code: i32) -> Option<Rule> {
    Some(match code {
        6 | 7 | 89 | 91 | 134 | 189 | 262 | 9001 | 10107 | 11600 | 11602 | 13435 | 13436 => {
            if_idempotent(Failing)
        }
        // In a transaction.
        112 | 251 => always(Healthy),
        // Written, and not replicated yet; and a statement that took too long.
        64 | 79 | 100 | 50 => never(Failing),
        2 | 9 | 13 | 26 | 59 | 121 | 11000 => never(Healthy),
        18 => never(Unknown),
        _ => return None,
    })
}
