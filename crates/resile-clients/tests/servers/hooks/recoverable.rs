//! Errors that say themselves how to recover.

use std::time::Duration;

use recoverable::{Recovery, RecoveryInfo};
use resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_clients::recoverable::error;
use resile_clients::resile::{Health, Verdict};

/// An error that says so.
struct Says(RecoveryInfo);

impl Recovery for Says {
    fn recovery(&self) -> RecoveryInfo {
        self.0.clone()
    }
}

fn of(info: RecoveryInfo) -> Option<Verdict> {
    let says = Says(info);
    let not_idempotent = error(&says, NotIdempotent);
    assert!(not_idempotent.is_none_or(|verdict| !verdict.is_again()));
    assert_eq!(
        not_idempotent.map(|it| it.health()),
        error(&says, Idempotent).map(|it| it.health())
    );
    error(&says, Idempotent)
}

#[test]
fn each_kind_has_its_verdict() {
    let delay = Duration::from_secs(3);
    let retry = Verdict::transient().idempotent();
    assert_eq!(of(RecoveryInfo::retry()), Some(retry));
    assert_eq!(of(RecoveryInfo::retry().delay(delay)), Some(retry.after(delay)));
    let down = of(RecoveryInfo::unavailable()).unwrap();
    assert!(!down.is_again() && down.health() == Health::Failing);
    let back = of(RecoveryInfo::unavailable().delay(delay)).unwrap();
    assert!(back.is_again() && back.wait() == Some(delay));
    let never = of(RecoveryInfo::never()).unwrap();
    assert!(!never.is_again() && never.health() == Health::Unknown);
    assert_eq!(of(RecoveryInfo::unknown()), None);
}
