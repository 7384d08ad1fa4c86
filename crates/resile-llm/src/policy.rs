use std::sync::Arc;
use std::time::Duration;

use crate::classifier::Classifier;
use crate::failure::Failure;
use crate::kind::{Kind, Recovery};
use resile::{Backoff, Breaker, Budget, Cooldown, GaveUp, RetryPolicy, StopReason, Upstream};

/// Creates the upstream of one model, with its name for logs and metrics.
///
/// | part | why |
/// |---|---|
/// | [`Budget`] | retries stay a small share of the requests, so an outage does not multiply the load |
/// | [`Cooldown`] | a refusal with a wait holds back all calls to the model and not only its own |
///
/// A model has no breaker here, because the cooldown already holds during an overload, and a failed
/// prompt says nothing about the next one. If another model stands by, add the breaker of [`breaker()`] by
/// [`with_breaker`](Upstream::with_breaker). Otherwise each call waits for all attempts of a model that hangs, and
/// for the cooldown of one that is overloaded, before the next model is asked. Add the limits of the account by
/// [`with_quota`](Upstream::with_quota). Models with one limit in common share one upstream. For an owned name
/// see [`upstream_named`].
///
/// # Examples
///
/// ```
/// use resile::quota::Rate;
/// use resile::{Quota, Upstream};
/// use resile_llm::charge;
///
/// static MODEL: Upstream = resile_llm::upstream("gpt-4o").with_quota(
///     Quota::new().with_tokens(Rate::per_minute(30_000)).with_charge(charge::OPENAI),
/// );
/// assert_eq!(MODEL.name(), "gpt-4o");
/// ```
pub const fn upstream(name: &'static str) -> Upstream {
    with_parts(Upstream::new(name))
}

/// Creates the upstream of one model, with the parts of [`upstream`]. Its name may be computed at run time, such
/// as one of a configuration.
///
/// # Examples
///
/// ```
/// let names = ["gpt-4o".to_owned(), "gpt-4o-mini".to_owned()];
/// let models = names.map(resile_llm::upstream_named);
/// assert_eq!(models[1].name(), "gpt-4o-mini");
/// ```
pub fn upstream_named(name: impl Into<Arc<str>>) -> Upstream {
    with_parts(Upstream::named(name))
}

const fn with_parts(upstream: Upstream) -> Upstream {
    upstream.with_budget(Budget::new()).with_cooldown(Cooldown::new())
}

/// Returns the breaker of a model beside which another model stands by.
///
/// | setting | value | why |
/// |---|---|---|
/// | failures in a row | 4, and an overload is one | those of one question with the policy [`interactive`] suffice, and a cooldown lets out so few attempts of an overloaded model that a rate of failures has no numbers |
///
/// All else is as in [`Breaker::new`]. Without it a question waits for an overloaded model until its share of the
/// time is over: the [`Cooldown`] of the model lets out one attempt after each wait. The chapter `streams` of the
/// guide has the figures. A rate limit of the account opens no breaker, because the cooldown and the quota answer it.
///
/// # Examples
///
/// ```
/// use resile::Upstream;
///
/// static LARGE: Upstream =
///     resile_llm::upstream("gpt-4o").with_breaker(resile_llm::breaker());
/// static SMALL: Upstream =
///     resile_llm::upstream("gpt-4o-mini").with_breaker(resile_llm::breaker());
/// # assert!(LARGE.breaker().is_some() && SMALL.breaker().is_some());
/// ```
#[must_use]
pub const fn breaker() -> Breaker {
    Breaker::new().with_consecutive(4).with_overloads()
}

/// Returns a policy for a person who waits for the answer.
///
/// | setting | value | why |
/// |---|---|---|
/// | attempts | 4 | one more than the providers' own clients make: a call that still fails after two retries mostly meets an overload, and an overload lasts longer |
/// | backoff | 500 ms, doubling, to 8 s | the values of the providers' own clients |
/// | hint cap | 60 s | the window of a per-minute limit. A longer hint ends the call at once, so the person learns at once to come back later |
/// | total timeout | 5 min | long answers take minutes, and no person waits longer than this |
/// | overload floor | 2 s | quick retries keep an overloaded provider overloaded |
///
/// An attempt returns a [`Failure`] or an error with one among its sources. For an `anyhow::Error` or a
/// text return [`Failure::from_error_text`] of its words, or see [`Classifier`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile_llm::Failure;
/// use resile::{Never, retry};
/// use std::time::Duration;
///
/// # async fn complete(n: u32) -> Result<&'static str, Failure> {
/// #     if n < 3 { Err(Failure::from_text(529, "")) } else { Ok("hello") }
/// # }
/// let policy = resile_llm::interactive().with_attempt_timeout(Duration::from_secs(90));
/// let ask = |attempt: resile::Attempt| complete(attempt.number());
/// assert_eq!(retry(ask, policy, Never).await.unwrap(), "hello");
/// # }
/// ```
pub const fn interactive() -> RetryPolicy<Classifier> {
    RetryPolicy::new()
        .with_attempts(4)
        .with_backoff(
            Backoff::exponential(Duration::from_millis(500)).with_cap(Duration::from_secs(8)),
        )
        .with_hint_cap(Duration::from_secs(60))
        .with_total_timeout(Duration::from_secs(5 * 60))
        .with_classifier(Classifier::new())
}

