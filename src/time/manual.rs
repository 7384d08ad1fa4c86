use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::Timer;

/// A clock that stands still until it is told to move: for tests that must not wait, on any runtime or none.
///
/// Clones share one clock. It starts at zero. A thread that parks on it (the blocking twin of a run) moves it
/// itself by what it wanted to wait, as nobody else could.
///
/// # Examples
///
/// ```
/// use resile::{Attempt, ManualTimer, Never, RetryPolicy, Upstream, retry};
/// use std::{pin::pin, task::{Context, Poll, Waker}, time::Duration};
///
/// let timer = ManualTimer::new();
/// let store = Upstream::new("store").with_timer(timer.clone());
/// let op = |attempt: Attempt| async move { if attempt.is_first() { Err("down") } else { Ok("up") } };
/// let run = retry(op, RetryPolicy::new(), Never).on(&store);
/// let (mut run, mut cx) = (pin!(run), Context::from_waker(Waker::noop()));
///
/// assert!(run.as_mut().poll(&mut cx).is_pending()); // the first attempt failed, the delay runs
/// timer.advance(Duration::from_secs(1));
/// assert!(matches!(run.as_mut().poll(&mut cx), Poll::Ready(Ok("up"))));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualTimer {
    shared: Arc<Mutex<ManualState>>,
}

/// Where the hands of the clock stand, and who waits for them.
#[derive(Debug, Default)]
struct ManualState {
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

    /// How many sleeps wait for the clock to move.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.state().sleepers.len()
    }

    /// How far the clock must move to wake the next sleep; `None` when nobody sleeps.
    #[must_use]
    pub fn until_next(&self) -> Option<Duration> {
        let state = self.state();
        let ((until, _), _) = state.sleepers.first_key_value()?;
        Some(until.saturating_sub(state.now))
    }

    fn state(&self) -> MutexGuard<'_, ManualState> {
        // Nothing foreign runs under the lock, so a poisoned one still holds a whole value.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut state = self.timer.state();
        let replaced = if state.now >= self.key.0 {
            state.sleepers.remove(&self.key)
        } else {
            state.sleepers.insert(self.key, waker)
        };
        let ready = state.now >= self.key.0;
        drop(state);
        drop(replaced); // a waker's drop is foreign code: not under the lock
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
