//! Trap 9: numbers at the edge of their range.

use std::future::ready;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Waker};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder, FibonacciBuilder};
use google_cloud_gax::backoff_policy::BackoffPolicy;
use google_cloud_gax::exponential_backoff::ExponentialBackoffBuilder;
use google_cloud_gax::retry_state::RetryState;
use rand::RngExt;
use recloser::Recloser;
use resile::{Backoff, Breaker, Budget, Jitter, RetryPolicy, Upstream, Verdict};
use tokio_retry2::strategy::{ExponentialFactorBackoff, FibonacciBackoff, FixedInterval, jitter};
use tokio_retry2::{Retry, RetryError};
use tower::retry::backoff::{Backoff as _, ExponentialBackoffMaker, MakeBackoff};
use tower::retry::budget::{Budget as _, TpsBudget};
use tower::util::rng::HasherRng;
use tower_resilience_circuitbreaker::CircuitBreakerLayer;
use tower_resilience_retry::{ExponentialRandomBackoff, IntervalFunction, RetryBudgetBuilder};

use super::Section;
use super::guard;
use super::retrier::{Retrier, op};
use crate::job::Fault;

const MAX: Duration = Duration::MAX;

/// The name of a trial and the trial.
type Trial = (&'static str, Box<dyn FnOnce()>);

macro_rules! trials {
    ($($what:literal: $trial:expr;)*) => {
        vec![$(($what, Box::new(move || { let _ = black_box($trial); }) as Box<dyn FnOnce()>)),*]
    };
}

pub fn seen() -> Section {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let rows = vec![
        ("**resile**", reported(own())),
        ("backon", reported(backon())),
        ("tokio-retry2", reported(retry2())),
        ("tower", reported(tower())),
        ("tower-resilience", reported(tower_resilience())),
        ("seatbelt", reported(seatbelt())),
        ("google-cloud-gax", reported(gax())),
        ("failsafe", reported(failsafe())),
        ("recloser", reported(recloser())),
    ];
    std::panic::set_hook(hook);
    Section {
        title: "9. Arithmetic",
        tried: "The longest `Duration`, the greatest counts, NaN and infinite factors, and zeros, wherever a crate takes them. A \
                failed assertion in a constructor counts as a panic. An `Err` does not.",
        columns: &["tried", "panicked"],
        rows,
    }
}

fn reported(trials: Vec<Trial>) -> Vec<String> {
    let count = trials.len().to_string();
    let panicked: Vec<_> = trials
        .into_iter()
        .filter_map(|(what, trial)| catch_unwind(AssertUnwindSafe(trial)).is_err().then_some(what))
        .collect();
    vec![count, if panicked.is_empty() { "none".to_owned() } else { panicked.join("; ") }]
}

/// Polls a failing call once.
fn polled(who: Retrier, attempts: u32, delay: Duration) {
    let mut call = Box::pin(who.call(attempts, delay, op(async || Err(Fault::Failed))));
    let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

fn own() -> Vec<Trial> {
    let delay =
        |backoff: Backoff| backoff.delay(u32::MAX, MAX, |range| rand::rng().random_range(range));
    trials! {
        "longest delay, no cap": delay(Backoff::exponential(MAX).with_cap(MAX));
        "factor NaN": delay(Backoff::exponential(MAX).with_factor(f64::NAN));
        "factor infinite": delay(Backoff::exponential(MAX).with_factor(f64::INFINITY));
        "jitter NaN": delay(Backoff::fixed(MAX).with_cap(MAX).with_jitter(Jitter::Proportional(f64::NAN)));
        "Fibonacci": delay(Backoff::fibonacci(MAX).with_cap(MAX));
        "decorrelated": delay(Backoff::exponential(MAX).with_cap(MAX).with_jitter(Jitter::Decorrelated));
        "a call with the longest delay": polled(Retrier::Resile, u32::MAX, MAX);
        "longest timeouts": RetryPolicy::new().with_total_timeout(MAX).with_attempt_timeout(MAX);
        "open for the longest time": {
            let breaker = Breaker::new().with_consecutive(1).with_open_time(Backoff::fixed(MAX).with_cap(MAX)).with_lease(MAX);
            let upstream = Upstream::new("trial").with_breaker(breaker);
            let verdict = Verdict::transient().after(MAX);
            (0..3).for_each(|_| upstream.try_admit().into_iter().for_each(|admission| admission.settle(&verdict)));
            upstream.try_admit().is_err()
        };
        "budget of nothing": Budget::new().with_capacity(0).with_deposit(f64::NAN).withdraw();
        "breaker of zeros": {
            let breaker = Breaker::new().with_consecutive(0).with_window(Duration::ZERO).with_probes(f64::NAN, 0);
            Upstream::new("trial").with_breaker(breaker).try_admit().is_ok()
        };
    }
}

fn backon() -> Vec<Trial> {
    let exponential =
        ExponentialBuilder::new().without_max_delay().with_max_times(100).with_min_delay(MAX);
    trials! {
        "longest delay": exponential.build().count();
        "longest delay with jitter": exponential.with_jitter().build().count();
        "factor NaN": ExponentialBuilder::new().with_factor(f32::NAN).without_max_delay().build().count();
        "factor infinite": ExponentialBuilder::new().with_factor(f32::INFINITY).without_max_delay().build().count();
        "Fibonacci, longest delay": FibonacciBuilder::new().with_min_delay(MAX).without_max_delay().with_max_times(100).build().count();
        "Fibonacci, longest delay with jitter":
            FibonacciBuilder::new().with_min_delay(MAX).without_max_delay().with_max_times(100).with_jitter().build().count();
        "a call with the longest delay": polled(Retrier::Backon, u32::MAX, MAX);
    }
}

fn retry2() -> Vec<Trial> {
    trials! {
        "longest delay with jitter": FixedInterval::new(MAX).map(jitter).take(20).count();
        "greatest base": ExponentialFactorBackoff::from_millis(u64::MAX, 2.0).take(100).count();
        "factor NaN": ExponentialFactorBackoff::from_millis(1000, f64::NAN).take(100).count();
        "factor infinite": ExponentialFactorBackoff::from_millis(1000, f64::INFINITY).take(100).count();
        "Fibonacci": FibonacciBackoff::from_millis(u64::MAX).take(100).count();
        "a call with the longest delay": {
            let mut call = Box::pin(Retry::spawn(FixedInterval::new(MAX).take(3), async || {
                Err::<u64, _>(RetryError::transient(Fault::Failed))
            }));
            call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
    }
}

fn tower() -> Vec<Trial> {
    let delay = |jitter: f64| {
        let maker = ExponentialBackoffMaker::new(MAX, MAX, jitter, HasherRng::default());
        maker.map(|mut maker| {
            let mut backoff = maker.make_backoff();
            (0..100).for_each(|_| drop(backoff.next_backoff()));
        })
    };
    trials! {
        "longest delay, no jitter": delay(0.0).is_ok();
        "longest delay, jitter of 0.99": delay(0.99).is_ok();
        "longest delay, jitter of 100": delay(100.0).is_ok();
        "jitter NaN": delay(f64::NAN).is_err();
        "budget of 0 s": TpsBudget::new(Duration::ZERO, 10, 0.1).withdraw();
        "budget of NaN": TpsBudget::new(Duration::from_secs(10), 10, f32::NAN).withdraw();
        "a call with the longest delay": polled(Retrier::Tower, u32::MAX, MAX);
    }
}

fn tower_resilience() -> Vec<Trial> {
    let delay = |factor: f64| {
        let random = ExponentialRandomBackoff::new(MAX, factor);
        random.map(|random| random.next_interval(usize::MAX))
    };
    trials! {
        "longest delay": delay(0.0).is_ok();
        "longest delay, ± 100 %": delay(1.0).is_ok();
        "jitter NaN": delay(f64::NAN).is_err();
        "budget of infinite refill": RetryBudgetBuilder::new().token_bucket().tokens_per_second(f64::INFINITY).build().is_err();
        "breaker of zeros": CircuitBreakerLayer::builder().sliding_window_size(0).permitted_calls_in_half_open(0).build().is_err();
        "breaker of rate NaN": CircuitBreakerLayer::builder().failure_rate_threshold(f64::NAN).build().is_err();
        "a call with the longest delay": polled(Retrier::TowerResilience, u32::MAX, MAX);
    }
}

fn seatbelt() -> Vec<Trial> {
    let fail = |guard: guard::Guard| {
        for _ in 0..3 {
            let _ = guard(Box::pin(ready(Err(Fault::Failed))))
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
        }
    };
    trials! {
        "a call with the longest delay": polled(Retrier::Seatbelt, u32::MAX, MAX);
        "breaker of zeros": fail(guard::from_seatbelt(|layer| layer.min_throughput(0).sampling_duration(Duration::ZERO)));
        "breaker of rate NaN": fail(guard::from_seatbelt(|layer| layer.min_throughput(1).failure_threshold(f32::NAN)));
        "breaker, longest durations":
            fail(guard::from_seatbelt(|layer| layer.min_throughput(1).break_duration(MAX).sampling_duration(MAX)));
    }
}

fn gax() -> Vec<Trial> {
    let delay = |scaling: f64| {
        let builder =
            ExponentialBackoffBuilder::new().with_initial_delay(MAX).with_maximum_delay(MAX);
        builder
            .with_scaling(scaling)
            .clamp()
            .on_failure(&RetryState::new(true).set_attempt_count(u32::MAX))
    };
    trials! {
        "longest delay": delay(2.0);
        "factor NaN": delay(f64::NAN);
        "factor infinite": delay(f64::INFINITY);
        "a call with the longest delay": polled(Retrier::Gax, u32::MAX, MAX);
    }
}

fn failsafe() -> Vec<Trial> {
    use failsafe::{Config, backoff, failure_policy};
    let fail = |failures: u32, wait: Duration| {
        let policy = failure_policy::consecutive_failures(failures, backoff::constant(wait));
        let breaker = Config::new().failure_policy(policy).build();
        (0..3).for_each(|_| breaker.on_error());
        breaker.is_call_permitted()
    };
    trials! {
        "open for the longest time": fail(1, MAX);
        "zero failures": fail(0, Duration::from_secs(1));
        "backoff from zero": backoff::exponential(Duration::ZERO, Duration::from_secs(1)).take(3).count();
        "backoff to the longest": backoff::exponential(Duration::from_secs(1), MAX).take(100).count();
        "jittered, to the longest": backoff::equal_jittered(Duration::from_secs(1), MAX).take(100).count();
        "window of zero": {
            let policy = failure_policy::success_rate_over_time_window(0.5, 1, Duration::ZERO, backoff::constant(MAX));
            Config::new().failure_policy(policy).build().is_call_permitted()
        };
    }
}

fn recloser() -> Vec<Trial> {
    let fail =
        |breaker: Recloser| (0..3).filter(|_| breaker.call(|| Err::<(), ()>(())).is_err()).count();
    trials! {
        "length 0": fail(Recloser::custom().closed_len(0).build());
        "half-open length 0": fail(Recloser::custom().closed_len(1).half_open_len(0).open_wait(Duration::ZERO).build());
        "open for the longest time": fail(Recloser::custom().closed_len(1).open_wait(MAX).build());
        "rate NaN": fail(Recloser::custom().closed_len(1).error_rate(f32::NAN).build());
    }
}
