//! The whole stack: a deadline around retries from a budget, and a breaker and a timeout for each
//! attempt.

use std::future::ready;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable};
use failsafe::failure_policy::FailurePolicy as _;
use failsafe::futures::CircuitBreaker as _;
use failsafe::{backoff, failure_policy};
use layered::Service as _;
use recloser::{AsyncRecloser, Recloser};
use resile::{Backoff, Breaker, Budget, Never, RetryPolicy, Upstream};
use resile_tower::RetryLayer;
use tick::Clock as Tick;
use tokio::time::timeout;
use tokio_retry2::strategy::FixedInterval;
use tokio_retry2::{RetryError, RetryIf};
use tower::retry::budget::Budget as _;
use tower::timeout::TimeoutLayer;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
use tower_resilience_circuitbreaker::{CircuitBreakerLayer, DefaultClassifier};
use tower_resilience_timelimiter::TimeLimiterLayer;

use super::{Clock, Row};
use crate::contender;
use crate::contender::Contender;
use crate::hand::{HandBreaker, HandBudget, by_hand_budget};
use crate::job::{FailsThrice, Fault, Immediate, Job, PendsOnce};
use crate::rival::{gax, seatbelt, tower as towers, tower_resilience};

const DEADLINE: Duration = Duration::from_secs(3600);
const LIMIT: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(10);
/// The failure rate that opens a breaker. The job fails in three of four attempts and must not open
/// it.
const SHARE: f64 = 0.9;

static POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(5)
    .with_backoff(Backoff::none())
    .with_total_timeout(DEADLINE)
    .with_attempt_timeout(LIMIT);
static UPSTREAM: Upstream = Upstream::new("stack")
    .with_budget(Budget::new().with_deposit(10.0))
    .with_breaker(Breaker::new().with_failure_rate(SHARE, 20));
static BY_HAND_BUDGET: HandBudget = HandBudget::new(100, 10, 1);

pub fn real() -> Vec<Row> {
    vec![
        Row::new("whole stack, immediate success", Clock::Real, stacks(Immediate)),
        Row::new("whole stack, pending once", Clock::Real, stacks(PendsOnce)),
    ]
}

pub fn paused() -> Vec<Row> {
    vec![Row::new("whole stack, three failures, no delay", Clock::Paused, stacks(FailsThrice))]
}

/// Runs an attempt inside tokio's `timeout`, with one error type for both.
async fn limited<J: Job>(job: J, limit: Duration) -> Result<u64, Fault> {
    timeout(limit, job.attempt()).await.unwrap_or(Err(Fault::Elapsed))
}

fn guard() -> tower_resilience_circuitbreaker::CircuitBreakerLayer<DefaultClassifier> {
    CircuitBreakerLayer::builder().failure_rate_threshold(SHARE).build().expect("a breaker")
}

