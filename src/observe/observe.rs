use super::event::Event;
use std::sync::Arc;

/// Observes the calls on an [`Upstream`](crate::Upstream).
///
/// A closure `|event: &Event<'_>| …` is an observer, `()` observes nothing, and a pair calls both
/// of its observers. [`Log`](super::Log) is the default observer of an upstream.
///
/// The task of the call runs the observer, so an observer must be quick, but no lock is held
/// meanwhile. A panic of the observer ends the call with that panic. Shared state stays intact.
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
///     // An attempt after the first one is a retry that was sent.
///     if let EventKind::Started { attempt, .. } = event.kind {
///         RETRIES.fetch_add(u32::from(!attempt.is_first()), Ordering::Relaxed);
///     }
/// }
/// static STORE: Upstream =
///     Upstream::new("store").with_observer(&(Log, count as fn(&Event<'_>)));
///
/// let down = |_| async { Err::<(), _>("down") };
/// let outcome = retry(down, RetryPolicy::new(), Never).on(&STORE).await;
/// assert_eq!(outcome.unwrap_err().attempts(), 3);
/// assert_eq!(RETRIES.load(Ordering::Relaxed), 2);
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an observer: that is a closure `|event: &Event<'_>| …`, a type with `impl Observe` or a pair of observers, and pairs nest: `(Log, (Metrics, watch))`",
    label = "not an observer"
)]
pub trait Observe {
    /// Returns whether the observer wants events at this moment. The default is `true`.
    ///
    /// This is called before an event is built.
    #[inline]
    fn is_enabled(&self) -> bool {
        true
    }

    /// Returns whether the observer wants all events with their times. The default is `true`.
    ///
    /// With `false` a call that succeeds on its first attempt emits no event. The clock is then
    /// not read for the observer.
    #[inline]
    fn wants_all(&self) -> bool {
        true
    }

    /// Handles `event`.
    fn observe(&self, event: &Event<'_>);

    /// Returns whether the observer contains [`Log`](super::Log) and the log is enabled.
    #[doc(hidden)]
    #[inline]
    fn writes_log(&self) -> bool {
        false
    }
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

    #[inline]
    fn writes_log(&self) -> bool {
        self.0.writes_log() || self.1.writes_log()
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

    #[inline]
    fn writes_log(&self) -> bool {
        (**self).writes_log()
    }
}
