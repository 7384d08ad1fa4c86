//! Errors that say themselves how to recover, with the trait of the crate `recoverable`.

use ::recoverable::{Recovery, RecoveryKind};
use resile::{Health, Verdict};

use crate::Idempotency;
use crate::rule::State::Failing;
use crate::rule::{if_idempotent, never};

/// Returns the verdict of an error on itself.
///
/// The trait does not say whether the request was executed. So under `NotIdempotent` no error is sent
/// again. `Retry` is sent again after its delay, if it has one. `Unavailable` is not, unless it
/// has a delay: then the upstream is expected back, at the earliest after it. `Never` is the fault of
/// the request, and `Unknown` has no verdict.
///
/// # Examples
///
/// ```
/// use recoverable::{Recovery, RecoveryInfo};
/// use resile_clients::{Idempotency::Idempotent, recoverable::error};
///
/// struct Busy;
///
/// impl Recovery for Busy {
///     fn recovery(&self) -> RecoveryInfo {
///         RecoveryInfo::retry()
///     }
/// }
/// assert!(error(&Busy, Idempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn error<E: Recovery + ?Sized>(error: &E, idempotency: Idempotency) -> Option<Verdict> {
    let recovery = error.recovery();
    let transient = if_idempotent(Failing).verdict(idempotency);
    Some(match (recovery.kind(), recovery.get_delay()) {
        (RecoveryKind::Retry, Some(delay)) => transient.after(delay),
        (RecoveryKind::Retry, None) => transient,
        (RecoveryKind::Unavailable, Some(delay)) => transient.at_least(delay),
        (RecoveryKind::Unavailable, None) => never(Failing).verdict(idempotency),
        (RecoveryKind::Never, _) => Verdict::fatal().with_health(Health::Unknown),
        _ => return None,
    })
}
