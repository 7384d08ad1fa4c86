//! Circuit breakers around one call: closed, open, and a full cycle.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use failsafe::futures::CircuitBreaker as _;
use failsafe::{backoff, failure_policy};
use layered::Service as _;
use recloser::{AsyncRecloser, Recloser};
use resile::classify::Always;
use resile::{Backoff, Breaker, Upstream};
use tick::Clock as Tick;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_resilience_circuitbreaker::CircuitBreakerLayer;

use super::{Clock, Row};
use crate::contender;
use crate::contender::{Contender, spin};
use crate::hand::HandBreaker;
use crate::job::{self, Fault, count};
use crate::rival::seatbelt;

const HOUR: Duration = Duration::from_secs(3600);

static STREAKS: Upstream =
    Upstream::new("streaks").with_breaker(Breaker::new().without_failure_rate());
static RATES: Upstream = Upstream::new("rates").with_breaker(Breaker::new());

pub fn real() -> Vec<Row> {
    let Moved { open, cycle } = moved();
    vec![
        Row::new(
            "breaker that counts consecutive failures, closed, 1 thread",
            Clock::Real,
            streaks(),
        ),
        Row {
            threads: 2,
            ..Row::new(
                "breaker that counts consecutive failures, closed, 2 threads",
                Clock::Real,
                streaks(),
            )
        },
        Row::new("breaker with a failure rate, closed, 1 thread", Clock::Real, rates()),
        Row {
            threads: 2,
            ..Row::new("breaker with a failure rate, closed, 2 threads", Clock::Real, rates())
        },
        Row::new("breaker, open: a refusal", Clock::Real, open),
        Row::new("breaker, full cycle: trips, waits no time, probes, closes", Clock::Real, cycle),
    ]
}

#[inline]
async fn call(works: bool) -> Result<u64, Fault> {
    count();
    if black_box(works) { Ok(1) } else { Err(Fault::Failed) }
}

fn streaks() -> Vec<Contender> {
    let hand = Arc::new(HandBreaker::new(10, HOUR));
    let policy = failure_policy::consecutive_failures(10, backoff::constant(HOUR));
    let safe = failsafe::Config::new().failure_policy(policy).build();
    let layer = CircuitBreakerLayer::builder().consecutive_failures(10).build().expect("a breaker");
    let resilience = layer.layer(service_fn(call));
    vec![
        contender!(1, "hand-written", [let hand = hand.clone();] => hand.guard(call(true))),
        contender!(1, "**resile**", [] => black_box(&STREAKS).call(call(true), Always)),
        contender!(1, "failsafe", [let guard = safe.clone();] => guard.call(call(true))),
        contender!(1, "tower-resilience", [let mut guard = resilience.clone();] => {
            async { guard.ready().await?.call(true).await }
        }),
    ]
}

/// The breakers with their default settings. The yardstick has no rate.
fn rates() -> Vec<Contender> {
    let hand = Arc::new(HandBreaker::new(10, HOUR));
    let safe = failsafe::Config::new().build();
    let closer = AsyncRecloser::from(Recloser::custom().build());
    let resilience =
        CircuitBreakerLayer::builder().build().expect("a breaker").layer(service_fn(call));
    let belt = Arc::new(seatbelt::breaker(call, &Tick::new_tokio(), |layer| layer));
    vec![
        contender!(1, "hand-written, consecutive failures", [let hand = hand.clone();] => hand.guard(call(true))),
        contender!(1, "**resile**: in 10 s, and consecutive", [] => black_box(&RATES).call(call(true), Always)),
        contender!(1, "failsafe: in 30 s, and consecutive", [let guard = safe.clone();] => {
            guard.call(call(true))
        }),
        contender!(1, "recloser: of the last 100 calls", [let guard = closer.clone();] => guard.call(call(true)))
            .doing_less(),
        contender!(1, "tower-resilience: of 100 calls", [let mut guard = resilience.clone();] => {
            async { guard.ready().await?.call(true).await }
        })
        .doing_less(),
        contender!(1, "seatbelt: in 30 s", [let guard = belt.clone();] => guard.execute(true)),
    ]
}

struct Moved {
    open: Vec<Contender>,
    cycle: Vec<Contender>,
}

/// Adds a breaker to both rows. It trips as early as it can and closes at the first good probes:
/// `$trips` failures open it, and as many successes close it.
macro_rules! moved {
    ($rows:ident, $name:expr, $trips:expr, $make:expr, ($guard:ident, $works:ident) => $call:expr) => {
        for (open, wait) in [(true, HOUR), (false, Duration::ZERO)] {
            let kept = $make(wait);
            if open {
                let mut $guard = kept.clone();
                let trip = async move {
                    for _ in 0..$trips {
                        const $works: bool = false;
                        let _ = $call.await;
                    }
                    0
                };
                spin(Box::pin(trip));
                let contender = contender!(0, $name, [let mut $guard = kept.clone();] => {
                    const $works: bool = true;
                    $call
                });
                $rows.open.push(contender.expecting(0, 0));
            } else {
                $rows.cycle.push(contender!(2 * $trips, $name, [let mut $guard = kept.clone();] => async {
                    for _ in 0..$trips {
                        const $works: bool = false;
                        let _ = $call.await;
                    }
                    let mut sum = 0;
                    for _ in 0..$trips {
                        const $works: bool = true;
                        sum = job::Answer::answer($call.await);
                    }
                    sum
                }));
            }
        }
    };
}

#[allow(unused_mut)]
fn moved() -> Moved {
    let mut rows = Moved { open: Vec::new(), cycle: Vec::new() };
    moved!(rows, "hand-written", 1, |wait| Arc::new(HandBreaker::new(1, wait)), (guard, WORKS) => guard.guard(call(WORKS)));
    let make = |wait| {
        let breaker = Breaker::new().with_consecutive(1).without_failure_rate().with_probes(1.0, 1);
        Arc::new(Upstream::new("moved").with_breaker(breaker.with_open_time(Backoff::fixed(wait))))
    };
    moved!(rows, "**resile**", 1, make, (guard, WORKS) => guard.call(call(WORKS), Always));
    let make = |wait| {
        let policy = failure_policy::consecutive_failures(1, backoff::constant(wait));
        failsafe::Config::new().failure_policy(policy).build()
    };
    moved!(rows, "failsafe", 1, make, (guard, WORKS) => guard.call(call(WORKS)));
    let make = |wait| {
        AsyncRecloser::from(
            Recloser::custom().closed_len(1).half_open_len(1).open_wait(wait).build(),
        )
    };
    moved!(rows, "recloser, two failures and two probes", 2, make, (guard, WORKS) => guard.call(call(WORKS)));
    let make = |wait| {
        let layer =
            CircuitBreakerLayer::builder().consecutive_failures(1).wait_duration_in_open(wait);
        layer.permitted_calls_in_half_open(1).build().expect("a breaker").layer(service_fn(call))
    };
    moved!(rows, "tower-resilience", 1, make, (guard, WORKS) => async { guard.ready().await?.call(WORKS).await });
    let clock = Tick::new_tokio();
    let make = |wait| {
        Arc::new(seatbelt::breaker(call, &clock, move |layer| {
            layer
                .min_throughput(1)
                .break_duration(wait)
                .half_open_mode(::seatbelt::breaker::HalfOpenMode::quick())
        }))
    };
    moved!(rows, "seatbelt", 1, make, (guard, WORKS) => guard.execute(WORKS));
    rows
}
