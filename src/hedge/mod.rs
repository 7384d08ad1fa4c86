//! A second attempt for a call that is slow. Hedging helps against rare slowness, not failure.
//!
//! A few of a hundred calls to a healthy service take many times as long as the rest, because of a
//! garbage collection, a full queue or a slow disk on one of many machines. A second attempt at
//! that moment most likely meets a fast machine.
//!
//! Start it after the 95th percentile of the latency. This costs 5 % more calls and removes most of
//! the slow tail. Dean and Barroso measured 74 ms instead of 1,800 ms at the 99.9th percentile for
//! 2 % more calls ("The Tail at Scale", Communications of the ACM 56(2), 2013).
//!
//! Set the delay to the 95th percentile of your call, or derive it from recent latencies with
//! [`with_learned_delay`](HedgePolicy::with_learned_delay). Shorter delays gain little and cost
//! much.
//!
//! # When not
//!
//! * The call must not run twice at once: it books, pays or sends something. The upstream does not
//!   learn that a losing attempt was dropped, so it may finish the work.
//! * All calls are slow because the upstream is overloaded. Hedges then double the load, so never
//!   hedge without a [`Budget`](crate::Budget): with its default deposit at most one call in ten is
//!   hedged in the long run, for any delay.
//! * Calls are long and billed, such as completions of a model, and each hedge costs the full
//!   price.
//! * The slowness is in your own process: a lock, a full connection pool. The second attempt queues
//!   behind the first.
//! * Calls fail instead of being slow. Use [`retry`](crate::retry()). A hedge can run inside a
//!   retry: see [`hedge`](crate::hedge()).
//!
//! # Which outcome wins
//!
//! The first *accepted* outcome wins. A success is accepted. An error is accepted if the policy's
//! classifier forbids sending the request again, because the other attempts would get the same
//! error.
//!
//! Any other error loses to the attempts in flight even if it comes first. A machine that refuses
//! at once must not beat a machine that answers. The call ends with the last error once every
//! attempt in flight has failed, because a further hedge would then be a retry without a backoff.
//! No further hedge starts either after a throttling error or a hint to wait.

mod close;
mod future;
pub(crate) mod hedge;
mod pace;
pub(crate) mod policy;

pub use future::Hedge;
pub(crate) use policy::HedgePolicy;
