//! Postfix methods that add resilience to a future or a stream.

#[cfg(feature = "chaos")]
use crate::chaos::{Chaos, ChaosFuture};
#[cfg(feature = "stream")]
use crate::stream::StreamTimeout;
#[cfg(feature = "stream")]
use crate::timeout::Missed;
use crate::timeout::Timeout;
use std::time::Duration;

use crate::call::{BeforeSending, Call};
use crate::classify::Classify;
use crate::upstream::{Target, TargetFor, Via};

/// Postfix adapters for any future. An adapter covers everything to its left in the method chain.
pub trait ResilienceExt: Future + Sized {
    /// Limits the time from the future's first poll to its completion.
    ///
    /// The error type must implement `From<Elapsed>`. The future is polled before the limit is
    /// checked, so a result that is ready takes precedence. A limit of zero polls the future once.
    /// A future that is ready at once needs no timer.
    ///
    /// # Cancel safety
    ///
    /// It equals the cancel safety of the future. After the limit has run out the future is not
    /// polled again, and it is dropped together with the [`Timeout`].
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
    /// assert_eq!(error.to_string(), "did not finish within 30s");
    /// # }
    /// ```
    #[inline]
    fn timeout(self, limit: Duration) -> Timeout<Self> {
        Timeout::new(self, limit)
    }

    /// Runs the future as one attempt on `target`: through its breaker, its bulkhead and its other
    /// parts. This is the postfix form of [`Upstream::call`](crate::Upstream::call).
    ///
    /// The target is any target of [`.on(…)`](crate::retry::Retry::on): `&Upstream`, `Arc<Upstream>`, or
    /// [`MODEL.at_cost(cost)`](crate::Upstream::at_cost). The attempt waits for its admission, and
    /// `classifier` classifies its error for the breaker and the cooldown. There is no retry, and the
    /// attempt takes no token of the budget. The returned future takes a
    /// [token](crate::call::Call::with_token), a [total timeout](crate::call::Call::with_total_timeout) and an
    /// [attempt timeout](crate::call::Call::with_attempt_timeout).
    ///
    /// # Errors
    ///
    /// [`GaveUp`](crate::GaveUp) if the attempt failed, was refused, timed out or was cancelled. Its
    /// [`reason`](crate::GaveUp::reason) is [`Open`](crate::StopReason::Open) for an open breaker
    /// and [`Full`](crate::StopReason::Full) for a full bulkhead. The future has then not been
    /// polled. The reason is [`Attempts`](crate::StopReason::Attempts),
    /// [`Fatal`](crate::StopReason::Fatal) or [`Unclassified`](crate::StopReason::Unclassified) if
    /// the future returned an error.
    ///
    /// # Cancel safety
    ///
    /// It equals the cancel safety of the future. A call dropped in the queue has started nothing
    /// and leaves the queue, while a call dropped in flight gives its permit back and counts for
    /// nothing. The future is dropped before the permit is released.
    ///
    /// # Panics
    ///
    /// Panics if polled after completion.
    ///
    /// # Examples
    ///
    /// A breaker around any future:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::Breaker;
    /// use resile::classify::Always;
    /// use resile::{ResilienceExt, StopReason, Upstream};
    /// use std::io;
    ///
    /// static STORE: Upstream = Upstream::new("store")
    ///     .with_breaker(Breaker::new().with_consecutive(2));
    ///
    /// async fn fetch() -> io::Result<u32> {
    ///     Err(io::ErrorKind::ConnectionReset.into())
    /// }
    /// for _ in 0..2 {
    ///     let failed = fetch().through(&STORE, Always).await.unwrap_err();
    ///     assert_eq!(failed.reason(), StopReason::Attempts);
    /// }
    /// let refused = fetch().through(&STORE, Always).await.unwrap_err();
    /// assert_eq!((refused.reason(), refused.attempts()), (StopReason::Open, 0));
    /// # }
    /// ```
    #[track_caller]
    fn through<X, C, T, E, R>(self, target: X, classifier: C) -> Call<Self, E, C, Via<X, R>>
    where
        Self: Future<Output = Result<T, E>>,
        X: Target,
        C: Classify<E>,
        Via<X, R>: TargetFor<E>,
    {
        Call::new(Via::new(target), self, classifier)
    }

