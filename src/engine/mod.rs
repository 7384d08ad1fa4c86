//! The engine under every call. Only the engine waits, classifies, charges the budget and reports.
//!
//! A shell (`retry`, `Run`, `retry_stream`, `hedge`, `fallback`, `Upstream::call`) owns its
//! attempts and has its own rules. A [`CallState`] holds everything else. The steps of one attempt:
//!
//! 1. `poll_between` (`wait.rs`) waits for the delay, yields after many failures in a row, and then
//!    begins the attempt. `begin` (`begin.rs`) checks the token, the attempts, the deadline and the
//!    budget. Then `Guard::admit` (`upstream/admit.rs`) asks the parts of the target in their order. The
//!    answer is a [`Begin`]: go, wait or close the call.
//! 2. `poll_attempt` (`attempt.rs`) polls the attempt. While the attempt is pending, `poll_limits`
//!    beside it cuts the attempt at its timeout, at the deadline or by the token.
//! 3. `succeeded` (`success.rs`) reports a success to the target and the observer.
//! 4. `finish` (`finish.rs`) takes every other [`Finish`] of an attempt. It classifies and reports the
//!    failure, asks the policy, pays the budget for the next attempt and sets the delay, or it closes
//!    the call.
//! 5. `close` (`close.rs`) releases what the call holds, reports and returns a [`GaveUp`].
//!
//! An attempt *finishes*, a call *closes*, and what is held is *released*.

mod attempt;
mod begin;
mod close;
mod dropped;
mod emit;
mod ending;
mod engine;
mod finish;
mod judged;
mod last_cut;
mod nesting;
mod overdue;
mod pending;
mod policy;
mod request;
#[cfg(feature = "stream")]
mod shown;
mod state;
mod success;
mod until;
mod wait;

pub(crate) use begin::Begin;
pub(crate) use dropped::{Attempting, Watched};
pub(crate) use engine::Engine;
pub(crate) use finish::{Classified, Finish};
pub(crate) use pending::{Pending, PendingOf};
#[cfg(feature = "stream")]
pub(crate) use policy::Flowing;
pub(crate) use policy::{CallPolicy, Limits, NO_LIMIT, Plain, Renewed, limit_of};
#[cfg(feature = "stream")]
pub(crate) use shown::Shown;
pub(crate) use state::CallState;
