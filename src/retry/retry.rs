use super::future::Retry;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::policy::{AsPolicy, Attempt, RetryPolicy};

/// Calls `op` until it succeeds, `policy` allows no further attempt, or `token` is cancelled.
///
/// `op` is called once per attempt. The first call happens at the first poll of the returned
/// future. A retry never starts before its delay is over.
///
/// An attempt is polled before its timeouts, so a result that is ready takes precedence over the
/// token and the timeouts. The token takes precedence over the start of an attempt or a wait, so no
/// attempt starts after cancellation.
///
/// Pass the policy by value, by reference or in an `Arc`. To share parts with other calls, make the
/// call on an [`Upstream`](crate::Upstream) by [`.on(&upstream)`](Retry::on).
///
/// The future returned by `op` cannot borrow `&mut` state from the closure. Use [`Run`](crate::Run) for
/// such operations. The words of the compiler are "captured variable cannot escape `FnMut` closure
/// body", or that an async closure "does not implement `FnMut` because it captures state from its
/// environment". An `async move` block compiles, but it changes a copy that each attempt begins anew. A
/// counter can be an atomic or a [`Cell`](std::cell::Cell).
///
/// # Errors
///
/// [`GaveUp`](crate::GaveUp) with the reason, the number of attempts, the time taken and the last
/// error of `op`.
///
/// # Cancel safety
///
/// Dropping the future drops the attempt in flight and gives back what it holds at the upstream: a
/// probe of the breaker, a permit of the bulkhead, the budget token of a retry not yet started.
///
/// # Panics
///
/// Panics if polled after completion. A panic of `op`, its future, the classifier or the observer
/// passes through. Shared state stays intact.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{RetryPolicy, retry};
/// use std::{io, time::Duration};
/// use tokio_util::sync::CancellationToken;
///
/// static POLICY: RetryPolicy =
///     RetryPolicy::new().with_total_timeout(Duration::from_secs(10));
///
/// # async fn fetch(attempt: resile::Attempt) -> io::Result<&'static str> {
/// #     if attempt.is_first() {
/// #         return Err(io::ErrorKind::ConnectionReset.into());
/// #     }
/// #     Ok("hello")
/// # }
/// let token = CancellationToken::new();
/// let is_reset = |e: &io::Error| e.kind() == io::ErrorKind::ConnectionReset;
/// let policy = POLICY.with_classifier(is_reset);
/// let call = retry(|attempt| fetch(attempt), policy, &token).on("greetings");
/// let greeting = call.await.unwrap();
/// assert_eq!(greeting, "hello");
/// # }
/// ```
#[inline]
#[track_caller]
pub fn retry<F, Fut, T, E, P, C, K>(op: F, policy: P, token: K) -> Retry<F, Fut, E, P, K>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
{
    Retry::new(op, policy, token)
}

/// Shows that `op` cannot be an `AsyncFnMut(Attempt)`: if the closure borrows, its future is `Send`
/// for one lifetime only, and the call cannot be spawned.
///
/// ```
/// # use resile::{Attempt, Never, RetryPolicy, retry};
/// # type Answer = Result<u32, &'static str>;
/// # async fn ask(_: &str, attempt: Attempt) -> Answer { Ok(attempt.number()) }
/// fn spawn<F: Future + Send + 'static>(_: F) {}
/// spawn(async {
///     let prompt = String::new();
///     retry(|attempt| ask(&prompt, attempt), RetryPolicy::new(), Never).await
/// });
/// ```
///
/// ```compile_fail
/// # use resile::{Attempt, Never, RetryPolicy, retry};
/// # type Answer = Result<u32, &'static str>;
/// # async fn ask(_: &str, attempt: Attempt) -> Answer { Ok(attempt.number()) }
/// fn spawn<F: Future + Send + 'static>(_: F) {}
/// async fn retry_async<F: AsyncFnMut(Attempt) -> Answer>(mut op: F) -> Answer {
///     op(Attempt::new(1)).await
/// }
/// spawn(async {
///     let prompt = String::new();
///     retry_async(async |attempt| ask(&prompt, attempt).await).await
/// });
/// ```
#[cfg(doctest)]
struct AsyncClosuresDoNotSpawn;
