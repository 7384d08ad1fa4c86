use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use resile::http::{Classifier, Failure};
use resile::{Attempt, Never, RetryPolicy, retry};

static PAYMENTS: AtomicU32 = AtomicU32::new(0);

/// The bank makes the payment. Its first answer is lost on the way.
async fn pay(attempt: Attempt) -> Result<&'static str, Failure> {
    PAYMENTS.fetch_add(1, Relaxed);
    if attempt.is_first() {
        let reset = io::Error::from(ErrorKind::ConnectionReset);
        return Err(Failure::unanswered(reset));
    }
    Ok("paid")
}

const WRONG: RetryPolicy = RetryPolicy::new();

const MENDED: RetryPolicy<Classifier> =
    WRONG.with_classifier(Classifier::non_idempotent());

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let answer = retry(pay, WRONG, Never).on("bank").await;
    assert_eq!(answer.unwrap(), "paid");
    assert_eq!(PAYMENTS.swap(0, Relaxed), 2);

    let answer = retry(pay, MENDED, Never).on("bank").await;
    assert!(answer.unwrap_err().is_in_doubt());
    assert_eq!(PAYMENTS.load(Relaxed), 1);
}
