//! The postfix adapters.

#[cfg(feature = "chaos")]
use crate::chaos::{Chaos, ChaosFuture};
#[cfg(feature = "stream")]
use crate::stream::StreamTimeout;
#[cfg(feature = "stream")]
use crate::timeout::Missed;
use crate::timeout::Timeout;
use std::time::Duration;

use crate::bulkhead::{Bulkhead, Limited};

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

    /// Lets go wrong what `chaos` says, in place of the future or before it: for tests. See [`chaos`](crate::chaos).
    ///
    /// # Panics
    ///
    /// As often as it was told to.
    #[cfg(feature = "chaos")]
    fn chaos<F>(self, chaos: &Chaos<F>) -> ChaosFuture<'_, Self, F> {
        ChaosFuture::new(self, chaos)
    }
}

impl<F: Future> ResilienceExt for F {}

/// Postfix adapters for any stream of `Result`s whose error type can say that a limit ran out: `E: From<Elapsed>`.
///
/// Each of them yields that error once and then ends. The stream is polled before the limit: an item in hand beats it.
/// It is dropped in the moment the limit runs out.
///
/// Only waiting counts: a limit runs from when the stream was first found pending, so a consumer that is slow to ask
/// does not use it up. A limit of zero gives the stream one poll.
///
/// An item that is an error is an item: it restarts each of these limits, and meets that on the first item.
#[cfg(feature = "stream")]
pub trait StreamResilienceExt: futures_core::Stream + Sized {
    /// No item may take longer than `limit`; each one, whatever it says, starts it anew.
    ///
    /// Against connections that are dead. A peer that sends pings while it does nothing else passes:
    /// see [`progress_timeout`](Self::progress_timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use futures_util::{StreamExt, stream};
    /// use resile::StreamResilienceExt;
    /// use std::time::Duration;
    ///
    /// let stalls = stream::iter([anyhow::Ok("Once upon")]).chain(stream::pending());
    /// let mut told = std::pin::pin!(stalls.idle_timeout(Duration::from_secs(20)));
    /// assert_eq!(told.next().await.unwrap().unwrap(), "Once upon");
    /// assert_eq!(told.next().await.unwrap().unwrap_err().to_string(), "no item within 20s");
    /// assert!(told.next().await.is_none());
    /// # }
    /// ```
    fn idle_timeout<T, E>(self, limit: Duration) -> StreamTimeout<Self, fn(&T) -> bool>
    where
        Self: futures_core::Stream<Item = Result<T, E>>,
    {
        StreamTimeout::new(self, limit, Missed::Item, |_| true)
    }

    /// The first item may take no longer than `limit`. Later ones may.
    ///
    /// Against peers that accept and then queue: it takes them longer to begin than to go on.
    fn first_item_timeout<T, E>(self, limit: Duration) -> StreamTimeout<Self, fn(&T) -> bool>
    where
        Self: futures_core::Stream<Item = Result<T, E>>,
    {
        StreamTimeout::new(self, limit, Missed::FirstItem, |_| true)
    }

    /// No item of which `is_progress` is true may take longer than `limit`, however many others come in between.
    /// An error counts as progress, as the consumer sees it and can stop.
    ///
    /// Against peers that are alive and do nothing: pings, empty deltas. Between two items of progress this limit
    /// also counts the time that the consumer takes.
    fn progress_timeout<T, E, F>(self, limit: Duration, is_progress: F) -> StreamTimeout<Self, F>
    where
        Self: futures_core::Stream<Item = Result<T, E>>,
        F: FnMut(&T) -> bool,
    {
        StreamTimeout::new(self, limit, Missed::Progress, is_progress)
    }
}

#[cfg(feature = "stream")]
impl<S: futures_core::Stream> StreamResilienceExt for S {}
