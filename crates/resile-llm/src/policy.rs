use std::time::Duration;

use crate::classifier::Classifier;
use resile::{Backoff, RetryPolicy};

/// Returns a policy for a person who waits for the answer.
///
/// | setting | value | why |
/// |---|---|---|
/// | attempts | 4 | one more than the providers' own clients make: a call that still fails after two retries mostly meets an overload, and an overload lasts longer |
/// | backoff | 500 ms, doubling, to 8 s | the values of the providers' own clients |
/// | hint cap | 60 s | the window of a per-minute limit. A longer hint ends the call at once, so the person learns at once to come back later |
/// | total timeout | 5 min | long answers take minutes, and no person waits longer than this |
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
/// | attempts | 10 | enough for a nightly job to survive an overload of about four minutes, if each attempt fails at once and without a hint |
/// | backoff | 2 s, doubling, to 60 s | a job does not need to be fast, so it can save load |
/// | hint cap | 15 min | longer waits are quotas, not rates, and such work is better postponed than kept waiting |
/// | total timeout | 1 h | one item must not delay the rest for ever |
/// | overload floor | 10 s | other callers have a person waiting |
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
