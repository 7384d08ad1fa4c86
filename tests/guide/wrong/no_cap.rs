use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use resile::{GaveUp, Never, RetryPolicy, retry};
use tokio::time::{sleep, timeout};

static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// The service is down.
async fn ask() -> io::Result<String> {
    REQUESTS.fetch_add(1, Relaxed);
    Err(ErrorKind::ConnectionRefused.into())
}

async fn wrong() -> String {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(_) => sleep(Duration::from_secs(1)).await,
        }
    }
}

async fn mended() -> Result<String, GaveUp<io::Error>> {
    let policy = RetryPolicy::new()
        .with_attempts(3)
        .with_total_timeout(Duration::from_secs(20));
    retry(|_| ask(), policy, Never).on("weather").await
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let night = Duration::from_millis(8 * 3_600_000 - 500);
    timeout(night, wrong()).await.unwrap_err();
    assert_eq!(REQUESTS.swap(0, Relaxed), 28_800);

    mended().await.unwrap_err();
    assert_eq!(REQUESTS.load(Relaxed), 3);
}
