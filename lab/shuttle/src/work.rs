use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use resile::time::ManualTimer;
use resile::{Backoff, Breaker, Budget, Bulkhead, Never, RetryPolicy, Upstream, Verdict, retry};
use shuttle::future::{block_on, yield_now};
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread;

type Store = Upstream<ManualTimer>;

const PERMITS: u32 = 1;
const TOKENS: u32 = 3;
const OPEN: Duration = Duration::from_secs(1);

/// The counts of the operations of all calls. They are outside of the schedules.
#[derive(Default)]
struct Count {
    retries: AtomicU32,
    in_flight: AtomicU32,
}

/// An operation in flight, also if its call is dropped.
struct Flight<'c>(&'c AtomicU32);

impl<'c> Flight<'c> {
    fn begin(in_flight: &'c AtomicU32) -> Self {
        assert!(in_flight.fetch_add(1, Ordering::Relaxed) < PERMITS, "more calls than permits");
        Self(in_flight)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets threads make calls on one upstream, each at the same time as the others. Nothing may be lost.
pub(crate) fn run(threads: u32) {
    let timer = ManualTimer::new();
    let store = Arc::new(
        Upstream::new("store")
            .with_breaker(
                Breaker::new()
                    .with_consecutive(2)
                    .without_failure_rate()
                    .with_open_time(Backoff::fixed(OPEN))
                    .with_probes(1.0, 1),
            )
            .with_budget(Budget::new().with_capacity(TOKENS).with_deposit(0.0))
            .with_bulkhead(Bulkhead::new(PERMITS).with_queue(threads))
            .with_timer(timer.clone()),
    );
    let count = Arc::new(Count::default());
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (store, count, timer) = (Arc::clone(&store), Arc::clone(&count), timer.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    call(&store, &count);
                    if thread_rng().gen_bool(0.3) {
                        timer.advance(OPEN);
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("a thread works");
    }
    nothing_is_lost(&store, &count, &timer);
}

/// Makes a call. It ends, or is dropped when it has waited a few times.
fn call(store: &Store, count: &Count) {
    let policy = RetryPolicy::new()
        .with_attempts(3)
        .with_backoff(Backoff::none())
        .without_total_timeout()
        .with_classifier(|_: &&str| Verdict::transient());
    let operation = |attempt: resile::Attempt| async move {
        count.retries.fetch_add(u32::from(!attempt.is_first()), Ordering::Relaxed);
        let _flight = Flight::begin(&count.in_flight);
        while thread_rng().gen_bool(0.5) {
            yield_now().await;
        }
        if thread_rng().gen_bool(0.5) { Ok(()) } else { Err("down") }
    };
    let pauses = if thread_rng().gen_bool(0.3) { thread_rng().gen_range(0..3) } else { u32::MAX };
    let call = std::pin::pin!(retry(operation, policy, Never).on(store));
    block_on(Impatient { call, pauses });
}

fn nothing_is_lost(store: &Store, count: &Count, timer: &ManualTimer) {
    let bulkhead = store.bulkhead().expect("it has one");
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0), "permits and waiters");
    let left = store.budget().expect("it has one").available();
    let retries = count.retries.load(Ordering::Relaxed);
    assert_eq!(left + retries, TOKENS, "tokens and the retries that took one");
    assert_eq!(store.snapshot().expect("a breaker").probes, 0, "probes without a call");
    assert_eq!(timer.sleepers(), 0, "sleeps without a call");
    // After its open time a breaker admits a call, and that one closes it.
    timer.advance(OPEN);
    store.try_admit().expect("an admission after the open time").succeeded();
    let all: Vec<_> = (0..PERMITS).map(|_| store.try_admit()).collect();
    assert!(all.iter().all(Result::is_ok), "each permit can be taken");
}

/// A call that is given up when it has waited a number of times.
struct Impatient<'c, F> {
    call: Pin<&'c mut F>,
    pauses: u32,
}

impl<F: Future> Future for Impatient<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.call.as_mut().poll(cx);
        if polled.is_pending() {
            match self.pauses.checked_sub(1) {
                Some(left) => self.pauses = left,
                None => return Poll::Ready(None),
            }
        }
        polled.map(Some)
    }
}
