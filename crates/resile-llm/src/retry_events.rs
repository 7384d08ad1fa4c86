use futures_core::Stream;
use resile::cancel::Cancel;
use resile::policy::AsPolicy;
use resile::stream::RetryStream;
use resile::{Attempt, Classify, RetryPolicy, retry_stream};

use crate::event::Event;

/// Opens a stream of [`events`](crate::events()) and opens it again if it fails before its first word.
///
/// This is [`retry_stream`] with [`Event::part`] as its
/// [parts](RetryStream::with_parts), so the role and the other events before the first word are not content.
/// Without these parts a stream that breaks off behind its role would end as `Partial`, and neither the same
/// model nor another one would be asked. All settings of `retry_stream` stay. For a provider of another format
/// set parts of your own.
///
/// # Errors
///
/// Yields one [`GaveUp`](resile::GaveUp) as the last item.
///
/// # Cancel safety
///
/// Dropping the stream drops the attempt in flight.
///
/// # Panics
///
/// Panics only if a function, future or stream of the caller panics.
///
/// # Examples
///
/// The first stream breaks off behind its role:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use futures_util::TryStreamExt;
/// use resile::{Attempt, Never};
/// use resile_llm::{Failure, events, retry_events};
///
/// const ROLE: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
/// const REST: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n";
///
/// let open = async |attempt: Attempt| {
///     let rest = if attempt.is_first() { "" } else { REST };
///     Ok::<_, Failure>(events(http::Response::new([ROLE, rest].concat())))
/// };
/// let answer = retry_events(open, resile_llm::interactive(), Never);
/// let words = answer.try_fold(String::new(), async |words, event| Ok(words + &event.text()));
/// assert_eq!(words.await.unwrap(), "Hi");
/// # }
/// ```
#[inline]
#[track_caller]
pub fn retry_events<F, Fut, S, E, P, C, K>(open: F, policy: P, token: K) -> RetryStream<F, P, K>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<S, E>>,
    S: Stream<Item = Result<Event, E>>,
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
{
    retry_stream(open, policy, token).with_parts(Event::part)
}
