use std::future::pending;
use std::time::Duration;

use resile::http::{Classifier, Failure};
use resile::{
    Backoff, Breaker, Budget, GaveUp, Jitter, Never, RetryPolicy, StopReason,
    Upstream, retry,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

static SHOP: Upstream = Upstream::new("shop")
    .with_budget(Budget::new())
    .with_breaker(Breaker::new());

const LIMITS: RetryPolicy = RetryPolicy::new()
    .with_attempts(4)
    .with_attempt_timeout(Duration::from_secs(2))
    .with_total_timeout(Duration::from_secs(5))
    .with_backoff(
        // Without jitter the times below are exact.
        Backoff::exponential(Duration::from_millis(500))
            .with_jitter(Jitter::None),
    );
const READ: RetryPolicy<Classifier> =
    LIMITS.with_classifier(Classifier::idempotent().with_place("GET /price"));
const ORDER: RetryPolicy<Classifier> = LIMITS
    .with_classifier(Classifier::non_idempotent().with_place("POST /orders"));

async fn hangs() -> Result<(), Failure> {
    pending().await
}

async fn refused() -> Result<(), Failure> {
    Err(Failure::not_sent("connection refused"))
}

fn tokens() -> u32 {
    SHOP.budget().unwrap().available()
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    // 2 s, a delay of 0.5 s and 2 s. The next delay would be 1 s.
    let began = Instant::now();
    let read = retry(|_| hangs(), READ, Never).on(&SHOP);
    let end = read.await.unwrap_err();
    assert_eq!(end.reason(), StopReason::Deadline);
    assert_eq!(end.attempts(), 2);
    assert_eq!(began.elapsed(), Duration::from_millis(4500));
    assert_eq!(tokens(), 7); // one retry was made
    println!("{end}");

    // Nobody knows whether the order arrived, so it is not sent again.
    let order = retry(|_| hangs(), ORDER, Never).on(&SHOP);
    let end = order.await.unwrap_err();
    assert_eq!((end.attempts(), end.is_in_doubt()), (1, true));
    println!("{end}");

    // Three failures in a row so far. The seventh caller makes it ten, which
    // opens the breaker.
    let mut callers = JoinSet::new();
    for _ in 0..10 {
        callers.spawn(async {
            let order = retry(|_| refused(), ORDER, Never).on(&SHOP);
            order.await.unwrap_err()
        });
    }
    let ends: Vec<GaveUp<_>> = callers.join_all().await;
    assert!(ends.iter().all(|end| end.reason() == StopReason::Open));
    let sent: u32 = ends.iter().map(GaveUp::attempts).sum();
    assert_eq!(sent, 7); // and not 40
    assert_eq!(tokens(), 7); // six retries were refused, six tokens are back
    println!("{}", ends[9]);
}
