//! The retry alone, with a token, with a deadline, with both.

use std::future::ready;
use std::hint::black_box;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use backon::{ConstantBuilder, Retryable};
use layered::Service as _;
use resile::{Backoff, Budget, Jitter, Never, RetryPolicy, Upstream};
use resile_tower::RetryLayer;
use tick::Clock as Tick;
use tokio::time::{sleep, timeout};
use tokio_retry2::strategy::FixedInterval;
use tokio_retry2::{Retry as Retry2, RetryError};
use tokio_util::sync::CancellationToken;
use tower::timeout::Timeout;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_resilience_timelimiter::TimeLimiterLayer;

use super::{Clock, Row};
use crate::contender;
use crate::contender::Contender;
use crate::hand::{HandBudget, by_hand, by_hand_budget, by_hand_timed, by_hand_token};
use crate::job::{FailsThrice, Immediate, Job, PendsOnce};
use crate::rival::{gax, seatbelt, tower as towers, tower_resilience};

/// A limit that no call reaches: the rows measure its presence.
const LIMIT: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(1);

static AT_ONCE: RetryPolicy = RetryPolicy::new().with_attempts(5).with_backoff(Backoff::none());
static LATER: RetryPolicy = AT_ONCE.with_backoff(Backoff::fixed(SHORT).with_jitter(Jitter::None));
static WITHIN: RetryPolicy = AT_ONCE.with_total_timeout(LIMIT);
/// Each success pays for all retries of a call.
static PAID: Upstream = Upstream::new("paid").with_budget(Budget::new().with_deposit(10.0));
static BY_HAND_BUDGET: HandBudget = HandBudget::new(100, 10, 1);
static TOKEN: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

pub fn real() -> Vec<Row> {
    let mut rows = Vec::new();
    each(&mut rows, Clock::Real, Immediate);
    each(&mut rows, Clock::Real, PendsOnce);
    rows
}

pub fn paused() -> Vec<Row> {
    let mut rows = Vec::new();
    each(&mut rows, Clock::Paused, FailsThrice);
    rows.push(Row::new("three failures, delays of 1 ms", Clock::Moving, delayed(FailsThrice)));
    rows
}

fn each<J: Job>(rows: &mut Vec<Row>, clock: Clock, job: J) {
    let name = if J::ATTEMPTS == 1 { J::NAME.to_owned() } else { format!("{}, no delay", J::NAME) };
    rows.push(Row::new(&name, clock, plain(job)));
    rows.push(Row::new(format!("{name}, budget"), clock, paid(job)));
    rows.push(Row::new(format!("{name}, token"), clock, with_token(job)));
    rows.push(Row::new(format!("{name}, deadline"), clock, with_deadline(job)));
    rows.push(Row::new(format!("{name}, token and deadline"), clock, with_both(job)));
}

/// `rivals!(job, "how it is composed", call => around the call)`: the rivals, composed with the
/// token or the deadline that they lack.
macro_rules! rivals {
    ($job:ident, $J:ident, $suffix:literal, $call:ident => $around:expr) => {
        vec![
            contender!($J::ATTEMPTS, concat!("backon that never waits", $suffix), [] => {
                let $call = (|| $job.attempt()).retry(black_box(BACKON)).sleep(|_| ready(()));
                $around
            })
            .doing_less(),
            contender!($J::ATTEMPTS, concat!("backon", $suffix), [] => {
                let $call = (|| $job.attempt()).retry(black_box(BACKON));
                $around
            }),
            contender!($J::ATTEMPTS, concat!("tokio-retry2", $suffix), [] => {
                let strategy = FixedInterval::new(black_box(Duration::ZERO)).take(4);
                let $call = Retry2::spawn(strategy, || async { $job.attempt().await.map_err(RetryError::transient) });
                $around
            }),
            contender!($J::ATTEMPTS, concat!("tower that never waits", $suffix), [
                let mut service = tower::retry::Retry::new(towers::AtOnce(black_box(4)), service_fn(move |()| $job.attempt()));
            ] => {
                let $call = async { service.ready().await?.call(()).await };
                $around
            })
            .doing_less(),
            contender!($J::ATTEMPTS, concat!("tower", $suffix), [
                let policy = towers::Later(black_box(4), black_box(Duration::ZERO));
                let mut service = tower::retry::Retry::new(policy, service_fn(move |()| $job.attempt()));
            ] => {
                let $call = async { service.ready().await?.call(()).await };
                $around
            }),
            {
                let layer = tower_resilience::retry(Duration::ZERO);
                let service = layer.layer(service_fn(move |()| $job.attempt()));
                contender!($J::ATTEMPTS, concat!("tower-resilience", $suffix), [let mut service = service.clone();] => {
                    let $call = async { service.ready().await?.call(()).await };
                    $around
                })
            },
            {
                let service = Arc::new(seatbelt::retry($job, &Tick::new_tokio(), Duration::ZERO));
                contender!($J::ATTEMPTS, concat!("seatbelt", $suffix), [let service = service.clone();] => {
                    let $call = service.execute(());
                    $around
                })
            },
            {
                let loops = gax::Gax::new(Duration::ZERO, None);
                contender!($J::ATTEMPTS, concat!("google-cloud-gax", $suffix), [let loops = loops.clone();] => {
                    let $call = loops.call(|_| $job.attempt());
                    $around
                })
            },
        ]
    };
}

