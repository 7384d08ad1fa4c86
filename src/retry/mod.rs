//! Sending a request again: a call that is made until it succeeds, fails for good, or has had its effort.
//!
//! Retries help against faults that pass, and only those. They do not help an upstream that is overloaded: there they add
//! load, which is why a [`Budget`](crate::Budget) belongs to every [`Upstream`](crate::Upstream) that many callers share.
//! An operation that is not idempotent must be classified with care: an error does not prove that nothing happened.

mod future;
mod run;

pub use future::Retry;
pub use run::Run;

use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::policy::{AsPolicy, Attempt, RetryPolicy};

/// Calls `op` until it succeeds, as `policy` allows and until `token` is cancelled.
///
/// `op` is called once per attempt, for the first time when the returned future is first polled, and for a retry never
/// before its delay is over. An attempt is polled before its limits: a result in hand beats the token and the timeouts.
/// The token beats starting an attempt and starting to wait; once it is cancelled nothing is started.
///
/// The policy goes by value, by reference or in an `Arc`. What calls share is in an [`Upstream`](crate::Upstream), on
/// which the call goes by [`.on(&upstream)`](Retry::on).
///
/// An operation that needs `&mut` to something outlives its closure's call, so it does not fit here: make such a call
/// with [`Run`].
///
/// # Errors
///
/// [`GaveUp`](crate::GaveUp), which says why, after how many attempts and how long, and holds the last error of `op`.
///
/// # Cancel safety
///
/// Dropping the future drops the attempt in flight and gives back what it holds at the upstream: a probe of the breaker,
/// a place in the bulkhead, a budget token whose retry has not started.
///
/// # Panics
///
/// If polled after completion. A panic of `op`, its future, the classifier or the observer passes through, and leaves
/// nothing shared broken.
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
/// static POLICY: RetryPolicy = RetryPolicy::new().with_total_timeout(Duration::from_secs(10));
///
/// # async fn fetch(attempt: resile::Attempt) -> io::Result<&'static str> {
/// #     if attempt.is_first() { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok("hello") }
/// # }
/// let token = CancellationToken::new();
/// let policy = POLICY.with_classifier(|e: &io::Error| e.kind() == io::ErrorKind::ConnectionReset);
/// let greeting = retry(|attempt| fetch(attempt), policy, &token).on("greetings").await.unwrap();
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

/// Why `op` is no `AsyncFnMut(Attempt)`: as soon as the closure borrows, its future is `Send` for one lifetime only,
/// and the call does not spawn.
///
/// ```
/// # use resile::{Attempt, GaveUp, Never, RetryPolicy, retry};
/// # async fn ask(_: &str, attempt: Attempt) -> Result<u32, &'static str> { Ok(attempt.number()) }
/// fn spawn<F: Future + Send + 'static>(_: F) {}
/// spawn(async {
///     let prompt = String::new();
///     retry(|attempt| ask(&prompt, attempt), RetryPolicy::new(), Never).await
/// });
/// ```
///
/// ```compile_fail
/// # use resile::{Attempt, GaveUp, Never, RetryPolicy, retry};
/// # async fn ask(_: &str, attempt: Attempt) -> Result<u32, &'static str> { Ok(attempt.number()) }
/// fn spawn<F: Future + Send + 'static>(_: F) {}
/// async fn retry_async<F: AsyncFnMut(Attempt) -> Result<u32, &'static str>>(mut op: F) -> Result<u32, &'static str> {
///     op(Attempt::new(1)).await
/// }
/// spawn(async {
///     let prompt = String::new();
///     retry_async(async |attempt| ask(&prompt, attempt).await).await
/// });
/// ```
#[cfg(doctest)]
struct AsyncClosuresDoNotSpawn;
