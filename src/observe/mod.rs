//! Who is told what happened: closures, the log, the metrics.

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "metrics")]
mod outer;
mod standard;

#[cfg(feature = "metrics")]
pub use self::metrics::Metrics;
pub use standard::Standard;

use std::panic::Location;
use std::time::Duration;

use crate::classify::Cause;

/// Is told of events of type `Ev`.
///
/// Closures observe, `()` is silent, a pair tells both, [`Standard`] is what runs use unless told otherwise.
/// Observers are called on the task that makes the call, between its steps and never under a lock: they should
/// be quick. One that panics ends the call with its panic and leaves nothing shared broken.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Event, Never, RetryPolicy, retry};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// static RETRIES: AtomicU32 = AtomicU32::new(0);
/// let count = |event: &Event<_>| {
///     if let Event::Waiting { .. } = event {
///         RETRIES.fetch_add(1, Ordering::Relaxed);
///     }
/// };
/// let outcome = retry(|_| async { Err::<(), _>("down") }, &RetryPolicy::new(), Never).with_observer(count).await;
/// assert_eq!(outcome.unwrap_err().attempts(), 3);
/// assert_eq!(RETRIES.load(Ordering::Relaxed), 2);
/// # }
/// ```
pub trait Observe<Ev: ?Sized> {
    /// Whether this observer only wants to hear of trouble. It is then not told of a call that succeeds on its first
    /// attempt (unless it is one of a pair and the other wants to), and the clock is not read on its behalf: the times
    /// in its events say what is known without.
    const TROUBLE_ONLY: bool = false;

    /// Whether anybody listens at this moment: asked before an event is put together.
    #[inline]
    fn is_enabled(&self) -> bool {
        true
    }

    /// Takes note of `event`.
    fn observe(&self, event: &Ev);

    /// Runs `poll`, which polls an attempt of the call that is observed. `counted` names the series that the call counts
    /// in.
    ///
    /// By this an observer may know which calls run within an attempt of another one. A pair hands `poll` through both of
    /// its observers, and an observer that wraps another one should do the same. By default it runs `poll` and does
    /// nothing else.
    #[inline]
    fn within<T>(&self, counted: &'static [&'static str], poll: impl FnOnce() -> T) -> T {
        let _ = counted;
        poll()
    }
}

/// The series of calls that ended.
pub(crate) const CALLS: &str = "resile_calls_total";
/// The series of attempts that ended by themselves.
pub(crate) const ATTEMPTS: &str = "resile_attempts_total";

impl<Ev: ?Sized> Observe<Ev> for () {
    const TROUBLE_ONLY: bool = true;

    #[inline]
    fn is_enabled(&self) -> bool {
        false
    }

    #[inline]
    fn observe(&self, _: &Ev) {}
}

impl<Ev: ?Sized, F: Fn(&Ev)> Observe<Ev> for F {
    #[inline]
    fn observe(&self, event: &Ev) {
        self(event);
    }
}

impl<Ev: ?Sized, A: Observe<Ev>, B: Observe<Ev>> Observe<Ev> for (A, B) {
    const TROUBLE_ONLY: bool = A::TROUBLE_ONLY && B::TROUBLE_ONLY;

    #[inline]
    fn is_enabled(&self) -> bool {
        self.0.is_enabled() || self.1.is_enabled()
    }

    #[inline]
    fn observe(&self, event: &Ev) {
        self.0.observe(event);
        self.1.observe(event);
    }

    #[inline]
    fn within<T>(&self, counted: &'static [&'static str], poll: impl FnOnce() -> T) -> T {
        self.0.within(counted, || self.1.within(counted, poll))
    }
}

/// What an event says to a log and to the metrics. The crate's events implement it; an observer may use it to write
/// its own lines and figures.
pub trait Report {
    /// Whether the event is worth a line at all.
    fn is_reported(&self) -> bool;

    /// The line.
    fn report(&self) -> Line;

    /// Hands each figure that the event changes to `put`.
    fn figures(&self, put: &mut dyn FnMut(Figure));
}

/// A figure that an event changes, with the name under which it is published.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Figure {
    /// Counts one more of this name, with this label.
    Count {
        /// The name of the counter.
        name: &'static str,
        /// The label's key.
        key: &'static str,
        /// The label's value.
        value: &'static str,
    },
    /// Sets the value of this name.
    Level {
        /// The name of the gauge.
        name: &'static str,
        /// What it stands at.
        value: f64,
    },
    /// Adds a time to the distribution of this name, in seconds.
    Time {
        /// The name of the histogram.
        name: &'static str,
        /// The time.
        value: Duration,
    },
}

/// One line of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// Worth a warning; otherwise a detail.
    pub warn: bool,
    /// What happened, in a word or three.
    pub message: &'static str,
    /// The attempt that this is about; the first is 1.
    pub attempt: Option<u32>,
    /// How many attempts the policy allows.
    pub attempts_allowed: Option<u32>,
    /// The wait before the next attempt.
    pub delay: Option<Duration>,
    /// What the peer asked us to wait.
    pub hint: Option<Duration>,
    /// Why trying again may help.
    pub cause: Option<Cause>,
    /// Why the call ended, as a stable word.
    pub stop: Option<&'static str>,
    /// Where the outer of two nested calls was made.
    pub outer: Option<&'static Location<'static>>,
    /// Where the inner of two nested calls was made.
    pub inner: Option<&'static Location<'static>>,
}