const BACKON: ConstantBuilder = ConstantBuilder::new().with_delay(Duration::ZERO).with_max_times(4);

fn plain<J: Job>(job: J) -> Vec<Contender> {
    let mut all = vec![
        contender!(J::ATTEMPTS, "hand-written loop", [] => {
            by_hand(|| job.attempt(), black_box(5), black_box(Duration::ZERO))
        }),
        contender!(J::ATTEMPTS, "**resile**", [] => resile::retry(|_| job.attempt(), black_box(&AT_ONCE), Never)),
        contender!(J::ATTEMPTS, "**resile-tower**", [
            let mut service = RetryLayer::new(black_box(AT_ONCE)).layer(service_fn(move |()| job.attempt()));
        ] => async { service.ready().await?.call(()).await }),
    ];
    // Only in this row does this crate read the clock too.
    if J::NAME == PendsOnce::NAME {
        all.push(contender!(J::ATTEMPTS, "hand-written loop with elapsed time", [] => {
            by_hand_timed(|| job.attempt(), black_box(5), black_box(Duration::ZERO))
        }));
    }
    all.extend(rivals!(job, J, "", call => call));
    all
}

fn paid<J: Job>(job: J) -> Vec<Contender> {
    let (tps, bucket) = (towers::budget(), tower_resilience::budget());
    let paid = towers::Paid::new(4, tps.clone(), || ready(()));
    let at_once = tower::retry::Retry::new(paid, service_fn(move |()| job.attempt()));
    let paid = towers::Paid::new(4, tps, || sleep(black_box(Duration::ZERO)));
    let tower = tower::retry::Retry::new(paid, service_fn(move |()| job.attempt()));
    let resilience =
        tower_resilience::retry_paid(bucket).layer(service_fn(move |()| job.attempt()));
    let loops = gax::Gax::new(Duration::ZERO, None);
    vec![
        contender!(J::ATTEMPTS, "hand-written loop, an atomic", [] => {
            by_hand_budget(|| job.attempt(), black_box(5), black_box(Duration::ZERO), black_box(&BY_HAND_BUDGET))
        }),
        contender!(J::ATTEMPTS, "**resile**", [] => {
            resile::retry(|_| job.attempt(), black_box(&AT_ONCE), Never).on(black_box(&PAID))
        }),
        contender!(J::ATTEMPTS, "**resile-tower**", [
            let layer = RetryLayer::new(black_box(AT_ONCE)).on(black_box(&PAID));
            let mut service = layer.layer(service_fn(move |()| job.attempt()));
        ] => async { service.ready().await?.call(()).await }),
        contender!(J::ATTEMPTS, "tower that never waits, its `TpsBudget`", [let mut service = at_once.clone();] => {
            async { service.ready().await?.call(()).await }
        })
        .doing_less(),
        contender!(J::ATTEMPTS, "tower, its `TpsBudget`", [let mut service = tower.clone();] => {
            async { service.ready().await?.call(()).await }
        }),
        contender!(J::ATTEMPTS, "tower-resilience, its token bucket", [let mut service = resilience.clone();] => {
            async { service.ready().await?.call(()).await }
        }),
        contender!(J::ATTEMPTS, "google-cloud-gax, its throttler", [let loops = loops.clone();] => {
            loops.call(|_| job.attempt())
        }),
    ]
}

fn with_token<J: Job>(job: J) -> Vec<Contender> {
    let mut all = vec![
        contender!(J::ATTEMPTS, "hand-written loop with a token", [let token = &*TOKEN;] => {
            by_hand_token(|| job.attempt(), black_box(5), black_box(Duration::ZERO), black_box(token))
        }),
        contender!(J::ATTEMPTS, "**resile**", [let token = &*TOKEN;] => {
            resile::retry(|_| job.attempt(), black_box(&AT_ONCE), black_box(token))
        }),
        contender!(J::ATTEMPTS, "hand-written loop + `run_until_cancelled`", [let token = &*TOKEN;] => {
            let call = by_hand(|| job.attempt(), black_box(5), black_box(Duration::ZERO));
            black_box(token).run_until_cancelled(call)
        }),
    ];
    all.extend(rivals!(job, J, " + `run_until_cancelled`", call => black_box(&*TOKEN).run_until_cancelled(call)));
    all
}

