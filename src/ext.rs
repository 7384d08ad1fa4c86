//! The postfix adapters.

#[cfg(feature = "chaos")]
use crate::chaos::{Chaos, Disturbed};
use crate::time::DefaultTimer;
use crate::timeout::{Limit, Timeout};

/// Postfix adapters for any future. Where an adapter stands says what it covers.
pub trait ResilienceExt: Future + Sized {
    /// Gives the future `limit` from its first poll to finish. Its error type must be able to say so:
    /// `E: From<Elapsed>`.
    ///
    /// The limit is a [`Duration`](std::time::Duration), or a reference to an [`Adaptive`](crate::Adaptive) one.
    ///
    /// The future is polled before the limit: a result in hand beats it. A limit of zero gives it one poll. No
    /// timer is made for a future that is ready at once.
    ///
    /// # Cancel safety
    ///
    /// As that of the future. When the limit runs out the future is not polled again, and is dropped with this one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::ResilienceExt;
    /// use std::time::Duration;
    ///
    /// async fn hangs() -> anyhow::Result<()> {
    ///     std::future::pending().await
    /// }
    /// let error = hangs().timeout(Duration::from_secs(30)).await.unwrap_err();
    /// assert_eq!(error.to_string(), "not finished within 30s");
    /// # }
    /// ```
    #[inline]
    fn timeout<L: Limit>(self, limit: L) -> Timeout<Self, DefaultTimer, L> {
        Timeout::new(self, limit)
    }

    /// Lets go wrong what `chaos` says, in place of the future or before it: for tests. See [`chaos`](crate::chaos).
    ///
    /// # Panics
    ///
    /// As often as it was told to.
    #[cfg(feature = "chaos")]
    fn chaos<F>(self, chaos: &Chaos<F>) -> Disturbed<'_, Self, F> {
        Disturbed::new(self, chaos)
    }
}

impl<F: Future> ResilienceExt for F {}
