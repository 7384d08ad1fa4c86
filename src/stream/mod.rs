//! Streams that are retried before their first content, with limits on silence.
//!
//! The guide has a chapter on [streams](crate::guide::streams).
//!
//! A stream fails in more ways than a call:
//!
//! * The stream may not open.
//! * It may open and yield nothing.
//! * It may go silent half-way.
//! * It may end normally in the middle of a sentence.
//!
//! A stream can only be retried for a limited time. Once a consumer has shown half an answer, a
//! second attempt begins a *different* answer. The two halves do not fit. Therefore
//! [`retry_stream`] retries transparently until it has yielded the first item of content. After
//! that, the caller decides.
//!
//! | what the caller knows | method | default |
//! |---|---|---|
//! | which items are preamble, content or the end | [`with_parts`](RetryStream::with_parts) | every item is content |
//! | that a stream without its last item was cut off | [`with_required_end`](RetryStream::with_required_end) | every end is an end |
//! | how long the whole stream may take | [`with_whole_timeout`](RetryStream::with_whole_timeout) | no limit after content |
//! | how to continue after content | [`with_resumption`](RetryStream::with_resumption) | [`Resumption::Fail`]: the consumer keeps its items, and the error has [`StopReason::Partial`](crate::StopReason::Partial) |
//!
//! # Limits
//!
//! The policy's **total timeout** applies until content. It limits the consumer's wait without any
//! item, all attempts and delays included. The policy's **attempt timeout** also applies until
//! content each time the stream is opened. Neither timeout cuts a stream after content has come: a
//! good answer may take minutes (for example from a model). Its duration does not show that the
//! stream is stuck. If such a stream is opened again, the total timeout restarts. Attempts and the
//! growth of their delays count over the whole life of the stream, unless they are
//! [renewed](RetryStream::with_attempts_renewed).
//!
//! After content, limit the silences with the adapters of
//! [`StreamResilienceExt`](crate::StreamResilienceExt). Put them *inside*, on the stream returned
//! by `open`. There the adapters see each item as it comes, including the preamble. Their
//! [`Elapsed`](crate::timeout::Elapsed) is classified like any other error.
//!
//! A consumer that cannot wait for ever limits the **whole stream** with
//! [`with_whole_timeout`](RetryStream::with_whole_timeout). This limit never restarts. It ends the
//! stream as [`StopReason::Deadline`](crate::StopReason::Deadline) before content and as
//! [`StopReason::Partial`](crate::StopReason::Partial) after it, because the consumer then has a part
//! of the answer.
//!
//! # Defaults
//!
//! | setting | default | why |
//! |---|---|---|
//! | parts | every item is content | safe: no item that was yielded is ever repeated |
//! | resumption | fail | only the caller knows whether its consumer can take items back |
//! | required end | no | not every stream has a last item |
//! | preamble cap | 64 items | more than any protocol's greeting. To hold back more items would look like a hang |
//!
//! # When not
//!
//! * The protocol resumes by itself: a message queue, or server-sent events with ids in a client
//!   that keeps them. The protocol and the retry would then both go back.
//! * Failures before content are rare and the answer is short. Collect the answer and
//!   [`retry`](crate::retry()) the whole.
//! * Opening the stream has an effect that must not happen twice.

mod limit;
mod part;
mod poll;
mod retry;

pub use limit::StreamTimeout;
pub use part::{Part, Resumption};
pub use retry::RetryStream;

use futures_core::Stream;

use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::policy::{AsPolicy, Attempt, RetryPolicy};

/// Opens a stream and opens it again if it fails before its first content.
///
/// `policy` limits the attempts. `token` can stop the stream. Nothing runs before the first poll.
///
/// Items of the preamble are held back until the first item of content, up to a
/// [cap](RetryStream::with_preamble_cap). The preamble of an attempt that fails before content is
/// dropped. The first error of an opened stream ends this attempt. The policy's classifier
/// classifies the error like an error of `open`.
///
/// Items already taken from the stream are yielded before the token is checked. No more items are
/// taken after cancellation.
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
/// # Examples
///
/// The first attempt breaks off after its greeting. The second goes silent. The third is complete:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use futures_util::{Stream, StreamExt, TryStreamExt, stream};
/// use resile::stream::Part;
/// use resile::{Attempt, Error, Never, RetryPolicy};
/// use resile::{StreamResilienceExt, retry_stream};
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
pub fn retry_stream<F, Fut, S, T, E, P, C, K>(
    open: F,
    policy: P,
    token: K,
) -> RetryStream<F, Fut, S, T, E, P, K>
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
