use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use http::Response;
use resile::http::{Classifier, Failure};
use resile::{Never, RetryPolicy, retry};

static LOGINS: AtomicU32 = AtomicU32::new(0);

/// The password is old. After three of them the account is locked.
async fn log_in() -> Result<(), Failure> {
    LOGINS.fetch_add(1, Relaxed);
    let answer = Response::builder().status(401).body("").unwrap();
    Failure::check(answer).map(drop)
}

const WRONG: RetryPolicy = RetryPolicy::new();

const MENDED: RetryPolicy<Classifier> =
    WRONG.with_classifier(Classifier::idempotent());

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    retry(|_| log_in(), WRONG, Never).on("shop").await.unwrap_err();
    assert_eq!(LOGINS.swap(0, Relaxed), 3); // the account is locked

    retry(|_| log_in(), MENDED, Never).on("shop").await.unwrap_err();
    assert_eq!(LOGINS.load(Relaxed), 1);
}
