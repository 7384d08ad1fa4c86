//! The postfix adapters.

use std::time::Duration;

use crate::breaker::{self, Breaker, Guarded};
use crate::observe::Observe;
use crate::time::Timer;
use crate::timeout::Timeout;

/// Postfix adapters for any future. Where an adapter stands says what it covers.
pub trait ResilienceExt: Future + Sized {
    /// Gives the future `limit` from its first poll to finish. Its error type must be able to say so:
    /// `E: From<Elapsed>`.
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
    fn timeout(self, limit: Duration) -> Timeout<Self> {
        Timeout::new(self, limit)
    }

    /// Refuses the future while `breaker` is open, and tells it how the future ended, by the breaker's own classifier.
    /// Its error type must be able to say so: `E: From<Open>`.
    ///
    /// A future that is refused is not polled.
    ///
    /// # Cancel safety
    ///
    /// As that of the future; dropped unfinished, it tells the breaker nothing.
    ///
    /// # Examples
    ///
    /// See [`Breaker`].
    #[inline]
    fn guarded_by<C, O, M>(self, breaker: &Breaker<C, O, M>) -> Guarded<'_, Self, C, O, M>
    where
        O: Observe<breaker::Event>,
        M: Timer,
    {
        Guarded::new(self, breaker)
    }
}

impl<F: Future> ResilienceExt for F {}
