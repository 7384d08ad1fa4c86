//! Alternatives for one answer, tried in order: another model, another provider, a cached answer.
//!
//! A retry asks the same upstream again. This helps against faults that pass. Some faults do not
//! pass: a used-up quota, a withdrawn model, a provider that is down for an hour. Only another
//! upstream helps then. A fallback therefore asks a different question about each error:
//!
//! | error | may succeed later (retry) | may succeed elsewhere (fallback) |
//! |---|---|---|
//! | the quota is exhausted | no | yes |
//! | the prompt is malformed | no | no |
//! | the reply was cut off | perhaps | perhaps |
//!
//! So a fallback has its own classifier. Its [`is_again`](crate::Verdict::is_again) means: try the
//! next alternative.
//!
//! # When not
//!
//! * The alternative is not good enough to be used without asking. A smaller model or an older
//!   answer may be worse than an error. Fail instead.
//! * The alternatives share the broken part (one region, one account). Each of them then only adds
//!   load and delay.
//!
//! A fallback hides an outage of the first choice. Watch the events of the fallback.
//!
//! # The budget
//!
//! A fallback with a name alone, `.on("ask")`, pays nothing: each alternative has an upstream with a
//! budget of its own, and its first attempt there is no retry. A fallback on an
//! [`Upstream`](crate::Upstream) says that all alternatives send to that upstream. The second
//! alternative is then a further request for the same answer, so the budget of that upstream pays for
//! it like for a retry. A spent budget ends such a fallback after its first alternative. Otherwise a
//! fallback over three models would triple the load on a provider that is down.
//!
//! # Order of the layers
//!
//! Put the fallback outermost, around one retry for each alternative. Each retry runs on its own
//! [`Upstream`](crate::Upstream). All of them share one token and one total timeout. Each retry may
//! get a part of that timeout:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::{Alternative, Breaker, FallbackPolicy, GaveUp};
//! use resile::{Never, RetryPolicy, Upstream, fallback, retry};
//! use std::time::Duration;
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("{self:?}")]
//! enum CallError { Overloaded, QuotaGone, Malformed }
//!
//! /// Returns whether the same model may answer later.
//! fn later(e: &CallError) -> bool {
//!     matches!(e, CallError::Overloaded)
//! }
//! /// Returns whether another model may answer.
//! fn elsewhere(gave_up: &GaveUp<CallError>) -> bool {
//!     !matches!(gave_up.last(), Some(CallError::Malformed))
//! }
//!
//! # async fn ask(model: &str) -> Result<String, CallError> {
//! #     match model {
//! #         "large" => Err(CallError::QuotaGone),
//! #         "medium" => Err(CallError::Overloaded),
//! #         _ => Ok(format!("{model} says hello")),
//! #     }
//! # }
//! static LARGE: Upstream = Upstream::new("large").with_breaker(Breaker::new());
//! static MEDIUM: Upstream = Upstream::new("medium").with_breaker(Breaker::new());
//! static SMALL: Upstream = Upstream::new("small").with_breaker(Breaker::new());
//! let policy = FallbackPolicy::new()
//!     .with_total_timeout(Duration::from_secs(60))
//!     .with_classifier(elsewhere);
//!
//! let ask_one = |alternative: Alternative<'_, &'static Upstream>| {
//!     let (upstream, share) = (*alternative.value(), alternative.share());
//!     async move {
//!         let policy = RetryPolicy::new().with_classifier(later);
//!         let policy = match share {
//!             Some(share) => policy.with_total_timeout(share),
//!             None => policy,
//!         };
//!         retry(|_| ask(upstream.name()), policy, Never).on(upstream).await
//!     }
//! };
//! let models = [&LARGE, &MEDIUM, &SMALL];
//! let answer = fallback(&models, ask_one, policy, Never).await;
//! let answer = answer.map_err(GaveUp::flatten);
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

/// An alternative, as its operation sees it. Made by [`fallback`].
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

    /// Returns the index of the alternative in the list. The first is 0.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Returns whether this is the last alternative.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.index + 1 == self.count
    }

    /// Returns the time from the start of the call to the start of this alternative.
    ///
    /// The time is zero for the first alternative.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the time left until the deadline of the whole call. `None` without a deadline.
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns the remaining time divided by the number of alternatives left including this one.
    ///
    /// Returns `None` without a deadline. Use the share as the timeout of this alternative. Even if
    /// it hangs, the other alternatives then get their time. The last one gets all the rest.
    #[must_use]
    pub fn share(&self) -> Option<Duration> {
        let left = u32::try_from(self.count.saturating_sub(self.index)).unwrap_or(u32::MAX);
        self.remaining.map(|remaining| remaining / left.max(1))
    }
}

/// Tries `alternatives` in order until one of them succeeds.
///
/// `op` is called once for each alternative tried. The first call happens at the first poll of the
/// returned future. After an error the policy's classifier decides:
///
/// * If the request may be [sent again](crate::Verdict::is_again), the next alternative is tried at
///   once. The future of the failed alternative is dropped before.
/// * Otherwise the call ends. It also ends without a verdict.
///
/// An outcome that is ready takes precedence over the token and the deadline. The token and the
/// deadline take precedence over the start of the next alternative.
///
/// Within `op`, call each alternative on its own [`Upstream`](crate::Upstream). The fallback itself
/// may get a name or an upstream shared by all alternatives. On a shared upstream each alternative
/// is an attempt.
///
/// # Errors
///
/// [`GaveUp`](crate::GaveUp) with the number of alternatives tried, the time taken and the last
/// error. If all alternatives failed, the reason is
/// [`StopReason::Alternatives`](crate::StopReason::Alternatives). An empty list ends the same way.
///
/// # Cancel safety
///
/// Dropping the future drops the alternative in flight and gives back what the call holds at its
/// upstream.
///
/// # Panics
///
/// Panics if polled after completion.
///
/// # Examples
///
/// See [the module](mod@crate::fallback).
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
