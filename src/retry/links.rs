use std::time::Duration;

use crate::backoff::Draw;
use crate::breaker::{Guard, Open, Ticket};
use crate::classify::{Cause, Verdict};
use crate::cooldown::Gate;

/// What a run is linked to beside its budget. Nobody needs to implement it.
pub trait Links: sealed::Sealed {}

impl<L: sealed::Sealed> Links for L {}

/// Linked to nothing, at no cost.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unlinked;

/// Linked to a breaker, a cooldown or both.
pub struct Linked<'a> {
    breaker: Option<&'a dyn Guard>,
    cooldown: Option<&'a Gate>,
    /// The breaker's permit for the attempt in flight.
    ticket: Option<Ticket>,
}

mod sealed {
    use super::{Cause, Duration, Linked, Open, Unlinked, Verdict, wait_at};

    /// The steps of a run that concern what it is linked to.
    pub trait Sealed {
        const LINKED: bool;

        /// How much of the elapsed time the deadline does not count, in nanoseconds.
        #[inline]
        fn forgiven(&self) -> u64 {
            0
        }

        /// How long the next attempt is held, if it is.
        fn hold(&self, now: impl Fn() -> Duration) -> Option<Duration>;

        /// Asks to begin an attempt.
        fn admit(&mut self) -> Result<(), Open>;

        /// The refusal that an attempt after `delay` would meet, if that is certain.
        #[inline]
        fn refusal_within(&self, _delay: Duration) -> Option<Open> {
            None
        }

        /// Tells that the attempt succeeded; `at` is when its one turn began, in nanoseconds on tokio's clock, where that
        /// is known.
        fn succeeded(&mut self, at: Option<u64>);

        /// Tells how the attempt failed; `at` is when, as above, and `now` the same on the run's timer, whichever it is.
        fn failed(&mut self, verdict: Verdict, at: Option<u64>, now: impl Fn() -> Duration);

        /// The attempt was cut short: that says nothing.
        fn forget(&mut self);
    }

    impl Sealed for Unlinked {
        const LINKED: bool = false;

        #[inline]
        fn hold(&self, _: impl Fn() -> Duration) -> Option<Duration> {
            None
        }

        #[inline]
        fn admit(&mut self) -> Result<(), Open> {
            Ok(())
        }

        #[inline]
        fn succeeded(&mut self, _: Option<u64>) {}

        #[inline]
        fn failed(&mut self, _: Verdict, _: Option<u64>, _: impl Fn() -> Duration) {}

        #[inline]
        fn forget(&mut self) {}
    }

    impl Sealed for Linked<'_> {
        const LINKED: bool = true;

        #[inline]
        fn hold(&self, now: impl Fn() -> Duration) -> Option<Duration> {
            let gate = self.cooldown.filter(|gate| !gate.is_free())?;
            wait_at(gate, now())
        }

        #[inline]
        fn admit(&mut self) -> Result<(), Open> {
            if let Some(breaker) = self.breaker {
                // Where the operation panicked before it gave an attempt, there is still the one for that.
                self.forget();
                self.ticket = Some(breaker.admit()?);
            }
            Ok(())
        }

        #[inline]
        fn refusal_within(&self, delay: Duration) -> Option<Open> {
            self.breaker.and_then(|breaker| breaker.refusal_within(delay))
        }

        #[inline]
        fn succeeded(&mut self, at: Option<u64>) {
            self.settle(None, at);
        }

        #[inline]
        fn failed(&mut self, verdict: Verdict, at: Option<u64>, now: impl Fn() -> Duration) {
            if let (Some(gate), Some(Cause::Throttled)) = (self.cooldown, verdict.cause()) {
                gate.hold(now(), verdict);
            }
            self.settle(Some(&verdict), at);
        }

        #[inline]
        fn forget(&mut self) {
            if self.ticket.is_some() {
                self.give_back();
            }
        }
    }
}

pub(crate) use sealed::Sealed as Steps;

/// Out of the way of calls that nothing holds.
#[cold]
#[inline(never)]
fn wait_at(gate: &Gate, now: Duration) -> Option<Duration> {
    gate.wait(now, &mut Draw)
}

/// Linked to nothing, under a deadline that may count anew: what a stream is.
#[cfg(feature = "stream")]
#[derive(Debug, Default)]
pub(crate) struct Forgiving {
    /// In nanoseconds.
    pub(super) forgiven: u64,
}

#[cfg(feature = "stream")]
impl sealed::Sealed for Forgiving {
    const LINKED: bool = false;

    fn forgiven(&self) -> u64 {
        self.forgiven
    }

    fn hold(&self, _: impl Fn() -> Duration) -> Option<Duration> {
        None
    }

    fn admit(&mut self) -> Result<(), Open> {
        Ok(())
    }

    fn succeeded(&mut self, _: Option<u64>) {}

    fn failed(&mut self, _: Verdict, _: Option<u64>, _: impl Fn() -> Duration) {}

    fn forget(&mut self) {}
}

/// What may be linked to one more thing: all that [`Links`] are. Nobody needs to implement it.
pub trait Link<'a>: Links {
    #[doc(hidden)]
    fn linked(self) -> Linked<'a>;
}

impl<'a> Link<'a> for Unlinked {
    fn linked(self) -> Linked<'a> {
        Linked { breaker: None, cooldown: None, ticket: None }
    }
}

impl<'a> Link<'a> for Linked<'a> {
    fn linked(self) -> Linked<'a> {
        self
    }
}

impl<'a> Linked<'a> {
    pub(super) fn set_breaker(&mut self, breaker: &'a dyn Guard) {
        self.forget();
        self.breaker = Some(breaker);
    }

    pub(super) const fn set_cooldown(&mut self, cooldown: &'a Gate) {
        self.cooldown = Some(cooldown);
    }

    #[cold]
    #[inline(never)]
    fn give_back(&mut self) {
        if let (Some(breaker), Some(ticket)) = (self.breaker, self.ticket.take()) {
            breaker.forget(ticket);
        }
    }

    #[inline]
    fn settle(&mut self, verdict: Option<&Verdict>, at: Option<u64>) {
        if let (Some(breaker), Some(ticket)) = (self.breaker, self.ticket.take()) {
            breaker.settle(ticket, verdict, at);
        }
    }
}

impl Drop for Linked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.forget();
    }
}

impl std::fmt::Debug for Linked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Linked")
            .field("breaker", &self.breaker.is_some())
            .field("cooldown", &self.cooldown.is_some())
            .finish_non_exhaustive()
    }
}
