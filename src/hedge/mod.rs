//! A second attempt for a call that is slow. Hedging helps against rare slowness, not failure.
//!
//! A few of a hundred calls to a healthy service take many times as long as the rest. The causes
//! are a garbage collection, a full queue or a slow disk on one of many machines. A second attempt
//! at that moment most likely meets a fast machine.
//!
//! Start it after the 95th percentile of the latency. This costs 5 % more calls and removes most of
//! the slow tail. Dean and Barroso measured 74 ms instead of 1,800 ms at the 99.9th percentile for
//! 2 % more calls ("The Tail at Scale", Communications of the ACM 56(2), 2013).
//!
//! Set the delay to the 95th percentile of your call. Or derive the delay from recent latencies
//! with [`with_learned_delay`](HedgePolicy::with_learned_delay). Shorter delays gain little and
//! cost much.
//!
//! # When not
//!
//! * The call must not run twice at once: it books, pays or sends something. The upstream does not
//!   learn that a losing attempt was dropped and may finish its work.
//! * All calls are slow because the upstream is overloaded. Hedges then double the load. Never
//!   hedge without a [`Budget`](crate::Budget): with its default deposit at most one call in ten
//!   is hedged in the long run, for any delay.
//! * Calls are long and billed, such as completions of a model. Each hedge costs the full price.
//! * The slowness is in your own process: a lock, a full connection pool. The second attempt queues
//!   behind the first.
//! * Calls fail instead of being slow. Use [`retry`](crate::retry()). A hedge can run inside a
//!   retry: see [`hedge`](hedge()).
//!
//! # Which outcome wins
//!
//! The first *accepted* outcome wins. A success is accepted. An error is accepted if the policy's
//! classifier forbids sending the request again: the other attempts would get the same error.
//!
//! Any other error loses to the attempts in flight even if it comes first. A machine that refuses
//! at once must not beat a machine that answers. The call ends with the last error once every
//! attempt in flight has failed. A further hedge would then be a retry without a backoff. No
//! further hedge starts either after a throttling error or a hint to wait.

mod close;
mod future;
mod pace;
mod policy;

pub use future::Hedge;
pub use policy::HedgePolicy;

use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::policy::{AsPolicy, Attempt};

/// Calls `op`, and calls it again after each delay without an accepted outcome. The first
/// [accepted](self#which-outcome-wins) outcome wins. The other attempts are dropped.
///
/// The first call of `op` happens at the first poll of the returned future. A hedge never starts
/// before its delay is over. Its [`Attempt::delay`] is the time since the previous attempt started.
///
/// Attempts are polled before the token and the timeouts, the oldest attempt first. So an outcome
/// that is ready takes precedence over the token and the deadline. After cancellation no attempt
/// starts.
///
/// On an [`Upstream`](crate::Upstream) the first attempt waits for its admission as in a retry. A
/// hedge does not wait: it is skipped unless the upstream admits it at once and the budget can pay
/// for it. Each attempt reports its own outcome. An attempt dropped in flight reports none.
///
/// # Cost
///
/// A call that is ready at its first poll creates no timer. It reads the clock only for a total
/// timeout or an observer of all events. The future contains the first attempt. A hedge is boxed
/// when it starts. So a call without hedges needs no allocation and only the size of one attempt.
///
/// # Errors
///
/// [`GaveUp`](crate::GaveUp) with the last error. The [reasons](crate::StopReason) include:
///
/// * [`Fatal`](crate::StopReason::Fatal) for an accepted error,
/// * [`Attempts`](crate::StopReason::Attempts) if every attempt failed,
/// * [`Deadline`](crate::StopReason::Deadline) or [`Cancelled`](crate::StopReason::Cancelled).
///
/// # Cancel safety
///
/// Dropping the future drops the attempts in flight and gives back what they hold at the upstream.
/// No budget token is held, because a hedge spends its token when it starts.
///
/// # Panics
///
/// Panics if polled after completion. A panic of `op`, its futures, the classifier or the observer
/// passes through. Shared state stays intact.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Budget, HedgePolicy, Never, Upstream, hedge};
/// use std::{io, time::Duration};
///
/// const DELAY: Duration = Duration::from_millis(50);
/// static POLICY: HedgePolicy = HedgePolicy::new().with_delay(DELAY);
/// static SEARCH: Upstream = Upstream::new("search").with_budget(Budget::new());
///
/// // The first machine hangs.
/// async fn ask(attempt: resile::Attempt) -> io::Result<u32> {
///     let latency = if attempt.is_first() { 2_000 } else { 10 };
///     tokio::time::sleep(Duration::from_millis(latency)).await;
///     Ok(attempt.number())
/// }
/// let began = tokio::time::Instant::now();
/// assert_eq!(hedge(ask, &POLICY, Never).on(&SEARCH).await.unwrap(), 2);
/// assert!(began.elapsed() < Duration::from_millis(70));
/// # }
/// ```
///
/// A retry can hedge each of its attempts. The retry then reads the verdict of the hedge. Give both
/// the same upstream: an attempt and the first request of its hedge
/// [share one admission](crate::upstream#calls-within-calls).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{GaveUp, HedgePolicy, Never, RetryPolicy, hedge, retry};
/// use std::io;
///
/// # async fn ask(_: resile::Attempt) -> io::Result<u32> { Ok(7) }
/// let is_reset = |e: &io::Error| e.kind() == io::ErrorKind::ConnectionReset;
/// let hedging = HedgePolicy::new().with_classifier(is_reset);
/// let verdict = |e: &GaveUp<io::Error>| e.verdict();
/// let policy = RetryPolicy::new().with_classifier(verdict);
/// let answer = retry(|_| hedge(ask, hedging, Never), policy, Never).await;
/// let answer = answer.map_err(GaveUp::flatten);
/// assert_eq!(answer.unwrap(), 7);
/// # }
/// ```
#[inline]
#[track_caller]
pub fn hedge<F, Fut, T, E, P, C, K>(op: F, policy: P, token: K) -> Hedge<F, Fut, E, P, K>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = HedgePolicy<C>>,
    C: Classify<E>,
    K: Cancel,
{
    Hedge::new(op, policy, token)
}
