//! The engine under every call. Only the engine waits, classifies, charges the budget and reports.
//!
//! A shell (`retry`, `Run`, `retry_stream`, `hedge`, `fallback`, `Upstream::call`) owns its
//! attempts and has its own rules. A [`CallState`] holds everything else. The steps of one attempt:
//!
//! 1. `poll_between` waits for the delay and then begins the attempt. `begin` checks the token, the
//!    attempts, the deadline and the budget. Then `admit` asks the target: cooldown, bulkhead, quota,
//!    breaker. The answer is a [`Begin`]: go, wait or close the call.
//! 2. `poll_attempt` polls the attempt. While the attempt is pending, `poll_limits` may cut it.
//! 3. `succeeded` reports a success to the target and the observer.
//! 4. `finish` takes every other [`Finish`] of an attempt. It classifies and reports the failure,
//!    takes a budget token and sets the next delay, or it closes the call.
//! 5. `close` releases what the call holds, reports and returns a [`GaveUp`].
//!
//! An attempt *finishes*, a call *closes*, and what is held is *released*.

mod begin;
mod close;
mod emit;
mod engine;
mod finish;
mod nesting;
mod pending;
mod policy;
mod state;
mod success;
mod wait;

pub(crate) use begin::Begin;
pub(crate) use engine::Engine;
pub(crate) use finish::{Classified, Finish};
pub(crate) use pending::{Pending, PendingOf};
#[cfg(feature = "stream")]
pub(crate) use policy::Flowing;
pub(crate) use policy::{CallPolicy, Counted, Limits, NO_LIMIT, Plain, Renewed, limit_of};
pub(crate) use state::CallState;
