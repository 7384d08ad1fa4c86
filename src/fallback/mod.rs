//! Alternatives for one answer, tried in their order: another model, another provider, a cached answer.
//!
//! A retry asks the same upstream again, which helps against what passes. Against what does not pass (a quota that is
//! gone, a model withdrawn, a provider down for an hour) only another one helps. So a fallback asks of each error another question
//! than a retry does: not "may it succeed later?" but "may it succeed elsewhere?". "Quota exhausted" is no and yes,
//! "this prompt is malformed" is no and no, and "the reply was cut off" may be yes and yes. Hence it has a classifier
//! of its own, whose [`is_again`](crate::Verdict::is_again) means: go on to the next.
//!
//! An alternative must be good enough to be given without asking: a smaller model, an older answer. Where it is not,
//! fail instead, as a fallback hides that the first choice is down: watch its events. And where the alternatives share
//! what is broken (one region, one account) each only adds load and delay.
//!
//! # Where it stands
//!
//! Outermost: around the retries, one for each alternative, each on its own [`Upstream`](crate::Upstream). All share one
//! token, and one total timeout, of which each retry may be given its part:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::{Alternative, Breaker, FallbackPolicy, GaveUp, Never, RetryPolicy, Upstream, Verdict, fallback, retry};
//! use std::time::Duration;
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("{self:?}")]
//! enum CallError { Overloaded, QuotaGone, Malformed }
//!
//! /// May asking the same model again help?
//! fn later(e: &CallError) -> bool { matches!(e, CallError::Overloaded) }
//! /// May asking another one? Only where the request itself is well.
//! fn elsewhere(gave_up: &GaveUp<CallError>) -> bool { !matches!(gave_up.last(), Some(CallError::Malformed)) }
//!
//! # async fn ask(model: &str) -> Result<String, CallError> {
//! #     match model { "large" => Err(CallError::QuotaGone), "medium" => Err(CallError::Overloaded), _ => Ok(format!("{model} says hello")) }
//! # }
//! static LARGE: Upstream = Upstream::new("large").with_breaker(Breaker::new());
//! static MEDIUM: Upstream = Upstream::new("medium").with_breaker(Breaker::new());
//! static SMALL: Upstream = Upstream::new("small").with_breaker(Breaker::new());
//! let policy = FallbackPolicy::new().with_total_timeout(Duration::from_secs(60)).with_classifier(elsewhere);
//!
//! let ask_one = |alternative: Alternative<'_, &'static Upstream>| {
//!     let (upstream, share) = (*alternative.value(), alternative.share());
//!     async move {
//!         let policy = RetryPolicy::new().with_classifier(later);
//!         let policy = share.map_or(policy, |share| policy.with_total_timeout(share));
//!         retry(|_| ask(upstream.name()), policy, Never).on(upstream).await
//!     }
//! };
//! let answer = fallback(&[&LARGE, &MEDIUM, &SMALL], ask_one, policy, Never).await.map_err(GaveUp::flatten);
//! assert_eq!(answer.unwrap(), "small says hello");
//! # }
//! ```

mod future;
mod policy;

pub use future::Fallback;
pub use policy::FallbackPolicy;

use std::time::Duration;

use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::policy::AsPolicy;

/// The alternative that an operation tries. Made by [`fallback`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternative<'a, A> {
    value: &'a A,
    index: usize,
    count: usize,
    elapsed: Duration,
    remaining: Option<Duration>,
}

impl<'a, A> Alternative<'a, A> {
    /// Returns the alternative itself.
    #[must_use]
    pub const fn value(&self) -> &'a A {
        self.value
    }

    /// Returns where it stands among the alternatives; the first is 0.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Returns whether none is left after it.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.index + 1 == self.count
    }

    /// Returns the time from the start of the call to the start of this alternative; zero for the first.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the time left until the deadline of the whole call; `None` without one.
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns an even share of the time left: as much for each that comes after. `None` without a deadline.
    ///
    /// As a limit on this alternative, it lets one that hangs leave time for the others; the last may have all that is
    /// left.
    #[must_use]
    pub fn share(&self) -> Option<Duration> {
        let left = u32::try_from(self.count.saturating_sub(self.index)).unwrap_or(u32::MAX);
        self.remaining.map(|remaining| remaining / left.max(1))
    }
}

/// Tries `alternatives` in their order until one answers, as `policy` allows and until `token` says stop.
///
/// `op` is called once for each alternative that is tried, for the first when the returned future is first polled.
/// After an error the policy's classifier says whether to go on: where the request may be [sent
/// again](crate::Verdict::is_again) the next one is tried at once; otherwise, and without an opinion, the call ends. The future of an alternative is dropped
/// before the next is made.
///
/// What an alternative has in hand beats the token and the deadline, and they beat starting the next one.
///
/// Each alternative is best called on an [`Upstream`](crate::Upstream) of its own, within `op`. The fallback itself may
/// be given a name, or an upstream that all alternatives share: then each of them is an attempt on that.
///
/// # Errors
///
/// [`GaveUp`](crate::GaveUp), with [`StopReason::Alternatives`](crate::StopReason::Alternatives) where all have failed; it
/// says how many were tried and how long that took, and holds the last error.
///
/// # Cancel safety
///
/// Dropping the future drops the alternative in flight. Nothing else is held.
///
/// # Panics
///
/// If polled after completion.
///
/// # Examples
///
/// On the page of [the module](mod@crate::fallback).
#[inline]
#[track_caller]
pub fn fallback<'a, A, F, Fut, T, E, P, C, K>(
    alternatives: &'a [A],
    op: F,
    policy: P,
    token: K,
) -> Fallback<'a, A, F, Fut, E, P, K>
where
    F: FnMut(Alternative<'a, A>) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = FallbackPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
{
    Fallback::new(alternatives, op, policy, token)
}
