//! Azure Storage. The code is in the header `x-ms-error-code`.

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload};
use crate::rule::{Rule, if_idempotent, never};

/// Returns the verdict on the code of an error.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::Idempotent, azure};
///
/// assert!(azure::code("ServerBusy", Idempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn code(code: &str, idempotency: Idempotency) -> Option<Verdict> {
    rule(code).map(|rule| rule.verdict(idempotency))
}

fn rule(code: &str) -> Option<Rule> {
    Some(match code {
        "ServerBusy" => if_idempotent(Overload),
        "InternalError" | "OperationTimedOut" => if_idempotent(Failing),
        "ContainerBeingDeleted" | "SnapshotOperationRateExceeded" | "PendingCopyOperation" => {
            if_idempotent(Healthy)
        }
        "LeaseAlreadyPresent" | "ConditionNotMet" | "BlobArchived" | "AuthenticationFailed" => {
            never(Healthy)
        }
        _ => return None,
    })
}