    /// States that until this future is ready the attempt has sent nothing to its upstream, or nothing
    /// that the upstream keeps.
    ///
    /// A limit or a token that cuts an attempt leaves open whether the request was executed, so a
    /// request that is not idempotent ends [in doubt](crate::GaveUp::is_in_doubt). But an attempt often
    /// waits before it sends: for a connection of a pool or for a token. If the attempt is cut in this
    /// future, the request may be sent again, is not in doubt, and tells nothing of the
    /// [health](crate::Health) of the upstream. The classifier is not asked about it.
    ///
    /// The request of a database transaction is its `COMMIT`, because the database keeps nothing before
    /// it. So the statements before `COMMIT` may be in this future. For `sqlx` the function `sqlx::commit`
    /// of `resile-clients` puts them there.
    ///
    /// An error that the future returns is classified as any other error.
    ///
    /// A program that keeps the future after its end, as by [`pin!`](std::pin::pin), states that it sends the
    /// request meanwhile. If the attempt is cut then, its words say so: "did not finish within 2s, its request
    /// was sent". A call that the program drops in flight is asked in the same way: its line says "without effect"
    /// or "its request was sent", and the former is not in doubt.
    ///
    /// # Cancel safety
    ///
    /// It equals the cancel safety of the future.
    ///
    /// # Examples
    ///
    /// An order waits for a connection of a full pool until its attempt is cut. Without this method the
    /// call would end there, in doubt.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::{Attempt, Never, ResilienceExt, RetryPolicy, Verdict, retry};
    /// use std::io;
    /// use std::time::Duration;
    ///
    /// // A cut order must not be sent again.
    /// let order = |_: &io::Error| Some(Verdict::transient().not_again());
    /// let policy = RetryPolicy::new()
    ///     .with_attempt_timeout(Duration::from_secs(2))
    ///     .with_classifier(order);
    ///
    /// async fn connection(attempt: &Attempt) {
    ///     if attempt.is_first() {
    ///         std::future::pending().await
    ///     }
    /// }
    /// let ordered = retry(
    ///     async |attempt| {
    ///         connection(&attempt).before_sending().await;
    ///         io::Result::Ok(attempt.number())
    ///     },
    ///     &policy,
    ///     Never,
    /// );
    /// assert_eq!(ordered.await.unwrap(), 2);
    /// # }
    /// ```
    #[inline]
    fn before_sending(self) -> BeforeSending<Self> {
        BeforeSending::new(self)
    }

    /// Injects the faults configured in `chaos` for tests. See [`chaos`](crate::chaos).
    ///
    /// # Panics
    ///
    /// Panics at the configured rate.
    #[cfg(feature = "chaos")]
    fn chaos<F>(self, chaos: &Chaos<F>) -> ChaosFuture<'_, Self, F> {
        ChaosFuture::new(self, chaos)
    }
}

impl<F: Future> ResilienceExt for F {}

/// Postfix adapters for any stream of `Result`s whose error type implements `From<Elapsed>`.
///
/// Each adapter yields `Elapsed` once as an error and then ends. The stream is polled before the
/// limit is checked, so an item that is ready takes precedence. The stream is dropped as soon as
/// the limit runs out.
///
/// Only waiting counts: the limit starts when the stream is first found pending, so a slow consumer
/// does not use it up. A limit of zero polls the stream once.
///
/// An error counts as an item. It restarts each of these limits and satisfies the limit on the
/// first item.
#[cfg(feature = "stream")]
pub trait StreamResilienceExt: futures_core::Stream + Sized {
    /// Limits the wait for each item. Every item restarts the limit, whatever its content.
    ///
    /// Use it against dead connections. It does not detect an upstream that only sends pings. For
    /// that case see [`progress_timeout`](Self::progress_timeout).
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
    /// let mut items = std::pin::pin!(stalls.idle_timeout(Duration::from_secs(20)));
    /// assert_eq!(items.next().await.unwrap().unwrap(), "Once upon");
    /// let error = items.next().await.unwrap().unwrap_err();
    /// assert_eq!(error.to_string(), "no item within 20s (`idle_timeout`)");
    /// assert!(items.next().await.is_none());
    /// # }
    /// ```
    fn idle_timeout<T, E>(self, limit: Duration) -> StreamTimeout<Self, fn(&T) -> bool>
    where
        Self: futures_core::Stream<Item = Result<T, E>>,
    {
        StreamTimeout::new(self, limit, Missed::Item, |_| true)
    }

    /// Limits the wait for the first item. Later items have no limit.
    ///
    /// Use it against an upstream that accepts requests and then queues them, because such an
    /// upstream takes longer to begin than to continue.
    fn first_item_timeout<T, E>(self, limit: Duration) -> StreamTimeout<Self, fn(&T) -> bool>
    where
        Self: futures_core::Stream<Item = Result<T, E>>,
    {
        StreamTimeout::new(self, limit, Missed::FirstItem, |_| true)
    }

    /// Limits the wait between items of progress, as decided by `is_progress`.
    ///
    /// Other items do not restart the limit. An error counts as progress because the consumer sees
    /// the error and can stop.
    ///
    /// Use it against an upstream that is alive but does no work: it sends only pings or empty
    /// deltas. This limit also counts the time spent by the consumer between two items of progress.
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
