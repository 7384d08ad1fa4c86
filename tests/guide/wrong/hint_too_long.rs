use std::time::Duration;

use http::Response;
use resile::http::{Classifier, Failure};
use resile::{Never, RetryPolicy, StopReason, retry};
use tokio::time::Instant;

/// The quota of the day is used up. The service says: in six hours.
async fn ask(start: Instant) -> Result<&'static str, Failure> {
    if start.elapsed() >= Duration::from_secs(6 * 3600) {
        return Ok("18 °C");
    }
    let answer = Response::builder().status(429);
    let answer = answer.header("retry-after", "21600").body("").unwrap();
    Failure::check(answer).map(Response::into_body)
}

const MENDED: RetryPolicy<Classifier> =
    RetryPolicy::new().with_classifier(Classifier::idempotent());

const WRONG: RetryPolicy<Classifier> = MENDED.with_hint_cap(Duration::MAX);

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let start = Instant::now();
    let answer = retry(|_| ask(start), WRONG, Never).on("weather").await;
    assert_eq!(answer.unwrap(), "18 °C");
    assert_eq!(start.elapsed().as_secs() / 3600, 6);

    let start = Instant::now();
    let answer = retry(|_| ask(start), MENDED, Never).on("weather").await;
    let gave_up = answer.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(gave_up.reason(), StopReason::HintTooLong);
    assert_eq!(gave_up.retry_after(), Some(Duration::from_secs(21_600)));
}