fn stacks<J: Job>(job: J) -> Vec<Contender> {
    let hand = Arc::new(HandBreaker::new(10, DEADLINE));
    let tower = ServiceBuilder::new()
        .layer(TimeoutLayer::new(DEADLINE))
        .layer(tower::retry::RetryLayer::new(towers::Paid::new(4, towers::budget(), || ready(()))))
        .layer(guard())
        .layer(TimeoutLayer::new(LIMIT))
        .service(service_fn(move |()| job.attempt()));
    let resilience = ServiceBuilder::new()
        .layer(TimeLimiterLayer::builder().timeout_duration(DEADLINE).build())
        .layer(tower_resilience::retry_paid(tower_resilience::budget()))
        .layer(guard())
        .layer(TimeLimiterLayer::builder().timeout_duration(LIMIT).build())
        .service(service_fn(move |()| job.attempt()));
    let belt = Arc::new(seatbelt::stack(job, &Tick::new_tokio(), DEADLINE, LIMIT));
    let streak = || failure_policy::consecutive_failures(10, backoff::constant(DEADLINE));
    let rate = failure_policy::success_rate_over_time_window(
        1.0 - SHARE,
        20,
        WINDOW,
        backoff::constant(DEADLINE),
    );
    let streaks = failsafe::Config::new().failure_policy(streak()).build();
    let rates = failsafe::Config::new().failure_policy(rate.or_else(streak())).build();
    let recloser = AsyncRecloser::from(Recloser::custom().error_rate(0.9).build());
    let tps = towers::budget();
    let waits = (rates.clone(), tps.clone());
    let never_waits = (streaks.clone(), tps.clone());
    let loops = gax::Gax::new(Duration::ZERO, Some(DEADLINE));
    let (of_streaks, of_rates) = ((loops.clone(), streaks), (loops, rates));
    macro_rules! with_backon {
        ($name:literal, $parts:ident, $call:ident => $waiting:expr) => {
            contender!(J::ATTEMPTS, $name, [let (breaker, budget) = $parts.clone();] => async {
                let policy = ConstantBuilder::new().with_delay(Duration::ZERO).with_max_times(4);
                let $call = (|| breaker.call(limited(job, black_box(LIMIT)))).retry(black_box(policy));
                let outcome = timeout(black_box(DEADLINE), $waiting.when(|_| budget.withdraw())).await;
                budget.deposit();
                outcome
            })
        };
    }
    macro_rules! with_gax {
        ($name:literal, $parts:ident) => {
            contender!(J::ATTEMPTS, $name, [let (loops, breaker) = $parts.clone();] => loops.call(|remaining| {
                let limit = remaining.map_or(LIMIT, |remaining| remaining.min(LIMIT));
                let call = breaker.call(limited(job, limit));
                async { call.await.map_err(|_| Fault::Failed) }
            }))
        };
    }
    vec![
        contender!(J::ATTEMPTS, "hand-written: tokio's `timeout`, atomics", [let hand = hand.clone();] => timeout(
            black_box(DEADLINE),
            by_hand_budget(|| hand.guard(limited(job, LIMIT)), black_box(5), black_box(Duration::ZERO), &BY_HAND_BUDGET),
        )),
        contender!(J::ATTEMPTS, "**resile**", [] => {
            resile::retry(|_| job.attempt(), black_box(&POLICY), Never).on(&UPSTREAM)
        }),
        contender!(J::ATTEMPTS, "**resile-tower**", [
            let layer = RetryLayer::new(black_box(POLICY)).on(&UPSTREAM);
            let mut service = ServiceBuilder::new().layer(layer).service(service_fn(move |()| job.attempt()));
        ] => async { service.ready().await?.call(()).await }),
        contender!(J::ATTEMPTS, "tower that never waits, tower-resilience's breaker", [let mut service = tower.clone();] => {
            async { service.ready().await?.call(()).await }
        })
        .doing_less(),
        contender!(J::ATTEMPTS, "tower-resilience", [let mut service = resilience.clone();] => {
            async { service.ready().await?.call(()).await }
        })
        .doing_less(),
        contender!(J::ATTEMPTS, "seatbelt (no budget)", [let service = belt.clone();] => service.execute(()))
            .doing_less(),
        with_backon!("backon that never waits, tokio's `timeout`, failsafe (streaks), `TpsBudget`", never_waits, call => {
            call.sleep(|_| ready(()))
        })
        .doing_less(),
        with_backon!("backon, tokio's `timeout`, failsafe, `TpsBudget`", waits, call => call),
        contender!(J::ATTEMPTS, "tokio-retry2, tokio's `timeout`, recloser, `TpsBudget`", [
            let (breaker, budget) = (recloser.clone(), tps.clone());
        ] => async {
            let strategy = FixedInterval::new(black_box(Duration::ZERO)).take(4);
            let attempt = || async { breaker.call(limited(job, black_box(LIMIT))).await.map_err(RetryError::transient) };
            let paid = |_: &recloser::Error<Fault>| budget.withdraw();
            let call = RetryIf::spawn(strategy, attempt, paid, |_: &recloser::Error<Fault>, _| ());
            let outcome = timeout(black_box(DEADLINE), call).await;
            budget.deposit();
            outcome
        })
        .doing_less(),
        with_gax!("google-cloud-gax, tokio's `timeout`, failsafe (streaks)", of_streaks).doing_less(),
        with_gax!("google-cloud-gax, tokio's `timeout`, failsafe", of_rates),
    ]
}
