use std::cell::Cell;
use std::time::Duration;

use resile::time::{Timer, TokioTimer};

use super::Scope;

thread_local! {
    /// The deadline of the future that this thread is polling.
    static CURRENT: Cell<Option<Deadline>> = const { Cell::new(None) };
}

/// An instant at which somebody stops waiting, on tokio's clock.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile_tower::deadline::Deadline;
/// use std::time::Duration;
///
/// let two = Duration::from_secs(2);
/// let handler = async { Deadline::current().map(|deadline| deadline.left()) };
/// assert_eq!(Deadline::after(two).scope(handler).await, Some(two));
/// assert_eq!(Deadline::current(), None);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline {
    /// The reading of tokio's clock.
    at: Duration,
    is_told: bool,
}

impl Deadline {
    /// Makes the deadline that is `left` from now. It saturates.
    #[must_use]
    pub fn after(left: Duration) -> Self {
        Self { at: TokioTimer::new().now().saturating_add(left), is_told: true }
    }

    /// Makes the deadline of a request that tells no time.
    #[cfg(feature = "http")]
    pub(super) fn untold(maximum: Duration) -> Self {
        Self { is_told: false, ..Self::after(maximum) }
    }

    /// Returns whether somebody has told the time. False for a request without a header, whose deadline is the
    /// maximum of the layer. A stream without an end need not end there.
    #[must_use]
    pub const fn is_told(self) -> bool {
        self.is_told
    }

    /// Returns the time that is left. Zero is over.
    #[must_use]
    pub fn left(self) -> Duration {
        self.at.saturating_sub(TokioTimer::new().now())
    }

    /// Returns the deadline of the future that this thread is polling.
    ///
    /// A task that the future spawns is another future. Give it the deadline by
    /// [`scope`](Self::scope).
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.get()
    }

    /// Makes this deadline current while `future` is polled. A deadline around the scope stays if it
    /// is earlier. The future is not cut.
    pub fn scope<F: Future>(self, future: F) -> Scope<F> {
        Scope::new(self, future)
    }

    /// Returns the reading of tokio's clock at the deadline.
    #[cfg(feature = "http")]
    pub(super) const fn reading(self) -> Duration {
        self.at
    }

    /// Makes this deadline current while the guard lives, unless the current one is earlier.
    pub(crate) fn enter(self) -> Entered {
        let outer = CURRENT.get();
        CURRENT.set(Some(outer.map_or(self, |outer| outer.min(self))));
        Entered { outer }
    }
}

/// The guard of a current deadline.
pub(crate) struct Entered {
    outer: Option<Deadline>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // A thread that ends has no current deadline any more.
        let _ = CURRENT.try_with(|current| current.set(self.outer));
    }
}

/// Returns the shorter one of two limits, as far as they are set.
pub(crate) fn least(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
