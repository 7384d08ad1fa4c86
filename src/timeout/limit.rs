use std::time::Duration;

use super::Adaptive;
use crate::time::Timer;

/// How long a future may take: a fixed [`Duration`], or a reference to an [`Adaptive`] limit. Nobody needs to implement
/// it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no limit of time",
    note = "a limit is a `Duration` or a `&Adaptive`"
)]
pub trait Limit: sealed::Sealed {
    /// What is remembered of a call that had to be waited for.
    #[doc(hidden)]
    type Call: Copy;

    /// A call has to be waited for.
    #[doc(hidden)]
    fn begin<M: Timer>(&self, timer: &M) -> Self::Call;

    /// How long that call may take.
    #[doc(hidden)]
    fn of(&self, call: Self::Call) -> Duration;

    /// Waits for the end of that time.
    #[doc(hidden)]
    fn sleep<M: Timer>(&self, call: Self::Call, timer: &M) -> M::Sleep;

    /// The call came to a success.
    #[doc(hidden)]
    fn succeeded<M: Timer>(&self, call: Self::Call, timer: &M);

    /// The call was cut.
    #[doc(hidden)]
    fn ran_out<M: Timer>(&self, call: Self::Call, timer: &M);

    /// How long a call that began now might take.
    #[doc(hidden)]
    fn current(&self) -> Duration;
}

impl Limit for Duration {
    type Call = ();

    #[inline]
    fn begin<M: Timer>(&self, _: &M) {}

    #[inline]
    fn of(&self, (): ()) -> Duration {
        *self
    }

    #[inline]
    fn sleep<M: Timer>(&self, (): (), timer: &M) -> M::Sleep {
        timer.sleep(*self)
    }

    #[inline]
    fn succeeded<M: Timer>(&self, (): (), _: &M) {}

    #[inline]
    fn ran_out<M: Timer>(&self, (): (), _: &M) {}

    fn current(&self) -> Duration {
        *self
    }
}

/// When a call had to be waited for the first time, and what it was then given.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    at: Duration,
    limit: Duration,
}

impl Limit for &Adaptive {
    type Call = Begun;

    #[inline]
    fn begin<M: Timer>(&self, timer: &M) -> Begun {
        let at = timer.now();
        Begun { at, limit: self.limit_at(at) }
    }

    #[inline]
    fn of(&self, call: Begun) -> Duration {
        call.limit
    }

    // From the reading that there is: a sleep of a length would take another.
    #[inline]
    fn sleep<M: Timer>(&self, call: Begun, timer: &M) -> M::Sleep {
        timer.sleep_until(call.at.saturating_add(call.limit))
    }

    #[inline]
    fn succeeded<M: Timer>(&self, call: Begun, timer: &M) {
        let now = timer.now();
        self.record(now, now.saturating_sub(call.at));
    }

    fn ran_out<M: Timer>(&self, call: Begun, timer: &M) {
        self.record_cut(timer.now(), call.limit);
    }

    fn current(&self) -> Duration {
        self.limit()
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for std::time::Duration {}
    impl Sealed for &super::Adaptive {}
}
