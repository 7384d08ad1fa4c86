//! A circuit breaker that refuses calls to a failing upstream until a few probes succeed.
//!
//! The guide has a chapter on [load](crate::guide::load).
//!
//! A retry spends effort on one call, while a breaker saves effort across all calls. It spares the
//! caller the wait for a likely failure, and it spares the upstream load during its recovery. Use a
//! breaker if many calls share one upstream and a failing call is slow or costs something.
//!
//! Do not share a breaker between calls with independent failures, because the failures of one
//! tenant, shard or model would refuse the calls of all. Give each of them its own
//! [`Upstream`](crate::Upstream). A breaker does not replace a [`Budget`](crate::Budget) either:
//! below its threshold a breaker does nothing, while retries already add load.
//!
//! # Trip conditions
//!
//! Any of three conditions opens the breaker. Each detects failures missed by the other two:
//! * **Consecutive failures**: the upstream is gone. This condition detects an outage at low
//!   traffic but misses an outage with occasional successes.
//! * **Failure rate** over a sliding window with a minimum number of calls. This condition detects
//!   a partial outage and needs traffic.
//! * **Slow-call rate**: the upstream answers too late to be useful. This condition is off unless a
//!   limit is given.
//!
//! # Counted outcomes
//!
//! The breaker counts the [health](crate::Health) in the verdict on each attempt:
//!
//! | outcome | consecutive | rate | a probe |
//! |---|---|---|---|
//! | success, or `Healthy` | ends the streak | counts as good | passes unless slow |
//! | `Failing` | counts | counts as bad | fails |
//! | `Throttling`: an overload, such as a 503 with `Retry-After` | only after [`with_overloads`](crate::Breaker::with_overloads) | counts as bad | fails |
//! | `Throttling` by a [limit of the caller](crate::Verdict::is_own_limit), such as a 429, beside a part that answers it | | | ends without a result |
//! | the same without such a part | as an overload | counts as bad | fails |
//! | `Unknown`, unclassified, or dropped unfinished | | | ends without a result |
//!
//! The breaker ignores whether a request may be sent again: a failed `POST` counts like a failed
//! `GET`. A 404 classified as `Healthy` counts as good because it shows a working upstream, and a
//! throttled call shows a reachable one. A call admitted before a transition does not count later.
//!
//! A limit of the caller tells nothing of the upstream's health: a burst above a rate limit is refused by a
//! service that works. A [`Cooldown`](crate::Cooldown), a [`Throttle`](crate::Throttle) and a
//! [`Quota`](crate::Quota) of rates answer it, and a breaker that opened as well would refuse calls for
//! longer than the service asked. A quota in shadow mode does not answer it. Without such a part the
//! breaker is the only one that keeps calls from a service that refuses them.
//!
//! An attempt that times out counts by its verdict: `Failing` unless the classifier returns another
//! one. An attempt cancelled by the total timeout counts too, but only if it ran for at least half
//! of the shorter of the two timeouts, because a shorter run shows nothing.

#[cfg(feature = "fleet")]
mod advice;
pub(crate) mod breaker;
mod core;
mod error;
mod machine;
mod publish;
#[cfg(test)]
mod races;
mod report;
mod settings;
mod state;
mod ticket;
mod transition;
mod trip;
mod unwind;
mod window;
#[cfg(test)]
mod wraps;

pub(crate) use self::breaker::Breaker;
pub(crate) use self::core::{Outcome, Owner};
#[cfg(feature = "fleet")]
pub use advice::Advice;
pub(crate) use error::Open;
#[cfg(feature = "serde")]
pub(crate) use settings::{DEFAULT_CALLS, DEFAULT_PROBES_SHARE};
pub use state::{Snapshot, State, TripReason};
pub(crate) use ticket::Ticket;
pub use transition::Transition;
