use super::alternative::Alternative;
use super::future::Fallback;
use super::policy::FallbackPolicy;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::policy::AsPolicy;

/// Tries `alternatives` in order until one of them succeeds.
///
/// `op` is called once for each alternative tried. The first call happens at the first poll of the
/// returned future. After an error the policy's classifier decides:
///
/// * If the request may be [sent again](crate::Verdict::is_again), the next alternative is tried at
///   once. The future of the failed alternative is dropped before.
/// * Otherwise, and without a verdict, the call ends.
///
/// An outcome that is ready takes precedence over the token and the deadline, and these take
/// precedence over the start of the next alternative. At the deadline the alternative in flight is polled once
/// more. A call within it whose own deadline coincides, such as one with the [share](Alternative::share) of
/// the last alternative, then ends by itself, and the error is its own. The error names any other call.
///
/// Within `op`, call each alternative on its own [`Upstream`](crate::Upstream). The fallback itself
/// may get a name, or an upstream shared by all alternatives, on which each alternative is an
/// attempt.
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
