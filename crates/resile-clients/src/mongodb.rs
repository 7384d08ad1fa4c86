//! MongoDB: the labels of an error, and its code.
//!
//! The driver retries by itself. Switch that off with `retry_reads(false)`, `retry_writes(false)` and
//! `max_adaptive_retries(0)`, or let it retry alone.
//!
//! An overloaded server sets the base of the delays, 100 ms if it names none. The driver has it as
//! `base_backoff`: add it with `Verdict::with_base`.

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

/// Returns the verdict on an error with these labels and this code. The labels count first.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, mongodb};
///
/// let labels = ["TransientTransactionError"];
/// let conflict = mongodb::error(&labels, Some(112), NotIdempotent);
/// assert!(conflict.unwrap().is_again()); // the whole transaction
/// let lost = mongodb::error(&[], Some(9001), NotIdempotent);
/// assert!(!lost.unwrap().is_again());
/// ```
#[must_use]
pub fn error(labels: &[&str], code: Option<i32>, idempotency: Idempotency) -> Option<Verdict> {
    let by_code = code.and_then(rule);
    by_labels(labels, by_code).or(by_code).map(|rule| rule.verdict(idempotency))
}

fn by_labels(labels: &[&str], by_code: Option<Rule>) -> Option<Rule> {
    let has = |label| labels.contains(&label);
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
