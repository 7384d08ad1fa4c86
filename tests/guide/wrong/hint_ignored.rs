use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use http::Response;
use resile::http::{Classifier, Failure};
use resile::{Never, RetryPolicy, retry};
use tokio::time::Instant;

static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// The service refuses all requests for 30 seconds, and says so.
async fn ask(start: Instant) -> Result<&'static str, Failure> {
    REQUESTS.fetch_add(1, Relaxed);
    let left = Duration::from_secs(30).saturating_sub(start.elapsed());
    if left.is_zero() {
        return Ok("18 °C");
    }
    let seconds = left.as_secs_f64().ceil().to_string();
    let answer = Response::builder().status(429);
    let answer = answer.header("retry-after", seconds).body("").unwrap();
    Failure::check(answer).map(Response::into_body)
}

/// True or false: there is no room for a hint in it.
fn is_temporary(failure: &Failure) -> bool {
    failure.status().is_some_and(|status| status == 429 || status == 503)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let wrong = RetryPolicy::new().with_classifier(is_temporary);
    let start = Instant::now();
    let answer = retry(|_| ask(start), wrong, Never).on("weather").await;
    answer.unwrap_err();
    assert_eq!(REQUESTS.swap(0, Relaxed), 3);

    let mended = RetryPolicy::new().with_classifier(Classifier::idempotent());
    let start = Instant::now();
    let answer = retry(|_| ask(start), mended, Never).on("weather").await;
    assert_eq!(answer.unwrap(), "18 °C");
    assert_eq!(REQUESTS.load(Relaxed), 2);
}
