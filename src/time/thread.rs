use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::Timer;

/// The clock of the standard library, for any runtime and for threads without a runtime.
///
/// One thread wakes all sleeps of the process. The first sleep that waits starts this thread, which
/// then lives as long as the process, while a blocking run needs no such thread. A system without
/// threads polls a waiting sleep again and again.
///
/// It does not exist on wasm32-unknown-unknown, which has no clock.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use resile::time::ThreadTimer;
/// use resile::Upstream;
///
/// static STATION: Upstream<ThreadTimer> =
///     Upstream::new("station").with_timer(ThreadTimer::new());
/// # let _ = &STATION;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadTimer;

impl ThreadTimer {
    /// Creates the timer.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Timer for ThreadTimer {
    type Sleep = ThreadSleep;

    fn now(&self) -> Duration {
        origin().elapsed()
    }

    fn sleep(&self, delay: Duration) -> ThreadSleep {
        ThreadSleep { until: Instant::now().checked_add(delay), id: 0 }
    }

    fn sleep_until(&self, at: Duration) -> ThreadSleep {
        ThreadSleep { until: origin().checked_add(at), id: 0 }
    }
}

/// Returns the origin of the readings: their first use.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// A sleep on a [`ThreadTimer`].
#[must_use = "futures do nothing unless polled"]
pub struct ThreadSleep {
    /// `None` is an instant beyond the range of the clock.
    until: Option<Instant>,
    /// The number of the sleep: several may end at one instant. It is 0 before the first wait.
    id: u64,
}

impl Future for ThreadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = self.until else { return Poll::Pending };
        if Instant::now() >= until {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        let mut queue = queue();
        if self.id == 0 {
            queue.last += 1;
            self.id = queue.last;
        }
        let replaced = queue.sleepers.insert((until, self.id), waker);
        let is_next = queue.sleepers.keys().next() == Some(&(until, self.id));
        let has_thread = queue.has_thread || start();
        queue.has_thread = has_thread;
        drop(queue);
        drop(replaced); // the drop of a waker is foreign code, so it runs after the unlock
        if !has_thread {
            cx.waker().wake_by_ref();
        } else if is_next {
            CHANGED.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for ThreadSleep {
    fn drop(&mut self) {
        if let (Some(until), 1..) = (self.until, self.id) {
            let waker = queue().sleepers.remove(&(until, self.id));
            drop(waker);
        }
    }
}

impl fmt::Debug for ThreadSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadSleep").field("until", &self.until).finish_non_exhaustive()
    }
}

/// The waiting sleeps of the process.
struct Queue {
    has_thread: bool,
    last: u64,
    sleepers: BTreeMap<(Instant, u64), Waker>,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { has_thread: false, last: 0, sleepers: BTreeMap::new() });

/// Signals that another sleep is now the next one.
static CHANGED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    // No foreign code runs under the lock. The state is intact even if the lock is poisoned.
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that wakes the sleeps. Returns false if the system has none to give.
fn start() -> bool {
    thread::Builder::new().name("resile-timer".to_owned()).spawn(serve).is_ok()
}

/// Wakes each sleep when it is due, for ever.
fn serve() {
    let mut queue = queue();
    loop {
        let now = Instant::now();
        match queue.sleepers.first_key_value() {
            Some(((until, _), _)) if *until <= now => {
                let due = queue.sleepers.pop_first();
                drop(queue);
                // A waker that panics must not end the sleeps of all others.
                let _ = catch_unwind(AssertUnwindSafe(|| due.map(|(_, waker)| waker.wake())));
                queue = self::queue();
            }
            Some(((until, _), _)) => {
                let left = until.saturating_duration_since(now);
                queue = CHANGED
                    .wait_timeout(queue, left)
                    .map_or_else(|error| error.into_inner().0, |(queue, _)| queue);
            }
            None => queue = CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner),
        }
    }
}
