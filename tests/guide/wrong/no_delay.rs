use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use resile::{Backoff, Never, RetryPolicy, retry};
use tokio::time::{Instant, sleep};

static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// The service restarts. It refuses connections for two seconds.
async fn ask(start: Instant) -> io::Result<&'static str> {
    REQUESTS.fetch_add(1, Relaxed);
    sleep(Duration::from_millis(1)).await;
    if start.elapsed() < Duration::from_secs(2) {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    Ok("18 °C")
}

const WRONG: RetryPolicy =
    RetryPolicy::new().with_attempts(100).with_backoff(Backoff::none());

const MENDED: RetryPolicy = RetryPolicy::new()
    .with_attempts(10)
    .with_total_timeout(Duration::from_secs(60));

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let start = Instant::now();
    let answer = retry(|_| ask(start), WRONG, Never).on("weather").await;
    answer.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_millis(100));
    assert_eq!(REQUESTS.swap(0, Relaxed), 100);

    let start = Instant::now();
    let answer = retry(|_| ask(start), MENDED, Never).on("weather").await;
    assert_eq!(answer.unwrap(), "18 °C");
    assert!(REQUESTS.load(Relaxed) <= 10);
}
