//! The postfix adapters.

use std::time::Duration;

use crate::breaker::{self, Breaker, Guarded};
use crate::bulkhead::{Bulkhead, Limited};
use crate::cooldown::{Cooldown, Paced};
use crate::observe::Observe;
use crate::time::{Timer, TimerSlot};
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

    /// Waits until `cooldown` lets calls go, then runs the future. An error that the cooldown's classifier judges as
    /// throttled makes the other calls wait.
    ///
    /// The future is not polled before. The wait has no limit of its own: put a [`timeout`](Self::timeout) around it, or
    /// the deadline or token of a retry.
    ///
    /// # Cancel safety
    ///
    /// As that of the future; dropped while it waits, it has started nothing and holds nothing.
    ///
    /// # Examples
    ///
    /// On the page of [`cooldown`](crate::cooldown).
    #[inline]
    fn paced_by<C, M: TimerSlot>(self, cooldown: &Cooldown<C, M>) -> Paced<'_, Self, C, M> {
        Paced::new(self, cooldown)
    }

    /// Runs the future with a place in `bulkhead`, waiting in line for one; where there is no place in line either it
    /// is refused. Its error type must be able to say so: `E: From<Full>`.
    ///
    /// The future is not polled before it has a place, and is dropped before it leaves it.
    ///
    /// # Cancel safety
    ///
    /// As that of the future; dropped while it waits, it has started nothing and gives up its place in line.
    ///
    /// # Panics
    ///
    /// If polled after completion.
    ///
    /// # Examples
    ///
    /// On the page of [`bulkhead`](crate::bulkhead).
    #[inline]
    fn limited_by(self, bulkhead: &Bulkhead) -> Limited<'_, Self> {
        Limited::new(self, bulkhead)
    }
}

impl<F: Future> ResilienceExt for F {}
