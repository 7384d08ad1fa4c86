use std::cell::Cell;
use std::fmt;
use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use resile::{Backoff, Never, RetryPolicy, Upstream, Verdict, retry};

/// The outcome of a failed attempt.
#[derive(Debug)]
struct Failed(u8);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "outcome {}", char::from(self.0))
    }
}

impl std::error::Error for Failed {}

/// Makes one call whose attempts have these outcomes. Returns the number of attempts.
pub(crate) fn call(upstream: &Upstream, outcomes: &str, most: u32) -> u32 {
    let classifier = |failed: &Failed| match failed.0 {
        b't' => Verdict::throttled(),
        _ => Verdict::transient(),
    };
    let policy = RetryPolicy::new()
        .with_attempts(most)
        .with_backoff(Backoff::none())
        .with_classifier(classifier);
    let made = Cell::new(0_u32);
    let operation = |_| {
        let outcome = outcomes.as_bytes().get(made.get() as usize).copied().unwrap_or(b'f');
        made.set(made.get() + 1);
        ready(if outcome == b's' { Ok(()) } else { Err(Failed(outcome)) })
    };
    let _ = finish(retry(operation, policy, Never).on(upstream));
    made.get()
}

fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}