/// Returns a policy for work without a waiting person.
///
/// | setting | value | why |
/// |---|---|---|
/// | attempts | 10 | enough for a nightly job to survive an overload of about four minutes, if each attempt fails at once and without a hint. The budget must pay for the retries, see below |
/// | backoff | 2 s, doubling, to 60 s | a job does not need to be fast, so it can save load |
/// | hint cap | 15 min | longer waits are quotas, not rates, and such work is better postponed than kept waiting |
/// | total timeout | 1 h | one item must not delay the rest for ever |
/// | overload floor | 10 s | other callers have a person waiting |
///
/// An item makes nine retries at most, but the [`Budget`] of the upstream pays for those of all items together. The 8
/// tokens of `Budget::new()`, which [`upstream`] has too, do not suffice for one item. In an outage the items then
/// end within seconds as [`StopReason::Budget`](resile::StopReason::Budget). So set the capacity to nine times the
/// number of items in flight by [`with_capacity`](Budget::with_capacity), or sleep after that reason and ask again.
///
/// # Examples
///
/// ```
/// use resile::{Budget, Upstream};
///
/// const IN_FLIGHT: u32 = 10;
/// static MODEL: Upstream = resile_llm::upstream("gpt-4o")
///     .with_budget(Budget::new().with_capacity(IN_FLIGHT * 9));
/// assert_eq!(MODEL.budget().map(Budget::capacity), Some(90));
/// ```
pub const fn batch() -> RetryPolicy<Classifier> {
    RetryPolicy::new()
        .with_attempts(10)
        .with_backoff(
            Backoff::exponential(Duration::from_secs(2)).with_cap(Duration::from_secs(60)),
        )
        .with_hint_cap(Duration::from_secs(15 * 60))
        .with_total_timeout(Duration::from_secs(60 * 60))
        .with_classifier(Classifier::new().with_overload_floor(Duration::from_secs(10)))
}

/// Returns the action that resolves a call which gave up. The error of a fallback has it after
/// [`flatten`](GaveUp::flatten).
///
/// | the call | action |
/// |---|---|
/// | was cancelled by its caller | [`None`](Recovery::None) |
/// | was refused because its cost is above the burst of the quota | [`Shrink`](Recovery::Shrink) |
/// | was refused because the rate or the burst of the quota is 0, so no request is small enough | [`SwitchModel`](Recovery::SwitchModel) |
/// | ended with a failure | the [`recovery`](Failure::recovery) of the failure |
/// | ended without one: each attempt was cut, or a part of the upstream refused it | [`Wait`](Recovery::Wait) |
///
/// After a cut the failure of an earlier attempt says nothing. If the consumer has a part of the answer
/// ([`is_partial`](GaveUp::is_partial)), tell this first.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Never, retry};
/// use resile_llm::{Failure, Recovery, recovery};
///
/// let ask = async |_| Err::<(), _>(Failure::from_text(402, "insufficient_quota"));
/// let gave_up = retry(ask, resile_llm::interactive(), Never).await.unwrap_err();
/// assert_eq!(recovery(&gave_up), Recovery::Billing);
/// # }
/// ```
#[must_use]
pub fn recovery(gave_up: &GaveUp<Failure>) -> Recovery {
    match gave_up.reason() {
        StopReason::Cancelled => Recovery::None,
        StopReason::TooLarge if gave_up.too_large().is_some_and(|it| it.limit == 0) => {
            Recovery::SwitchModel
        }
        StopReason::TooLarge => Recovery::Shrink,
        _ if gave_up.cut().is_some() => Recovery::Wait,
        _ => gave_up.last().map_or(Recovery::Wait, Failure::recovery),
    }
}

/// Returns whether another model may answer where one call gave up. This is the classifier for the
/// policy of a [`fallback`](resile::fallback()) over models. [`Classifier`] is none for it: it answers
/// whether the same model may be asked again, so with it an empty account would end the fallback.
///
/// | the call | another model | why |
/// |---|---|---|
/// | showed a part of the answer | no | a second answer would begin again behind the first one |
/// | was cancelled by its caller | no | nobody waits |
/// | failed as [`InvalidRequest`](Kind::InvalidRequest) | no | the request is as wrong for the next model |
/// | got an answer that the token limit cut off | no | the next model has the same limit, and charges its tokens too. Raise the limit |
/// | got a whole answer in place of a stream | no | the request does not ask for a stream, and the next model charges its answer too |
/// | ended otherwise | yes | another model has another quota, key, window, filter and load |
///
/// # Examples
///
/// ```
/// use resile::FallbackPolicy;
/// use resile_llm::another_model;
///
/// let policy = FallbackPolicy::new().with_classifier(another_model);
/// # drop(policy);
/// ```
#[must_use]
pub fn another_model(gave_up: &GaveUp<Failure>) -> bool {
    let is_over = gave_up.is_partial() || gave_up.reason() == StopReason::Cancelled;
    let may_help =
        |last: &Failure| last.kind() != Kind::Cancelled && last.recovery() != Recovery::FixRequest;
    !is_over && gave_up.last().is_none_or(may_help)
}
