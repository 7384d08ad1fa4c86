//! A quota that keeps calls below the rate limits of a provider.
//!
//! The guide has a chapter on [quotas](crate::guide::quotas).
//!
//! A provider limits requests, tokens and concurrent requests. A program that finds its limit by
//! 429s wastes requests, and many providers count a refused request too. A [`Quota`] counts as the
//! provider does: each attempt on the [`Upstream`](crate::Upstream) *reserves* its cost before the
//! request is sent, in every dimension or in none, and its answer then *settles* the actual usage.
//! A cost that does not fit now waits its turn in one fair, bounded queue. The wait costs no
//! attempt.
//!
//! # Cost
//!
//! Every attempt costs one request. [`Upstream::at_cost`](crate::Upstream::at_cost) adds tokens:
//! the input, and the maximum of the output. The output that a call reserves is an [`Estimate`],
//! learned from the usage of recent calls. If the [`Charge`] says that the provider reserves the
//! maximum, the call does too. An estimate is never larger than the room that the input leaves in
//! the burst, so an estimate alone refuses no call.
//!
//! # Settlement
//!
//! * [`record`] within the operation reports the usage, and the crate `resile-llm` does so for the
//!   answers that it reads. The quota then takes what was used beyond the reservation, or gives
//!   back the rest. A quota may be overdrawn: the debt refills first.
//! * At most 16,777,215 tokens of input and 268,435,455 of output count for one attempt.
//! * An attempt without a usage keeps its reservation: the provider may have charged it.
//! * An attempt that the upstream refused gives back the tokens that no usage has charged, because its
//!   request was not processed. The request itself counts, as many providers count it too. The verdict is
//!   a throttling, or it says that the request was [without effect](crate::Verdict::without_effect), as
//!   after an answer 402 or 404. If a provider charges such a request, [`record`] its usage.
//! * An attempt that was never sent gives everything back: its admission was not used, or its verdict
//!   says so ([`Verdict::not_sent`](crate::Verdict::not_sent)). The classifiers of this crate say so of a
//!   refused connection, of a failed name lookup and of a request that could not be built.
//!
//! # Learning
//!
//! Two counts of one limit drift apart, so the quota lowers its level to the provider's count:
//!
//! * A verdict of [`Verdict::throttled`](crate::Verdict::throttled) sets the level to 0, less the
//!   output that attempts in flight have reserved and the provider has not charged yet. A verdict
//!   of [`Verdict::overloaded`](crate::Verdict::overloaded) changes nothing, because the caller's
//!   own limit did not cause it. If the headers of the refusal were learned, they count instead, and
//!   the refused attempt gives nothing back above the reported level. So a reported limit of which 0
//!   remains empties its own level alone, also if the quota does not have this limit.
//! * [`learn`] passes the limits in the headers of an answer. The level becomes the remaining
//!   amount, less the same output.
//!
//! Learning never raises a level. After a refusal nothing refills until the hold of the cooldown ends,
//! because the provider accepts nothing meanwhile. A refusal that reports its limit and what is left says it
//! better, so that level refills from then on.
//!
//! # Limits that are wrong
//!
//! The limit itself may be wrong. [`learn`] passes the reported limit too, and the quota compares
//! it as a rate with its own. And if the provider refuses attempts although the quota has units for
//! them, its limit is lower. What then happens is a [`Learning`]. By default the quota uses the
//! lower limit: a reported one at once if its window is known, and otherwise by small steps. The window
//! is known by the field's name. A limit that refills at an even rate shows it without a name: its reset
//! is the time in which the used part comes back. One answer may show that by chance, so four answers
//! with different resets must agree on a window of a second, a minute, an hour or a day. A reset of at
//! least a quarter of the configured period is enough for a lower limit, and never for a higher one.
//!
//! * A refusal first takes the burst if there is one to take. Later ones take their cost from the limit of a
//!   period of at least 10 s and at most a minute, and at most half in such a period. While attempts wait, the limit
//!   grows, near the last refused one by one attempt in 3,000. `DESIGN.md` has the law and its bounds.
//! * The quota never uses more than the configured limit, unless [`Learning::Both`] is set and the
//!   provider reports it.
//! * Each difference is one event, [`EventKind::Learned`](crate::observe::EventKind::Learned).
//!   [`Upstream::quota_rate`](crate::Upstream::quota_rate) returns the limit in use.
//! * Until a quota has all of its limit again, a reservation takes a lock.
//!
//! # Waiting
//!
//! A wait ends with the call's deadline, its token, or its admission. A call whose cost cannot fit
//! before its deadline ends at once with [`StopReason::Deadline`](crate::StopReason::Deadline), and
//! [`retry_after`](crate::GaveUp::retry_after) is the time until it could. This is a forecast: it
//! counts the known costs of all waiters ahead and assumes that every attempt in flight gives back
//! its output. A retry has the same forecast when the attempt before it fails, so its call does not wait for
//! a delay that no attempt can follow in time. A forecast during a hold of the cooldown counts that only
//! the part of the burst in use refills until the hold ends. When a refusal or a report lowers a level, or a hold
//! begins, or a retry joins in front of them, the calls in the queue that cannot begin in time any more end at
//! once too. A report in an accepted answer counts here only if the level falls by more than the cost of its
//! attempt. A wait for concurrency has no forecast, so it ends at the deadline. A cost larger
//! than a burst ends at once with [`StopReason::TooLarge`](crate::StopReason::TooLarge). With a
//! full queue the reason is [`StopReason::Full`](crate::StopReason::Full).
//!
//! In a long overload each waiter would wait for nearly its whole time, begin a moment before its deadline
//! and be cut, so the upstream would work for callers that are gone. Once a deadline has cut an attempt that
//! waited for longer than it ran, the quota measures how long attempts take. A call then leaves the queue
//! unless twice that time is left, but half of its total timeout always suffices. At 160 calls a second
//! on a limit of 100, with five seconds for each call, 99 % of the attempts then reach their callers, and
//! 27 % without it.
//!
//! On an upstream with a bulkhead too, a waiter of the quota holds a permit of the bulkhead. The
//! bulkhead's queue has the same priorities, but no groups, and none of its waiters is served for its
//! age. [`with_concurrency`](Quota::with_concurrency) is a limit in the quota's own queue.
//!
//! The order of the queue:
//!
//! 1. Each eighth turn goes to the oldest waiter if it has waited for ten minutes. So no waiter
//!    starves.
//! 2. The highest [priority](crate::upstream::AtCost::with_priority). Use the progress of the work,
//!    because an agent at its twentieth step has more to lose than one at its first. If all share
//!    equally, none may finish.
//! 3. A retry, whose call has waited before. It goes in front of the attempts that are the first of their
//!    calls. The number of attempts and the budget limit how many there are.
//! 4. The [group](crate::upstream::AtCost::with_group) with the least service, so one busy group
//!    does not delay the others. The cost of its retries counts as its service.
//! 5. The attempt that has been in the queue for longest.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), resile::GaveUp<std::io::Error>> {
//! use resile::quota::{self, Cost, Rate, Usage};
//! use resile::{Never, Quota, RetryPolicy, Upstream, retry};
//! use std::time::Duration;
//!
//! static MODEL: Upstream = Upstream::new("model").with_quota(
//!     Quota::new()
//!         .with_requests(Rate::per_minute(500))
//!         .with_tokens(Rate::per_minute(30_000)),
//! );
//!
//! async fn ask() -> std::io::Result<&'static str> {
//!     quota::record(Usage::new().with_input(20_000).with_output(4_000));
//!     Ok("answer")
//! }
//!
//! let began = tokio::time::Instant::now();
//! let cost = Cost::input(20_000).with_max_output(8_000);
//! for _ in 0..2 {
//!     retry(|_| ask(), RetryPolicy::new(), Never).on(MODEL.at_cost(cost)).await?;
//! }
//! // 24,000 tokens were used, and 28,000 more fit after 44 s.
//! assert_eq!(began.elapsed().as_secs(), 44);
//! # Ok(())
//! # }
//! ```

