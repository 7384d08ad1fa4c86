use std::cell::Cell;
use std::fmt;
use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use resile::http::headers::retry_after;
use resile::time::ManualTimer;
use resile::{Backoff, Breaker, Budget, Jitter, Never, RetryPolicy, Upstream, Verdict, retry};
use serde::Deserialize;

/// A script, and what the original said to it.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Script {
    /// Calls of up to three attempts on the retry quota of botocore: `s` succeeds, `f` fails and `t` is
    /// throttled.
    Aws {
        calls: Vec<String>,
        attempts: Vec<u32>,
        left: Vec<u32>,
    },
    /// Calls of up to four attempts on the throttle of a channel of gRPC.
    Grpc {
        tokens: u32,
        sixteenths: u32,
        calls: Vec<String>,
        attempts: Vec<u32>,
    },
    /// Calls on a breaker: the milliseconds before each, and whether it succeeds.
    Cockatiel {
        failures: u32,
        open: u64,
        steps: Vec<(u64, bool)>,
        ran: Vec<bool>,
    },
    /// Delays in seconds. The settings are in milliseconds.
    Tenacity {
        base: u64,
        factor: u32,
        cap: u64,
        retries: Vec<u32>,
        delays: Vec<f64>,
    },
    Google {
        base: u64,
        factor: u32,
        cap: u64,
        delays: Vec<f64>,
    },
    /// The value of a header.
    Urllib3 {
        value: String,
        now: u64,
        wait: Option<f64>,
    },
}

/// The answers that differ, and the input.
pub(crate) struct Difference {
    pub(crate) ours: String,
    pub(crate) theirs: String,
    pub(crate) input: String,
}

impl Script {
    pub(crate) const fn original(&self) -> &'static str {
        match self {
            Self::Aws { .. } => "botocore",
            Self::Grpc { .. } => "grpc-js",
            Self::Cockatiel { .. } => "cockatiel",
            Self::Tenacity { .. } => "tenacity",
            Self::Google { .. } => "google-api-core",
            Self::Urllib3 { .. } => "urllib3",
        }
    }

    /// Runs the script with the crate, and compares the answers.
    pub(crate) fn compare(&self) -> Result<(), Difference> {
        match self {
            Self::Aws { calls, attempts, left } => {
                let upstream = Upstream::new("aws").with_budget(Budget::aws());
                let ours: Vec<_> = calls
                    .iter()
                    .map(|outcomes| {
                        let made = call(&upstream, outcomes, 3);
                        (made, upstream.budget().map_or(0, Budget::available))
                    })
                    .collect();
                let theirs: Vec<_> = attempts.iter().copied().zip(left.iter().copied()).collect();
                same(&ours, &theirs, calls)
            }
            Self::Grpc { tokens, sixteenths, calls, attempts } => {
                let budget = Budget::grpc(*tokens, f64::from(*sixteenths) / 16.0);
                let upstream = Upstream::new("grpc").with_budget(budget);
                let ours: Vec<_> =
                    calls.iter().map(|outcomes| call(&upstream, outcomes, 4)).collect();
                same(&ours, attempts, &(tokens, sixteenths, calls))
            }
            Self::Cockatiel { failures, open, steps, ran } => {
                let ours = break_after(*failures, Duration::from_millis(*open), steps);
                same(&ours, ran, &(failures, open, steps))
            }
            Self::Tenacity { base, factor, cap, retries, delays } => {
                let backoff = exponential(*base, *factor, *cap);
                let ours: Vec<_> = retries.iter().map(|retry| longest(&backoff, *retry)).collect();
                same(&ours, &microseconds(delays), &(base, factor, cap, retries))
            }
            Self::Google { base, factor, cap, delays } => {
                let backoff = exponential(*base, *factor, *cap).with_jitter(Jitter::Full);
                let ours: Vec<_> =
                    (1_u32..).take(delays.len()).map(|n| longest(&backoff, n)).collect();
                same(&ours, &microseconds(delays), &(base, factor, cap))
            }
            Self::Urllib3 { value, now, wait } => {
                let now = SystemTime::UNIX_EPOCH + Duration::from_secs(*now);
                let mut headers = http::HeaderMap::new();
                if let Ok(value) = value.parse() {
                    headers.insert("retry-after", value);
                }
                let ours = retry_after(&headers, now).map(|wait| wait.as_secs_f64());
                same(&ours, wait, value)
            }
        }
    }
}

fn same<T: PartialEq + fmt::Debug>(
    ours: &T,
    theirs: &T,
    input: &impl fmt::Debug,
) -> Result<(), Difference> {
    if ours == theirs {
        return Ok(());
    }
    let print = |value: &T| format!("{value:?}");
    Err(Difference { ours: print(ours), theirs: print(theirs), input: format!("{input:?}") })
}

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
fn call(upstream: &Upstream, outcomes: &str, most: u32) -> u32 {
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

/// Returns for each call whether the breaker let it run.
fn break_after(failures: u32, open: Duration, steps: &[(u64, bool)]) -> Vec<bool> {
    let timer = ManualTimer::new();
    let breaker = Breaker::new()
        .with_consecutive(failures)
        .without_failure_rate()
        .with_open_time(Backoff::fixed(open))
        .with_probes(1.0, 1);
    let upstream = Upstream::new("store").with_breaker(breaker).with_timer(timer.clone());
    let run = |&(later, is_good): &(u64, bool)| {
        timer.advance(Duration::from_millis(later));
        let Ok(admission) = upstream.try_admit() else { return false };
        if is_good {
            admission.succeeded();
        } else {
            admission.settle(&Verdict::transient());
        }
        true
    };
    steps.iter().map(run).collect()
}

fn exponential(base: u64, factor: u32, cap: u64) -> Backoff {
    Backoff::exponential(Duration::from_millis(base))
        .with_factor(f64::from(factor))
        .with_cap(Duration::from_millis(cap))
        .with_jitter(Jitter::None)
}

/// Returns the upper end of the delay before a retry, in microseconds.
fn longest(backoff: &Backoff, retry: u32) -> u64 {
    let delay = backoff.delay(retry, Duration::ZERO, |range| *range.end());
    micros(delay.as_secs_f64())
}

/// Their delays are in seconds of floating point, so a microsecond is the finest that agrees.
fn microseconds(delays: &[f64]) -> Vec<u64> {
    delays.iter().copied().map(micros).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most ten minutes")]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}
