//! What an operator sees: events for closures, the log and the metrics.

mod event;
mod log;
#[cfg(feature = "metrics")]
mod metrics;

pub use self::log::Log;
#[cfg(feature = "metrics")]
pub use self::metrics::Metrics;
pub use event::{AttemptFailure, Call, CallKind, Event, EventKind, Gauges, HeldBy};

use std::sync::Arc;

/// Observes the calls on an [`Upstream`](crate::Upstream).
///
/// A closure `|event: &Event<'_>| …` observes, `()` is silent, a pair observes with both, and [`Log`] is what an upstream
/// has unless it is given another. Observers are called on the task that makes the call, between its steps and never
/// under a lock: they should be quick. One that panics ends the call with its panic and leaves nothing shared broken.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::observe::{Event, EventKind, Log};
/// use resile::{Never, RetryPolicy, Upstream, retry};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// static RETRIES: AtomicU32 = AtomicU32::new(0);
/// fn count(event: &Event<'_>) {
///     if let EventKind::Waiting { .. } = event.kind {
///         RETRIES.fetch_add(1, Ordering::Relaxed);
///     }
/// }
/// static STORE: Upstream = Upstream::new("store").with_observer(&(Log, count as fn(&Event<'_>)));
///
/// let outcome = retry(|_| async { Err::<(), _>("down") }, RetryPolicy::new(), Never).on(&STORE).await;
/// assert_eq!(outcome.unwrap_err().attempts(), 3);
/// assert_eq!(RETRIES.load(Ordering::Relaxed), 2);
/// # }
/// ```
pub trait Observe {
    /// Returns whether anybody listens at this moment. It is asked before an event is put together.
    #[inline]
    fn is_enabled(&self) -> bool {
        true
    }

    /// Returns whether the observer wants all events, with their times. False: it wants trouble alone, gets no event of a
    /// call that succeeds on its first attempt, and no clock is read on its behalf.
    #[inline]
    fn wants_all(&self) -> bool {
        true
    }

    /// Takes note of `event`.
    fn observe(&self, event: &Event<'_>);
}

impl Observe for () {
    #[inline]
    fn is_enabled(&self) -> bool {
        false
    }

    #[inline]
    fn wants_all(&self) -> bool {
        false
    }

    #[inline]
    fn observe(&self, _: &Event<'_>) {}
}

impl<F: Fn(&Event<'_>)> Observe for F {
    #[inline]
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

impl<A: Observe, B: Observe> Observe for (A, B) {
    #[inline]
    fn is_enabled(&self) -> bool {
        self.0.is_enabled() || self.1.is_enabled()
    }

    #[inline]
    fn wants_all(&self) -> bool {
        self.0.wants_all() || self.1.wants_all()
    }

    #[inline]
    fn observe(&self, event: &Event<'_>) {
        self.0.observe(event);
        self.1.observe(event);
    }
}

impl<O: Observe + ?Sized> Observe for Arc<O> {
    #[inline]
    fn is_enabled(&self) -> bool {
        (**self).is_enabled()
    }

    #[inline]
    fn wants_all(&self) -> bool {
        (**self).wants_all()
    }

    #[inline]
    fn observe(&self, event: &Event<'_>) {
        (**self).observe(event);
    }
}
