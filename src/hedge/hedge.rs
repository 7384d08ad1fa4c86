use super::future::Hedge;
use super::policy::HedgePolicy;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::policy::{AsPolicy, Attempt};

/// Calls `op`, and calls it again after each delay without an accepted outcome. The first
/// [accepted](mod@crate::hedge#which-outcome-wins) outcome wins, and the other attempts are
/// dropped.
///
/// The first call of `op` happens at the first poll of the returned future. A hedge never starts
/// before its delay is over. Its [`Attempt::delay`] is the time since the previous attempt started.
///
/// Attempts are polled before the token and the timeouts, the oldest attempt first, so an outcome
/// that is ready takes precedence over the token and the deadline. After cancellation no attempt
/// starts.
///
/// On an [`Upstream`](crate::Upstream) the first attempt waits for its admission as in a retry. A
/// hedge does not wait: it is skipped unless the upstream admits it at once and the budget can pay
/// for it. Each attempt reports its own outcome, but an attempt dropped in flight reports none.
///
/// # Cost
///
/// A call that is ready at its first poll creates no timer, and it reads the clock only for a total
/// timeout or an observer of all events. The future contains the first attempt, while a hedge is
/// boxed when it starts. So a call without hedges needs no allocation and only the size of one
/// attempt.
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
/// A retry can hedge each of its attempts, and the retry then reads the verdict of the hedge. Give
/// both the same upstream: an attempt and the first request of its hedge [share one
/// admission](crate::upstream#calls-within-calls).
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