mod ask;
mod bucket;
mod charge;
mod clock;
mod comparison;
mod cost;
mod demand;
mod estimate;
mod finding;
mod lack;
mod law;
mod learning;
mod lease;
mod ledger;
mod lessons;
mod levels;
mod limits;
mod line;
mod margin;
mod meter;
mod pace;
pub(crate) mod quota;
mod rate;
mod refill;
mod reserved;
mod scarce;
mod shadow;
#[cfg(feature = "fleet")]
mod shared;
#[cfg_attr(not(feature = "fleet"), expect(unreachable_pub, reason = "the fleet uses it outside"))]
mod told;
mod too_large;
mod usage;
mod waiters;

pub(crate) use self::quota::Quota;
pub(crate) use ask::{Ask, Entry};
pub use charge::Charge;
pub use cost::Cost;
pub(crate) use cost::CostKey;
pub(crate) use demand::{Demand, Standing};
pub use estimate::Estimate;
pub(crate) use finding::Findings;
pub use finding::{Evidence, Finding};
pub(crate) use lack::Lack;
pub use learning::Learning;
#[cfg(feature = "fleet")]
pub use lease::Waiting;
pub use levels::Levels;
pub use limits::{Dimension, Limit, Limits};
pub(crate) use meter::{Collecting, Report};
pub use meter::{learn, record};
pub use rate::Rate;
pub(crate) use reserved::Reserved;
pub(crate) use scarce::Scarce;
pub use shadow::Shadow;
#[cfg(feature = "fleet")]
pub use shared::Learned;
#[cfg(feature = "fleet")]
pub use told::Told;
pub use too_large::TooLarge;
pub use usage::Usage;
pub(crate) use waiters::Place;
