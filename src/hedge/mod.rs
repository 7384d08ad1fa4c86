//! Racing a slow call against a second one: against the long tail of latency, not against failure.
//!
//! Of a hundred calls to a healthy service a few take many times as long as the rest: a pause for garbage, a full
//! queue, a slow disk on one of many machines. A second call made *then* most likely meets a quick machine. Made once
//! the first has taken longer than 95 of 100 do, it costs 5 % more calls and takes most of the tail away (Dean and
//! Barroso, "The Tail at Scale", Communications of the ACM 56(2), 2013: 99.9th percentile 1,800 ms to 74 ms for 2 %
//! more calls).
//!
//! Give the delay as the 95th percentile of your call, or let it follow what was lately usual, with
//! [`with_learned_delay`](HedgePolicy::with_learned_delay). Shorter delays buy little and cost much.
//!
//! # When not
//!
//! * The call must not be made twice at once: it books, pays, sends. A loser is dropped, which tells the upstream nothing:
//!   what it began may still be done.
//! * All calls are slow, as the upstream is overloaded. Hedges then double the load. That is what the
//!   [`Budget`](crate::Budget) is for: with it, in the long run at most one call in ten is hedged (by its default
//!   deposit), whatever the delay. Do not hedge without one.
//! * Calls are billed and long, such as completions of a model: each hedge that starts is paid for in full.
//! * The slowness is your own: a lock, a full connection pool. The second call waits behind the first.
//! * The call fails, rather than is slow: that is for [`retry`](crate::retry()). The two compose, the hedge inside:
//!   see [`hedge`](hedge()).
//!
//! # Which outcome wins
//!
//! The first that is *accepted*: a success, or an error after which, by the policy's classifier, the
//! request must not be sent again: the other attempts would meet it too. An error that may pass
//! does not win while others are in flight, however early it comes: a machine that refuses at once must not beat one
//! that answers. Once every attempt in flight has failed, the call ends with the last error: no further hedge is
//! started, as that would be a retry without a backoff. If an upstream answers that it wants less (a throttling, a hint to
//! wait), no more hedges are started either.

mod future;
mod pace;
mod policy;

pub use future::Hedge;
pub use policy::HedgePolicy;

use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::policy::{AsPolicy, Attempt};

/// Calls `op`, and again where that takes long, and takes the first outcome that is
/// [accepted](self#which-outcome-wins). The others are dropped.
///
/// `op` is called for the first time when the returned future is first polled, and for a hedge never before its delay
/// is over. [`Attempt::delay`] is the time since the attempt before. Attempts are polled before what may end the call,
/// the oldest first: an outcome in hand beats the token and the deadline. Once the token is cancelled nothing is
/// started.
///
/// On an [`Upstream`](crate::Upstream) the first attempt waits for its admission like that of a retry. A hedge does not:
/// where it is not admitted at once, or the budget cannot pay for it, it is not made. Each attempt reports its own
/// outcome; a loser that was dropped in flight says nothing of the upstream.
///
/// # Cost
///
/// A call that is ready at its first poll makes no timer, and reads the clock only for a total timeout or an
/// observer of all events. The first attempt is held inside the
/// future; a hedge is boxed when it starts. So the future is as large as one attempt rather than as all that might be
/// needed, in each of the many calls that never hedge; the allocation comes only in those that have just waited out the
/// delay.
///
/// # Errors
///
/// [`GaveUp`](crate::GaveUp), with [`StopReason::Fatal`](crate::StopReason::Fatal) for an error that was accepted,
/// [`StopReason::Attempts`](crate::StopReason::Attempts) where every attempt failed, `Deadline` and `Cancelled`; it holds the last
/// error.
///
/// # Cancel safety
///
/// Dropping the future drops the attempts in flight. Nothing else is held: a token of the budget is spent in the
/// moment in which its hedge starts.
///
/// # Panics
///
/// If polled after completion. A panic of `op`, its futures, the classifier or the observer passes through, and leaves
/// nothing shared broken.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Budget, HedgePolicy, Never, Upstream, hedge};
/// use std::{io, time::Duration};
///
/// static POLICY: HedgePolicy = HedgePolicy::new().with_delay(Duration::from_millis(50));
/// static SEARCH: Upstream = Upstream::new("search").with_budget(Budget::new());
///
/// // The first machine that is asked has fallen asleep.
/// async fn ask(attempt: resile::Attempt) -> io::Result<u32> {
///     let latency = if attempt.is_first() { Duration::from_secs(2) } else { Duration::from_millis(10) };
///     tokio::time::sleep(latency).await;
///     Ok(attempt.number())
/// }
/// let began = tokio::time::Instant::now();
/// assert_eq!(hedge(ask, &POLICY, Never).on(&SEARCH).await.unwrap(), 2);
/// assert!(began.elapsed() < Duration::from_millis(70));
/// # }
/// ```
///
/// Each attempt of a retry hedged; the retry reads the verdict that the hedge ended with:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{GaveUp, HedgePolicy, Never, RetryPolicy, hedge, retry};
/// use std::io;
///
/// # async fn ask(_: resile::Attempt) -> io::Result<u32> { Ok(7) }
/// let hedging = HedgePolicy::new().with_classifier(|e: &io::Error| e.kind() == io::ErrorKind::ConnectionReset);
/// let policy = RetryPolicy::new().with_classifier(|e: &GaveUp<io::Error>| e.verdict());
/// let answer = retry(|_| hedge(ask, hedging, Never), policy, Never).await.map_err(GaveUp::flatten);
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
