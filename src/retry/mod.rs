//! Trying again: a call that is made until it succeeds, is judged hopeless, or has had its effort.
//!
//! Retries mend faults that pass, and only those. They do not mend a peer that is overloaded: there they add load,
//! which is why a [`Budget`](crate::Budget) belongs to every `retry` that many callers make. An operation that is not
//! idempotent must be judged with care: an error does not prove that nothing happened.

mod attach;
mod attempting;
mod course;
mod error;
mod event;
mod future;
mod links;
mod nest;
mod run;
mod tally;
mod waits;

#[cfg(feature = "stream")]
pub(crate) use course::{Course, Refusal};
pub use error::GaveUp;
pub use event::Event;
pub use future::Retry;
#[cfg(feature = "stream")]
pub(crate) use links::Forgiving;
pub use links::{Link, Linked, Links, Unlinked};
#[cfg(feature = "stream")]
pub(crate) use nest::Named;
pub use run::Run;
#[cfg(feature = "stream")]
pub(crate) use waits::Waits;

use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::Standard;
use crate::policy::{Attempt, RetryPolicy};
use crate::time::DefaultTimer;

/// Calls `op` until it succeeds, as `policy` allows and until `token` says stop.
///
/// `op` is called once per attempt, for the first time when the returned future is first polled, and for a retry never
/// before its delay is over. An attempt is polled before its limits: a result in hand beats the token and the deadline.
/// The token beats starting an attempt and starting to wait; once it is cancelled nothing is started.
///
/// What is live and shared is attached before the first poll: [`with_budget`](Retry::with_budget),
/// [`with_breaker`](Retry::with_breaker), [`with_cooldown`](Retry::with_cooldown),
/// [`with_observer`](Retry::with_observer), [`with_timer`](Retry::with_timer).
///
/// An operation that needs `&mut` to something outlives its closure's call, so it does not fit here: make such a call
/// with [`Run`].
///
/// # Errors
///
/// [`GaveUp`], which says why, after how many attempts and how long, and holds the last error of `op`.
///
/// # Cancel safety
///
/// Dropping the future drops the attempt in flight and gives back a budget token whose retry has not started. Nothing
/// else is held.
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
/// static POLICY: RetryPolicy = RetryPolicy::new().with_deadline(Duration::from_secs(10));
///
/// # async fn fetch(attempt: resile::Attempt) -> io::Result<&'static str> {
/// #     if attempt.is_first() { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok("hello") }
/// # }
/// let token = CancellationToken::new();
/// let policy = POLICY.with_classify(|e: &io::Error| e.kind() == io::ErrorKind::ConnectionReset);
/// let greeting = retry(|attempt| fetch(attempt), &policy, &token).await.unwrap();
/// assert_eq!(greeting, "hello");
/// # }
/// ```
#[inline]
#[track_caller]
pub fn retry<F, Fut, T, E, C, K>(
    op: F,
    policy: &RetryPolicy<C>,
    token: K,
) -> Retry<'_, F, Fut, E, C, K, Standard, DefaultTimer>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
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
///     retry(|attempt| ask(&prompt, attempt), &RetryPolicy::new(), Never).await
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
