use resile::RetryPolicy;

use super::Deadline;

/// Returns the policy for a `resile::retry` in a handler: the call ends at the [current](Deadline::current)
/// deadline, or at the end of the policy if that is earlier. Without a deadline the policy stays as it is.
///
/// Call it where the call begins and not once for a program, because the time is read here. A layer and a
/// middleware of this crate do so by themselves. [`RetryPolicy::shortened_to`] says what an attempt that this deadline
/// cuts means for the breaker.
///
/// # A stream
///
/// The total timeout of a `retry_stream` applies until the first content and begins anew at each opening. So shorten
/// the stream and not its policy, as far as there is a deadline:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use futures_util::{Stream, TryStreamExt, stream};
/// use resile_tower::deadline::Deadline;
/// use resile_tower::resile::{Attempt, GaveUp, Never, RetryPolicy, retry_stream};
/// use std::time::Duration;
///
/// # type Item = Result<u32, &'static str>;
/// # async fn open(_: Attempt) -> Result<impl Stream<Item = Item>, &'static str> {
/// #     Ok(stream::unfold(0, |number| async move {
/// #         tokio::time::sleep(Duration::from_millis(400)).await;
/// #         Some((Ok(number), number + 1))
/// #     }))
/// # }
/// fn watch() -> impl Stream<Item = Result<u32, GaveUp<&'static str>>> {
///     let feed = retry_stream(open, RetryPolicy::new(), Never);
///     match Deadline::current().filter(|it| it.is_told()) {
///         Some(deadline) => feed.shortened_to(deadline.left()),
///         None => feed,
///     }
/// }
///
/// let began = tokio::time::Instant::now();
/// let handler = async { watch().try_collect::<Vec<_>>().await };
/// let end = Deadline::after(Duration::from_secs(1)).scope(handler).await.unwrap_err();
/// assert!(end.is_partial());
/// assert_eq!(began.elapsed(), Duration::from_secs(1));
/// # }
/// ```
///
/// A request that tells no time has the maximum of the [`DeadlineLayer`](crate::deadline::DeadlineLayer) as its deadline.
/// It would end an endless stream, so the program asks [`Deadline::is_told`](crate::deadline::Deadline::is_told). The
/// policy of `until_deadline` limits only the wait for the first content.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile_tower::deadline::{Deadline, until_deadline};
/// use resile_tower::resile::RetryPolicy;
/// use std::time::Duration;
///
/// const POLICY: RetryPolicy = RetryPolicy::new().with_total_timeout(Duration::from_secs(5));
///
/// let two = Duration::from_secs(2);
/// let handler = async { until_deadline(POLICY).total_timeout() };
/// assert_eq!(Deadline::after(two).scope(handler).await, Some(two));
/// assert_eq!(until_deadline(POLICY), POLICY);
/// # }
/// ```
pub fn until_deadline<C>(policy: RetryPolicy<C>) -> RetryPolicy<C> {
    match Deadline::current() {
        Some(deadline) => policy.shortened_to(deadline.left()),
        None => policy,
    }
}
