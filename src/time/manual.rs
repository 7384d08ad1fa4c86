use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{Timer, sequence};

/// A clock that only advances by hand. It serves tests without real waits on any runtime or none.
///
/// Clones share one clock, which starts at zero. A thread that parks on the clock (in a blocking
/// run) advances the clock by the whole wait, because no other thread could advance it.
///
/// Clones also share one sequence of [draws](Timer::draw). It begins with a seed, so a test draws
/// the same numbers in each run. The seed of [`new`](Self::new) is 0.
///
/// # Examples
///
/// ```
/// use resile::time::ManualTimer;
/// use resile::{Attempt, Never, RetryPolicy, Upstream, retry};
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
///
/// let timer = ManualTimer::new();
/// let store = Upstream::new("store").with_timer(timer.clone());
/// let op = |attempt: Attempt| async move {
///     if attempt.is_first() { Err("down") } else { Ok("up") }
/// };
/// let run = retry(op, RetryPolicy::new(), Never).on(&store);
/// let (mut run, mut cx) = (pin!(run), Context::from_waker(Waker::noop()));
///
/// // The first attempt fails, and the delay begins.
/// assert!(run.as_mut().poll(&mut cx).is_pending());
/// timer.advance(Duration::from_secs(1));
/// assert!(matches!(run.as_mut().poll(&mut cx), Poll::Ready(Ok("up"))));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualTimer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<ManualState>,
    /// The state of the sequence of draws.
    draws: AtomicU64,
}

/// The reading of the clock and the waiting sleeps.
#[derive(Debug, Default)]
struct ManualState {
    now: Duration,
    next: u64,
    sleepers: BTreeMap<(Duration, u64), Waker>,
}

impl ManualTimer {
    /// Creates a clock at zero, with the seed 0.
    ///
    /// Two timers made by this method draw the same numbers. If a test needs other ones, for
    /// example for two processes or for many runs of a model, use [`with_seed`](Self::with_seed).
    #[must_use]
    pub fn new() -> Self {
        Self::with_seed(0)
    }

    /// Creates a clock at zero, whose draws begin with `seed`.
    ///
    /// The draws are those of `SplitMix64`, as in [`Seeded`](crate::time::Seeded).
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        let shared = Shared { state: Mutex::default(), draws: AtomicU64::new(seed) };
        Self { shared: Arc::new(shared) }
    }

    /// Advances the clock, at most to [`Duration::MAX`], and wakes every sleep that is due.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut state = self.state();
            state.now = state.now.saturating_add(by);
            let later = match state.now.checked_add(Duration::from_nanos(1)) {
                Some(bound) => state.sleepers.split_off(&(bound, 0)),
                None => BTreeMap::new(),
            };
            std::mem::replace(&mut state.sleepers, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// Returns the number of waiting sleeps.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.state().sleepers.len()
    }

    /// Returns the time until the next waiting sleep is due, or `None` if no sleep waits.
    #[must_use]
    pub fn until_next(&self) -> Option<Duration> {
        let state = self.state();
        let ((until, _), _) = state.sleepers.first_key_value()?;
        Some(until.saturating_sub(state.now))
    }

    fn state(&self) -> MutexGuard<'_, ManualState> {
        // No foreign code runs under the lock. The state is intact even if the lock is poisoned.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timer for ManualTimer {
    type Sleep = ManualSleep;

    fn now(&self) -> Duration {
        self.state().now
    }

    fn sleep(&self, delay: Duration) -> ManualSleep {
        let mut state = self.state();
        let until = state.now.saturating_add(delay);
        let id = state.next;
        state.next = state.next.wrapping_add(1);
        drop(state);
        ManualSleep { timer: self.clone(), key: (until, id) }
    }

    fn park(&self, limit: Duration) {
        self.advance(limit);
    }

    fn draw(&self) -> u64 {
        sequence::next(&self.shared.draws)
    }
}

/// A sleep on a [`ManualTimer`].
#[must_use = "futures do nothing unless polled"]
pub struct ManualSleep {
    timer: ManualTimer,
    key: (Duration, u64),
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.timer.state();
        let replaced = if state.now >= self.key.0 {
            state.sleepers.remove(&self.key)
        } else {
            state.sleepers.insert(self.key, waker)
        };
        let ready = state.now >= self.key.0;
        drop(state);
        drop(replaced); // the drop of a waker is foreign code, so it runs after the unlock
        if ready { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        let waker = self.timer.state().sleepers.remove(&self.key);
        drop(waker);
    }
}

impl fmt::Debug for ManualSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualSleep").field("until", &self.key.0).finish_non_exhaustive()
    }
}
