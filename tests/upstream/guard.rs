//! An upstream with a breaker and a manual clock, with attempts made by hand.

use std::convert::Infallible;

use resile::breaker::{Snapshot, State};
use resile::call::Admission;
use resile::time::ManualTimer;
use resile::upstream::Isolation;
use resile::{Breaker, GaveUp, StopReason, Upstream, Verdict};

pub(crate) type Permit<'a> = Admission<&'a Upstream<ManualTimer>>;

#[derive(Debug)]
pub(crate) struct Guard(pub(crate) Upstream<ManualTimer>);

/// Creates an upstream without an observer.
pub(crate) fn guard(timer: &ManualTimer, settings: impl FnOnce(Breaker) -> Breaker) -> Guard {
    let breaker = settings(Breaker::new());
    Guard(
        Upstream::new("guarded").with_breaker(breaker).with_observer(&()).with_timer(timer.clone()),
    )
}

impl Guard {
    pub(crate) fn permit(&self) -> Result<Permit<'_>, GaveUp<Infallible>> {
        self.0.try_admit().inspect_err(|refused| {
            assert_eq!((refused.reason(), refused.attempts()), (StopReason::Open, 0));
        })
    }

    pub(crate) fn fail(&self) {
        self.permit().unwrap().settle(&Verdict::transient());
    }

    pub(crate) fn succeed(&self) {
        self.permit().unwrap().succeeded();
    }

    pub(crate) fn state(&self) -> State {
        self.0.breaker().unwrap().state()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.0.snapshot().unwrap()
    }

    pub(crate) fn reset(&self) {
        self.0.reset();
    }

    pub(crate) fn isolate(&self) -> Isolation<'_, ManualTimer> {
        self.0.isolate()
    }
}
