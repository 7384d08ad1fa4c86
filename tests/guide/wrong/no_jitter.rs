use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use resile::{Backoff, Jitter, Never, RetryPolicy, Upstream, retry};
use tokio::time::Instant;

static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// The number of a tenth of a second, and its requests.
type Tenth = Cell<(u128, u32)>;

/// The service answers the first ten requests of each tenth of a second.
async fn ask(start: Instant, tenth: &Tenth) -> Result<(), &'static str> {
    REQUESTS.fetch_add(1, Relaxed);
    let now = start.elapsed().as_millis() / 100;
    let (last, count) = tenth.get();
    let count = if last == now { count + 1 } else { 1 };
    tenth.set((now, count));
    if count <= 10 { Ok(()) } else { Err("busy") }
}

/// One hundred calls begin together. Returns the time of the last answer.
async fn one_hundred(jitter: Jitter) -> Duration {
    let half_a_second = Duration::from_millis(500);
    let backoff = Backoff::exponential(half_a_second).with_jitter(jitter);
    let policy = RetryPolicy::new().with_attempts(20).with_backoff(backoff);
    let weather = Upstream::new("weather").with_seed(7);
    let (start, tenth) = (Instant::now(), Tenth::default());
    let call = |_| retry(|_| ask(start, &tenth), policy, Never).on(&weather);
    for answer in join_all((0..100).map(call)).await {
        answer.unwrap();
    }
    start.elapsed()
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let wrong = one_hundred(Jitter::None).await;
    assert_eq!(REQUESTS.swap(0, Relaxed), 550);
    assert_eq!(wrong.as_secs(), 121);

    let mended = one_hundred(Jitter::Full).await;
    assert_eq!(REQUESTS.load(Relaxed), 249);
    assert!(mended.as_secs() < 3);
}
