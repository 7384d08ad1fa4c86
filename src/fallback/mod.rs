//! Alternatives for one answer, tried in their order: another model, another provider, a cached answer.
//!
//! A retry asks the same peer again, which mends what passes. What does not pass (a quota that is gone, a model
//! withdrawn, a provider down for an hour) is mended only elsewhere. So a fallback asks of each error another question
//! than a retry does: not "may it succeed later?" but "may it succeed elsewhere?". "Quota exhausted" is no and yes,
//! "this prompt is malformed" is no and no, and "the reply was cut off" may be yes and yes. Hence it has a classifier
//! of its own, whose [`Verdict::Retry`](crate::Verdict) means: go on to the next.
//!
//! An alternative must be good enough to be given without asking: a smaller model, an older answer. Where it is not,
//! fail instead, as a fallback hides that the first choice is down: watch its events. And where the alternatives share
//! what is broken (one region, one account) each only adds load and delay.
//!
//! # Where it stands
//!
//! Outermost: around the retries, one for each alternative. All share one token, and one deadline, of which each retry
//! may be given its part:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::{FallbackPolicy, GaveUp, Never, RetryPolicy, Stop, fallback, retry};
//! use std::time::Duration;
//!
//! #[derive(Debug)]
//! enum CallError { Overloaded, QuotaGone, Malformed }
//!
//! /// May asking the same model again help?
//! fn later(e: &CallError) -> bool { matches!(e, CallError::Overloaded) }
//! /// May asking another one? A retry that was not fatal has had its chances: yes.
//! fn elsewhere(gave_up: &GaveUp<CallError>) -> bool {
//!     gave_up.stop() != Stop::Fatal || matches!(gave_up.last(), Some(CallError::QuotaGone))
//! }
//!
//! # async fn ask(model: &str) -> Result<String, CallError> {
//! #     match model { "large" => Err(CallError::QuotaGone), "medium" => Err(CallError::Overloaded), _ => Ok(format!("{model} says hello")) }
//! # }
//! static MODELS: [&str; 3] = ["large", "medium", "small"];
//! let policy = FallbackPolicy::new().with_deadline(Duration::from_secs(60)).with_classify(elsewhere);
//!
//! let answer = fallback(
//!     &MODELS,
//!     |alternative| async move {
//!         let policy = RetryPolicy::new().with_classify(later);
//!         let policy = alternative.share().map_or(policy, |share| policy.with_deadline(share));
//!         retry(|_| ask(alternative.value()), &policy, Never).await
//!     },
//!     &policy,
//!     Never,
//! )
//! .await;
//! assert_eq!(answer.unwrap(), "small says hello");
//! # }
//! ```

mod error;
mod event;
mod future;
mod policy;

pub use error::NoAnswer;
pub use event::Event;
pub use future::Fallback;
pub use policy::FallbackPolicy;

use std::time::Duration;

use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::Standard;
use crate::time::DefaultTimer;

/// What an operation is told of the alternative that it is to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternative<'a, A> {
    value: &'a A,
    index: usize,
    count: usize,
    elapsed: Duration,
    remaining: Option<Duration>,
}

impl<'a, A> Alternative<'a, A> {
    /// The alternative itself.
    #[must_use]
    pub const fn value(&self) -> &'a A {
        self.value
    }

    /// Where it stands among the alternatives; the first is 0.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Whether none is left after it.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.index + 1 == self.count
    }

    /// Time from the start of the call to the start of this alternative; zero for the first.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Time left until the deadline of the whole call; `None` without one.
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// An even share of the time left: as much for each that comes after. `None` without a deadline.
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
/// After an error the policy's classifier says whether to go on: [`Verdict::Retry`](crate::Verdict) tries the next one
/// at once, [`Verdict::Fail`](crate::Verdict) and no opinion end the call. The future of an alternative is dropped
/// before the next is made.
///
/// What an alternative has in hand beats the token and the deadline, and they beat starting the next one.
///
/// An observer and a timer are attached before the first poll: [`with_observer`](Fallback::with_observer),
/// [`with_timer`](Fallback::with_timer).
///
/// # Errors
///
/// [`NoAnswer`], which says why, which alternatives were tried and how long it took, and holds the last error.
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
pub fn fallback<'a, A, F, Fut, T, E, C, K>(
    alternatives: &'a [A],
    op: F,
    policy: &'a FallbackPolicy<C>,
    token: K,
) -> Fallback<'a, A, F, Fut, E, C, K, Standard, DefaultTimer>
where
    F: FnMut(Alternative<'a, A>) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    K: Cancel,
{
    Fallback::new(alternatives, op, policy, token)
}
