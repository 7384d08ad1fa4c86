//! Whose clock: every wait and every reading of time goes through a [`Timer`].

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A monotonic clock that can be waited on.
///
/// Time is the [`Duration`] since an origin of the timer's own choosing, so that it saturates instead of panicking
/// and works where `std::time::Instant` does not. Two timers' readings do not compare.
///
/// # Examples
///
/// A timer for another runtime is a dozen lines; this one wraps a made-up `sleep_for`:
///
/// ```
/// # use std::{future::Future, pin::Pin, time::{Duration, Instant}};
/// # fn sleep_for(_: Duration) -> std::future::Ready<()> { std::future::ready(()) }
/// struct OtherRuntime { origin: Instant }
///
/// impl resile::Timer for OtherRuntime {
///     type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
///
///     fn now(&self) -> Duration {
///         self.origin.elapsed()
///     }
///
///     fn sleep(&self, delay: Duration) -> Self::Sleep {
///         Box::pin(sleep_for(delay))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no clock to wait on",
    note = "without the feature `tokio` there is no default timer: give one with `.with_timer(…)`"
)]
pub trait Timer {
    /// What [`sleep`](Timer::sleep) returns.
    type Sleep: Future<Output = ()>;

    /// Time since the timer's origin. Never goes back.
    fn now(&self) -> Duration;

    /// Completes once `delay` has passed since this call; never earlier. Must take any `delay`, up to
    /// [`Duration::MAX`], without panicking.
    fn sleep(&self, delay: Duration) -> Self::Sleep;

    /// Completes once the timer reads `at`; never earlier, and at once or soon where it already does. Worth writing for
    /// timers that can do it without reading the clock.
    fn sleep_until(&self, at: Duration) -> Self::Sleep {
        self.sleep(at.saturating_sub(self.now()))
    }

    /// Blocks the thread for at most `limit`, or until it is unparked: how [`Run::blocking_again`] waits.
    /// Waking early is allowed.
    ///
    /// [`Run::blocking_again`]: crate::Run::blocking_again
    fn park(&self, limit: Duration) {
        std::thread::park_timeout(limit);
    }
}

impl<M: Timer + ?Sized> Timer for &M {
    type Sleep = M::Sleep;

    fn now(&self) -> Duration {
        (**self).now()
    }

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        (**self).sleep(delay)
    }

    fn sleep_until(&self, at: Duration) -> Self::Sleep {
        (**self).sleep_until(at)
    }

    fn park(&self, limit: Duration) {
        (**self).park(limit);
    }
}

/// What may stand where a timer goes: any [`Timer`], or [`NoTimer`], the empty place that
/// `with_timer` fills. Nobody needs to implement it.
pub trait TimerSlot: sealed::Sealed {
    /// What the place must hold while waiting.
    type Sleep;

    /// The time, if there is a timer to ask.
    #[doc(hidden)]
    fn reading(&self) -> Option<Duration>;
}

impl<M: Timer> TimerSlot for M {
    type Sleep = M::Sleep;

    fn reading(&self) -> Option<Duration> {
        Some(self.now())
    }
}

mod sealed {
    pub trait Sealed {}
    impl<M: super::Timer> Sealed for M {}
    impl Sealed for super::NoTimer {}
}

/// No timer yet: the default without the feature `tokio`. What holds it cannot be awaited before
/// `with_timer` has given it one, and the compiler says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoTimer;

impl TimerSlot for NoTimer {
    type Sleep = std::convert::Infallible;

    fn reading(&self) -> Option<Duration> {
        None
    }
}

/// The timer that is used when nobody gave one: [`TokioTimer`] with the feature `tokio`, otherwise [`NoTimer`].
#[cfg(feature = "tokio")]
pub type DefaultTimer = TokioTimer;
/// The timer that is used when nobody gave one: `TokioTimer` with the feature `tokio`, otherwise [`NoTimer`].
#[cfg(not(feature = "tokio"))]
pub type DefaultTimer = NoTimer;

/// The value of [`DefaultTimer`].
pub(crate) const DEFAULT_TIMER: DefaultTimer = {
    #[cfg(feature = "tokio")]
    {
        TokioTimer
    }
    #[cfg(not(feature = "tokio"))]
    {
        NoTimer
    }
};

