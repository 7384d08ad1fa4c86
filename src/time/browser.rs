use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Timer;
use super::script::{SCRIPT, Script};

/// The clock of JavaScript: `performance.now` and `setTimeout`. It works in a window, in a worker
/// and in Node. It exists on wasm32-unknown-unknown, with the feature `browser`.
///
/// A sleep lasts at least as long as it should. It may last longer, because browsers delay the
/// timeouts of a hidden page to a whole second or to a whole minute, and some stop the clock while
/// the machine sleeps. The drop of a sleep clears its timeout.
///
/// Nothing can block a page, so [`park`](Timer::park) returns at once and a blocking run keeps its
/// thread busy until the wait is over. Await [`Run::next`](crate::Run::next) instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrowserTimer;

impl BrowserTimer {
    /// Creates the timer.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Timer for BrowserTimer {
    type Sleep = BrowserSleep;

    fn now(&self) -> Duration {
        SCRIPT.with(Script::now)
    }

    fn sleep(&self, delay: Duration) -> BrowserSleep {
        self.sleep_until(self.now().saturating_add(delay))
    }

    fn sleep_until(&self, at: Duration) -> BrowserSleep {
        BrowserSleep { until: at, id: 0 }
    }
}

/// A sleep on a [`BrowserTimer`].
#[must_use = "futures do nothing unless polled"]
pub struct BrowserSleep {
    until: Duration,
    /// The key of the timeout in the table of its thread, or 0 before the first poll.
    id: u64,
}

impl Future for BrowserSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        SCRIPT.with(|script| {
            let left = self.until.saturating_sub(script.now());
            if left.is_zero() {
                script.clear(self.id);
                return Poll::Ready(());
            }
            if !script.replace(self.id, cx.waker()) {
                self.id = script.set(left, cx.waker());
            }
            Poll::Pending
        })
    }
}

impl Drop for BrowserSleep {
    fn drop(&mut self) {
        // An exiting worker may have no table any more.
        let _ = SCRIPT.try_with(|script| script.clear(self.id));
    }
}

impl fmt::Debug for BrowserSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserSleep").field("until", &self.until).finish_non_exhaustive()
    }
}