fn with_deadline<J: Job>(job: J) -> Vec<Contender> {
    let mut all = vec![
        contender!(J::ATTEMPTS, "hand-written loop + tokio's `timeout`", [] => {
            timeout(black_box(LIMIT), by_hand(|| job.attempt(), black_box(5), black_box(Duration::ZERO)))
        }),
        contender!(J::ATTEMPTS, "**resile**", [] => resile::retry(|_| job.attempt(), black_box(&WITHIN), Never)),
    ];
    all.extend(rivals!(job, J, " + tokio's `timeout`", call => timeout(black_box(LIMIT), call)));
    let inner = tower::retry::Retry::new(towers::AtOnce(4), service_fn(move |()| job.attempt()));
    let tower = Timeout::new(inner, LIMIT);
    let layer = TimeLimiterLayer::builder().timeout_duration(LIMIT).build();
    let resilience = layer
        .layer(tower_resilience::retry(Duration::ZERO).layer(service_fn(move |()| job.attempt())));
    let belt = Arc::new(seatbelt::retry_within(job, &Tick::new_tokio(), Duration::ZERO, LIMIT));
    let loops = gax::Gax::new(Duration::ZERO, Some(LIMIT));
    all.extend([
        contender!(J::ATTEMPTS, "tower that never waits, its `Timeout`", [let mut service = tower.clone();] => {
            async { service.ready().await?.call(()).await }
        })
        .doing_less(),
        contender!(J::ATTEMPTS, "tower-resilience, its time limiter", [let mut service = resilience.clone();] => {
            async { service.ready().await?.call(()).await }
        }),
        contender!(J::ATTEMPTS, "seatbelt, its `Timeout`", [let service = belt.clone();] => service.execute(())),
        contender!(J::ATTEMPTS, "google-cloud-gax, its time limit, attempts run on", [let loops = loops.clone();] => {
            loops.call(|_| job.attempt())
        })
        .doing_less(),
    ]);
    all
}

fn with_both<J: Job>(job: J) -> Vec<Contender> {
    let mut all = vec![
        contender!(J::ATTEMPTS, "hand-written loop with a token + tokio's `timeout`", [let token = &*TOKEN;] => {
            let call = by_hand_token(|| job.attempt(), black_box(5), black_box(Duration::ZERO), black_box(token));
            timeout(black_box(LIMIT), call)
        }),
        contender!(J::ATTEMPTS, "**resile**", [let token = &*TOKEN;] => {
            resile::retry(|_| job.attempt(), black_box(&WITHIN), black_box(token))
        }),
    ];
    all.extend(rivals!(job, J, " + both", call => {
        black_box(&*TOKEN).run_until_cancelled(timeout(black_box(LIMIT), call))
    }));
    all
}

/// The row with delays. It leaves out seatbelt, whose clock does not follow tokio's: a millisecond
/// would be a real one.
fn delayed<J: Job>(job: J) -> Vec<Contender> {
    let tower =
        tower::retry::Retry::new(towers::Later(4, SHORT), service_fn(move |()| job.attempt()));
    let resilience = tower_resilience::retry(SHORT).layer(service_fn(move |()| job.attempt()));
    let loops = gax::Gax::new(SHORT, None);
    vec![
        contender!(J::ATTEMPTS, "hand-written loop", [] => by_hand(|| job.attempt(), black_box(5), black_box(SHORT))),
        contender!(J::ATTEMPTS, "**resile**", [] => resile::retry(|_| job.attempt(), black_box(&LATER), Never)),
        contender!(J::ATTEMPTS, "**resile-tower**", [
            let mut service = RetryLayer::new(black_box(LATER)).layer(service_fn(move |()| job.attempt()));
        ] => async { service.ready().await?.call(()).await }),
        contender!(J::ATTEMPTS, "backon", [] => (|| job.attempt()).retry(black_box(BACKON.with_delay(SHORT)))),
        contender!(J::ATTEMPTS, "tokio-retry2", [] => {
            let strategy = FixedInterval::new(black_box(SHORT)).take(4);
            Retry2::spawn(strategy, || async { job.attempt().await.map_err(RetryError::transient) })
        }),
        contender!(J::ATTEMPTS, "tower", [let mut service = tower.clone();] => {
            async { service.ready().await?.call(()).await }
        }),
        contender!(J::ATTEMPTS, "tower-resilience", [let mut service = resilience.clone();] => {
            async { service.ready().await?.call(()).await }
        }),
        contender!(J::ATTEMPTS, "google-cloud-gax", [let loops = loops.clone();] => loops.call(|_| job.attempt())),
    ]
}
