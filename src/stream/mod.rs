//! Streams that may break off: opened again as long as nobody has seen anything of them, and never held up in silence.
//!
//! A stream fails in more ways than a call. It may not open; it may open and say nothing; it may go silent half-way; it
//! may end as if all were well, in the middle of a sentence. And it can be tried again only for so long: once a
//! consumer has shown half an answer, a second attempt answers *anew*, and the two halves do not fit. So
//! [`retry_stream`] is transparent until the first item of content has been handed over, and from then on asks the
//! caller.
//!
//! | what the caller knows | how it is said | without |
//! |---|---|---|
//! | which items are preamble, content, the end | [`with_parts`](RetryStream::with_parts) | all are content |
//! | that a stream without its last item was cut off | [`with_required_end`](RetryStream::with_required_end) | an end is an end |
//! | what to do once content was handed over | [`with_resumption`](RetryStream::with_resumption) | [`Resumption::Fail`]: what has arrived stays, the error says [`StopReason::Partial`](crate::StopReason::Partial) |
//!
//! # Limits
//!
//! The policy's **total timeout** holds until content: it is how long a consumer may be kept waiting with nothing in hand,
//! all attempts and delays included. So does its **attempt timeout**, for each time that the stream is opened. They do not
//! cut a stream that flows, as how long a good answer takes says nothing of whether it is stuck (a model may write for
//! minutes). If a stream that has flowed is opened again, the total timeout counts anew from there. Attempts and their
//! delays are counted over the whole life of the stream, unless they are
//! [renewed](RetryStream::with_attempts_renewed).
//!
//! What flows is bounded by its silences, with the adapters of [`StreamResilienceExt`](crate::StreamResilienceExt). Put
//! them on what `open` returns, *inside*: there they see each item as it comes, the preamble too, and their
//! [`Elapsed`](crate::timeout::Elapsed) is classified like any other error. For a bound on the whole, cancel the token after that
//! time.
//!
//! # Defaults
//!
//! | setting | default | why |
//! |---|---|---|
//! | parts | every item is content | safe: nothing that was handed over is ever repeated |
//! | mend | fail | only the caller knows whether its consumer can take anything back |
//! | required end | no | not every stream has a last item |
//! | preamble cap | 64 items | more than any protocol's greeting; beyond it, to go on holding back would look like a hang |
//!
//! # When not
//!
//! * The protocol resumes by itself (server-sent events with ids in a client that keeps them; a message queue): two
//!   of them would both go back.
//! * A failure before content is rare and the answer short: collect it, and [`retry`](crate::retry()) the whole.
//! * Opening the stream does something that must not be done twice.

mod limit;
mod part;
mod retry;

pub use limit::StreamTimeout;
pub use part::{Part, Resumption};
pub use retry::RetryStream;

use futures_core::Stream;

use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::policy::{AsPolicy, Attempt, RetryPolicy};

/// Opens a stream, and opens it again where it fails before it has yielded content, as `policy` allows and until
/// `token` says stop.
///
/// Nothing runs before the first poll. Items of the preamble are held back,
/// [boundedly](RetryStream::with_preamble_cap), until the first item of content, and are forgotten with the attempt
/// that fails before. The first error of an opened stream ends it, and is classified by the policy's classifier like the
/// error of an attempt to open one. What was taken from the stream is handed over before the token is looked at; once
/// it is cancelled, nothing more is taken.
///
/// # Errors
///
/// One [`GaveUp`](crate::GaveUp) as the last item, with the last error of the stream or of its opening.
///
/// # Cancel safety
///
/// Dropping the stream drops the attempt or the stream in flight, and gives back a budget token whose retry has not
/// started.
///
/// # Panics
///
/// Only if one of the caller's functions, futures or streams does; that leaves nothing shared broken.
///
/// # Examples
///
/// The first attempt breaks off after its greeting, the second in silence, the third is whole:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use futures_util::{Stream, StreamExt, TryStreamExt, stream};
/// use resile::stream::Part;
/// use resile::{Attempt, Error, Never, RetryPolicy, StreamResilienceExt, retry_stream};
/// use std::time::Duration;
///
/// type Item = Result<&'static str, Error<&'static str>>;
///
/// async fn open(attempt: Attempt) -> Result<impl Stream<Item = Item>, Error<&'static str>> {
///     let items: Vec<Item> = match attempt.number() {
///         1 => vec![Ok("start"), Err(Error::Operation("reset"))],
///         2 => vec![Ok("start")],
///         _ => vec![Ok("start"), Ok("Hello"), Ok("stop")],
///     };
///     Ok(stream::iter(items).chain(stream::pending()).idle_timeout(Duration::from_secs(20)))
/// }
/// let parts = |item: &&str| match *item {
///     "start" => Part::Preamble,
///     "stop" => Part::End,
///     _ => Part::Content,
/// };
/// let policy = RetryPolicy::new().with_total_timeout(Duration::from_secs(60));
/// let told: Vec<_> = retry_stream(open, policy, Never).with_parts(parts).try_collect().await.unwrap();
/// assert_eq!(told, ["start", "Hello", "stop"]);
/// # }
/// ```
///
/// A consumer that can clear what it shows gets a marker and a fresh start:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use futures_util::{StreamExt, TryStreamExt, stream};
/// use resile::stream::Resumption;
/// use resile::{Never, RetryPolicy, retry_stream};
///
/// # async fn open(a: resile::Attempt) -> Result<impl futures_util::Stream<Item = Result<&'static str, &'static str>>, &'static str> {
/// #     Ok(stream::iter(if a.is_first() { vec![Ok("Hel"), Err("reset")] } else { vec![Ok("Hello")] }))
/// # }
/// let policy = RetryPolicy::new();
/// let shown = retry_stream(open, policy, Never).with_resumption(|_| Resumption::Restart("(clear)"));
/// let shown: Vec<_> = shown.try_collect().await.unwrap();
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
