use super::RetryStream;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::policy::{AsPolicy, Attempt, RetryPolicy};
use futures_core::Stream;

/// Opens a stream and opens it again if it fails before its first content.
///
/// `policy` limits the attempts. `token` can stop the stream. Nothing runs before the first poll.
///
/// Items of the preamble are held back until the first item of content, up to a
/// [cap](RetryStream::with_preamble_cap), and the preamble of an attempt that fails before content
/// is dropped. The first error of an opened stream ends this attempt. The policy's classifier
/// classifies the error like an error of `open`.
///
/// Items already taken from the stream are yielded before the token is checked, but no more items
/// are taken after cancellation.
///
/// # Errors
///
/// Yields one [`GaveUp`](crate::GaveUp) as the last item. It holds the last error of the stream or
/// of `open`.
///
/// # Cancel safety
///
/// Dropping the stream drops the attempt or the stream in flight. A budget token acquired for a
/// retry that has not started is returned.
///
/// # Panics
///
/// Panics only if a function, future or stream of the caller panics. Shared state stays intact.
///
/// # Items before the content
///
/// Without [`with_parts`](RetryStream::with_parts) every item counts as content, also a greeting such as the
/// role of a model's answer. A stream that breaks off behind its greeting is then not opened again.
///
/// # Examples
///
/// The first attempt breaks off after its greeting, the second goes silent, and the third is
/// complete:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use futures_util::{Stream, StreamExt, TryStreamExt, stream};
/// use resile::stream::Part;
/// use resile::timeout::Error;
/// use resile::{Attempt, Never, RetryPolicy, StreamResilienceExt, retry_stream};
/// use std::time::Duration;
///
/// type Failure = Error<&'static str>;
/// type Item = Result<&'static str, Failure>;
///
/// async fn open(attempt: Attempt) -> Result<impl Stream<Item = Item>, Failure> {
///     let items: Vec<Item> = match attempt.number() {
///         1 => vec![Ok("start"), Err(Error::Operation("reset"))],
///         2 => vec![Ok("start")],
///         _ => vec![Ok("start"), Ok("Hello"), Ok("stop")],
///     };
///     let items = stream::iter(items).chain(stream::pending());
///     Ok(items.idle_timeout(Duration::from_secs(20)))
/// }
/// let parts = |item: &&str| match *item {
///     "start" => Part::Preamble,
///     "stop" => Part::End,
///     _ => Part::Content,
/// };
/// let policy = RetryPolicy::new().with_total_timeout(Duration::from_secs(60));
/// let answer = retry_stream(open, policy, Never).with_parts(parts);
/// let items: Vec<_> = answer.try_collect().await.unwrap();
/// assert_eq!(items, ["start", "Hello", "stop"]);
/// # }
/// ```
///
/// A consumer that can clear its display gets a marker and a fresh start:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use futures_util::{Stream, TryStreamExt, stream};
/// use resile::stream::Resumption;
/// use resile::{Attempt, Never, RetryPolicy, retry_stream};
///
/// # type Item = Result<&'static str, &'static str>;
/// # async fn open(a: Attempt) -> Result<impl Stream<Item = Item>, &'static str> {
/// #     Ok(stream::iter(match a.is_first() {
/// #         true => vec![Ok("Hel"), Err("reset")],
/// #         false => vec![Ok("Hello")],
/// #     }))
/// # }
/// let answer = retry_stream(open, RetryPolicy::new(), Never)
///     .with_resumption(|_| Resumption::Restart("(clear)"));
/// let shown: Vec<_> = answer.try_collect().await.unwrap();
/// assert_eq!(shown, ["Hel", "(clear)", "Hello"]);
/// # }
/// ```
#[inline]
#[track_caller]
pub fn retry_stream<F, Fut, S, T, E, P, C, K>(open: F, policy: P, token: K) -> RetryStream<F, P, K>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<S, E>>,
    S: Stream<Item = Result<T, E>>,
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
{
    RetryStream::new(open, policy, token)
}
