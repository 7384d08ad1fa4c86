use std::time::Duration;

use super::classifier::Classifier;
use crate::backoff::Backoff;
use crate::policy::RetryPolicy;

/// A policy for a person who waits for the answer.
///
/// | setting | value | why |
/// |---|---|---|
/// | attempts | 4 | one more than the providers' own clients: what they give up after the second retry is mostly an overload, which lasts longer |
/// | backoff | 500 ms, doubling, to 8 s | as the providers' clients have it |
/// | hint cap | 60 s | the window of a per-minute limit; who is told to come back later is better told so at once |
/// | total timeout | 5 min | long answers take minutes; past this nobody sits there any more |
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::llm::{self, Failure};
/// use resile::{Never, retry};
/// use std::time::Duration;
///
/// # async fn complete(n: u32) -> Result<&'static str, Failure> {
/// #     if n < 3 { Err(Failure::from_text(529, "")) } else { Ok("hello") }
/// # }
/// let policy = llm::interactive().with_attempt_timeout(Duration::from_secs(90));
/// let answer = retry(|attempt| complete(attempt.number()), policy, Never).await;
/// assert_eq!(answer.unwrap(), "hello");
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

/// A policy for work that nobody watches.
///
/// | setting | value | why |
/// |---|---|---|
/// | attempts | 10 | what a night's job needs to live through an overload of a quarter of an hour |
/// | backoff | 2 s, doubling, to 60 s | load, not haste, is what a job can save |
/// | hint cap | 15 min | longer waits are quotas, not rates: such work is better put off than held open |
/// | total timeout | 1 h | so that one item does not hold up the rest for ever |
/// | overload floor | 10 s | others wait in person |
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
