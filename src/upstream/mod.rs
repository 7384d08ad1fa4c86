//! An upstream: the state shared by all calls to one backend.
//!
//! The guide has a chapter on [load](crate::guide::load).
//!
//! This state is a name, a budget, a breaker, a cooldown, a bulkhead, a quota, a throttle, an
//! adaptive timeout, an observer and a timer.
//!
//! Each attempt on an [`Upstream`] begins with one admission and ends with one report. The
//! admission asks the token, the cooldown, the throttle, the bulkhead, the quota and the breaker, in
//! this order.
//! The attempt then begins, waits or is refused. A refusal has a reason, and a wait if known. The
//! report gives the verdict and the latency to the breaker, the cooldown, the throttle and the quota. An attempt
//! dropped without a report is neutral and gives back everything it held.
//!
//! | call on an upstream | code |
//! |---|---|
//! | with retries | `retry(op, POLICY, &token).on(&UPSTREAM)` |
//! | a stream, with retries | `retry_stream(open, POLICY, &token).on(&UPSTREAM)` |
//! | with hedges | `hedge(op, POLICY, &token).on(&UPSTREAM)` |
//! | with alternatives | `fallback(…).on("name")`, and each call within on its own upstream |
//! | in your own loop | `Run::new(POLICY, &token).on(&UPSTREAM)` |
//! | one attempt, no retry | [`UPSTREAM.call(future, classifier)`](Upstream::call), or [`future.through(&UPSTREAM, classifier)`](crate::ResilienceExt::through) |
//! | one attempt, by hand | [`UPSTREAM.admit(&token)`](Upstream::admit), then [`settle`](crate::call::Admission::settle) |
//!
//! # Calls within calls
//!
//! An attempt may make a call on the same upstream: a retry of hedges, a fallback of retries, or
//! [`Upstream::call`] within a retry. Such a call sends the request of the attempt, so it takes the
//! admission of the attempt and does not ask for another one. The request has one permit, one
//! reservation and one report, and its success makes one deposit. A further request within the same
//! attempt, such as a hedge or a second call, is admitted and counted by itself.
//!
//! * The call reports its failures. A good answer goes back to the attempt, which reports what it
//!   makes of the answer. A call that is dropped gives its admission back to the attempt too, so an
//!   attempt timeout around a hanging call counts as a failure.
//! * Two upstreams are the same if they are one value: a reference, an `Arc` and a handle of a
//!   [`Keyed`](crate::Keyed) lead to it. Equal names do not count.
//! * A call at [another cost](Upstream::at_cost) is another request. The attempt gives its admission
//!   back, and the call is admitted at its own cost.
//! * Calls at once in one attempt are a request each, and only the first of them takes the admission.
//! * The attempt knows only the calls that its own polls drive. A task that it spawns is another
//!   request. An attempt of a [`Run`](crate::Run) begun with [`next`](crate::Run::next) and an
//!   [`Admission`](crate::call::Admission) by hand lend nothing, because the caller polls them. Within an
//!   attempt they take its admission like any call.
//!
//! # Two upstreams
//!
//! A call runs on one upstream. A second `.on(…)` does not compile. If a host has its own
//! limits and all hosts share others, put one call inside the other:
//! `ALL_HOSTS.call(retry(op, POLICY, &token).on(&HOST), classifier)`.

// Where what happens to an attempt on an upstream:
// `parts.rs` has the parts, `admit.rs` asks them and `report.rs` tells them the end of an attempt.
// `held.rs` and `guard.rs` keep what an attempt holds, `pay.rs` pays the budget, `reservation.rs`
// charges the quota, `latency.rs` knows the start, `lending.rs` and `nested.rs` share an admission with
// calls within the attempt, and `limits.rs` tells when a part begins to refuse (`strains.rs`, each `strain.rs`)
// and when many attempts fail (`surge.rs`).
mod admit;
mod as_target;
mod at_cost;
mod began;
mod explain;
mod guard;
mod held;
mod latency;
mod lending;
mod limits;
mod nested;
mod parts;
mod pay;
mod payment;
mod priority;
mod progress;
mod report;
mod reservation;
mod sending;
#[cfg(feature = "fleet")]
mod shared;
mod strain;
mod strains;
mod surge;
mod target;
pub(crate) mod upstream;
mod wrapper;

pub use self::upstream::Isolation;
pub(crate) use self::upstream::Upstream;
pub use at_cost::AtCost;
pub(crate) use explain::{Describe, NotError, Writer};
pub use explain::{Explained, markers};
pub(crate) use guard::{Guard, TellFailure};
pub(crate) use held::Admit;
pub(crate) use parts::{Name, Parts};
pub(crate) use priority::Around;
pub(crate) use progress::Refuser;
pub(crate) use sending::{
    cut, dropped_last, drops, drops_in_flight, drops_with_call, note_begun, note_commit_begun,
    note_unsent,
};
#[cfg(feature = "fleet")]
pub use shared::{Resource, Shared};
pub(crate) use strain::Limited;
pub(crate) use target::{Endpoint, Slot};
pub use target::{NoUpstream, Target, TargetFor};
pub use wrapper::{Displayed, Observed, Via};