/// In nanoseconds, which last for 584 years: for a reading or a delay that is kept in an atomic.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "compared first")]
pub(crate) const fn nanos(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

/// tokio's clock, the paused one of its tests included.
///
/// Reading it and parking on it work on any thread; sleeping needs a tokio runtime with time enabled. tokio
/// rounds sleeps up to the next millisecond.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokioTimer;

#[cfg(feature = "tokio")]
impl TokioTimer {
    /// tokio's clock.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[cfg(feature = "tokio")]
impl Timer for TokioTimer {
    /// Not held to the task's budget for one turn: an operation that uses it up in each poll would otherwise keep its
    /// own limit from ever being asked.
    type Sleep = tokio::task::coop::Unconstrained<tokio::time::Sleep>;

    fn now(&self) -> Duration {
        let now = tokio::time::Instant::now();
        now.saturating_duration_since(*ORIGIN.get_or_init(|| origin(now)))
    }

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        tokio::task::coop::unconstrained(tokio::time::sleep(delay))
    }

    fn sleep_until(&self, at: Duration) -> Self::Sleep {
        let origin = *ORIGIN.get_or_init(|| origin(tokio::time::Instant::now()));
        // With room for tokio's own rounding.
        match origin.checked_add(at).filter(|at| at.checked_add(Duration::from_secs(1)).is_some()) {
            Some(at) => tokio::task::coop::unconstrained(tokio::time::sleep_until(at)),
            None => self.sleep(Duration::MAX),
        }
    }
}

/// What readings of [`TokioTimer`] are counted from.
#[cfg(feature = "tokio")]
static ORIGIN: std::sync::OnceLock<tokio::time::Instant> = std::sync::OnceLock::new();

/// Each paused runtime has a clock of its own, and one of them may stand before the origin that another thread has just
/// set: the origin lies as far back as the system lets it, by up to 136 years.
#[cfg(feature = "tokio")]
fn origin(now: tokio::time::Instant) -> tokio::time::Instant {
    (0..=32).rev().find_map(|bits| now.checked_sub(Duration::from_secs(1 << bits))).unwrap_or(now)
}

/// A clock that stands still until it is told to move: for tests that must not wait, on any runtime or none.
///
/// Clones share one clock. It starts at zero. A thread that parks on it (the blocking twin of a run) moves it
/// itself by what it wanted to wait, as nobody else could.
///
/// # Examples
///
/// ```
/// use resile::{ManualTimer, Never, RetryPolicy, retry};
/// use std::{pin::pin, task::{Context, Poll, Waker}, time::Duration};
///
/// let timer = ManualTimer::new();
/// let policy = RetryPolicy::new();
/// let run = retry(|attempt| async move { if attempt.is_first() { Err("down") } else { Ok("up") } }, &policy, Never)
///     .with_timer(&timer);
/// let (mut run, mut cx) = (pin!(run), Context::from_waker(Waker::noop()));
///
/// assert!(run.as_mut().poll(&mut cx).is_pending()); // the first attempt failed, the delay runs
/// timer.advance(Duration::from_secs(1));
/// assert_eq!(run.as_mut().poll(&mut cx), Poll::Ready(Ok("up")));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualTimer {
    shared: Arc<Mutex<Hands>>,
}

/// Where the hands of the clock stand, and who waits for them.
#[derive(Debug, Default)]
struct Hands {
    now: Duration,
    next: u64,
    sleepers: BTreeMap<(Duration, u64), Waker>,
}

impl ManualTimer {
    /// A clock at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward, at most to [`Duration::MAX`], and wakes every sleep that has run out.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut hands = self.hands();
            hands.now = hands.now.saturating_add(by);
            let later = match hands.now.checked_add(Duration::from_nanos(1)) {
                Some(bound) => hands.sleepers.split_off(&(bound, 0)),
                None => BTreeMap::new(),
            };
            std::mem::replace(&mut hands.sleepers, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// How many sleeps wait for the clock to move.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.hands().sleepers.len()
    }

    /// How far the clock must move to wake the next sleep; `None` when nobody sleeps.
    #[must_use]
    pub fn until_next(&self) -> Option<Duration> {
        let hands = self.hands();
        let ((until, _), _) = hands.sleepers.first_key_value()?;
        Some(until.saturating_sub(hands.now))
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        // Nothing foreign runs under the lock, so a poisoned one still holds a whole value.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timer for ManualTimer {
    type Sleep = ManualSleep;

    fn now(&self) -> Duration {
        self.hands().now
    }

    fn sleep(&self, delay: Duration) -> ManualSleep {
        let mut hands = self.hands();
        let until = hands.now.saturating_add(delay);
        let id = hands.next;
        hands.next = hands.next.wrapping_add(1);
        drop(hands);
        ManualSleep { timer: self.clone(), key: (until, id) }
    }

    fn park(&self, limit: Duration) {
        self.advance(limit);
    }
}

/// A wait on a [`ManualTimer`].
#[must_use = "futures do nothing unless polled"]
pub struct ManualSleep {
    timer: ManualTimer,
    key: (Duration, u64),
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut hands = self.timer.hands();
        let replaced = if hands.now >= self.key.0 {
            hands.sleepers.remove(&self.key)
        } else {
            hands.sleepers.insert(self.key, waker)
        };
        let ready = hands.now >= self.key.0;
        drop(hands);
        drop(replaced); // a waker's drop is foreign code: not under the lock
        if ready { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        let waker = self.timer.hands().sleepers.remove(&self.key);
        drop(waker);
    }
}

impl fmt::Debug for ManualSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualSleep").field("until", &self.key.0).finish_non_exhaustive()
    }
}
