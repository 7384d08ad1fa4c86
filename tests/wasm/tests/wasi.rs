//! The laws on WASI, which has a clock and no threads.
#![cfg(target_os = "wasi")]

#[expect(dead_code, reason = "without threads a sleep is polled again and again")]
#[path = "../../runtimes/laws.rs"]
mod laws;

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use resile::time::ThreadTimer;
use resile::{Backoff, Jitter, Never, RetryPolicy, Run, Upstream};

#[test]
fn the_laws_of_a_timer() {
    let timer = ThreadTimer::new();
    let mut laws = pin!(async {
        laws::of_waits(&timer).await;
        laws::without_a_timer().await;
    });
    let mut cx = Context::from_waker(Waker::noop());
    while laws.as_mut().poll(&mut cx) == Poll::Pending {}
}

#[test]
fn a_blocking_run_waits_its_delays() {
    let upstream = Upstream::new("station").with_timer(ThreadTimer::new());
    let backoff = Backoff::fixed(Duration::from_millis(5)).with_jitter(Jitter::None);
    let policy = RetryPolicy::new().with_backoff(backoff);
    let began = Instant::now();
    let mut run = Run::new(policy, Never).on(&upstream);
    while run.blocking_next().unwrap().number() < 3 {
        run.failed(io::Error::from(ErrorKind::TimedOut)).unwrap();
    }
    let _: () = run.succeeded(());
    assert!(began.elapsed() >= Duration::from_millis(10));
}
