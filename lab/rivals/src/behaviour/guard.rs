//! One interface to all circuit breakers.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use failsafe::futures::CircuitBreaker as _;
use failsafe::{StateMachine, backoff, failure_policy};
use layered::{Execute, Service as _, Stack};
use recloser::{AsyncRecloser, Recloser};
use resile::classify::Always;
use resile::{Backoff, Breaker, Jitter, StopReason, Upstream};
use seatbelt::ResilienceContext;
use tick::Clock;
use tower::{Layer as _, ServiceExt, service_fn};
use tower_resilience_circuitbreaker::{CircuitBreakerError, CircuitBreakerLayer};

use super::retrier::Boxed;
use crate::job::Fault;
use crate::rival::seatbelt::{Output, recovery};

/// Runs a call if the breaker admits it. A refusal is `Fault::Open`.
pub type Guard = Arc<dyn Fn(Boxed<Result<u64, Fault>>) -> Guarded>;
pub type Guarded = Pin<Box<dyn Future<Output = Result<u64, Fault>>>>;

/// The settings of a breaker, where it has them. It trips after three failures and allows one
/// probe.
#[derive(Clone, Copy)]
pub struct Set {
    pub wait: Duration,
    pub lease: Duration,
}

pub fn guards(set: Set) -> Vec<(&'static str, Guard)> {
    vec![
        ("**resile**", resile(set)),
        ("failsafe", failsafe(set)),
        ("recloser", recloser(set)),
        ("tower-resilience", tower_resilience(set)),
        ("seatbelt, quick probing", seatbelt(set)),
    ]
}

fn resile(set: Set) -> Guard {
    let breaker = Breaker::new()
        .with_consecutive(3)
        .without_failure_rate()
        .with_probes(1.0, 1)
        .with_lease(set.lease)
        .with_open_time(Backoff::fixed(set.wait).with_jitter(Jitter::None));
    from_resile(breaker)
}

pub fn from_resile(breaker: Breaker) -> Guard {
    let upstream = Arc::new(Upstream::new("trap").with_breaker(breaker));
    Arc::new(move |call| {
        let upstream = upstream.clone();
        Box::pin(async move {
            upstream.call(call, Always).await.map_err(|gave_up| match gave_up.reason() {
                StopReason::Open => Fault::Open,
                _ => gave_up.into_last().expect("the call failed"),
            })
        })
    })
}

fn failsafe(set: Set) -> Guard {
    let policy = failure_policy::consecutive_failures(3, backoff::constant(set.wait));
    from_failsafe(failsafe::Config::new().failure_policy(policy).build())
}

pub fn from_failsafe<P>(breaker: StateMachine<P, ()>) -> Guard
where
    P: failsafe::FailurePolicy + Send + Sync + 'static,
{
    Arc::new(move |call| {
        let guarded = breaker.call(call);
        Box::pin(async move {
            guarded.await.map_err(|e| match e {
                failsafe::Error::Inner(fault) => fault,
                failsafe::Error::Rejected => Fault::Open,
            })
        })
    })
}

fn recloser(set: Set) -> Guard {
    from_recloser(Recloser::custom().closed_len(3).half_open_len(1).open_wait(set.wait).build())
}

pub fn from_recloser(breaker: Recloser) -> Guard {
    let breaker = AsyncRecloser::from(breaker);
    Arc::new(move |call| {
        let guarded = breaker.call(call);
        Box::pin(async move {
            guarded.await.map_err(|e| match e {
                recloser::Error::Inner(fault) => fault,
                recloser::Error::Rejected => Fault::Open,
            })
        })
    })
}

fn tower_resilience(set: Set) -> Guard {
    let layer =
        CircuitBreakerLayer::builder().consecutive_failures(3).wait_duration_in_open(set.wait);
    from_tower_resilience(layer.permitted_calls_in_half_open(1).build().expect("valid"))
}

pub fn from_tower_resilience(
    layer: CircuitBreakerLayer<tower_resilience_circuitbreaker::DefaultClassifier>,
) -> Guard {
    let service = layer.layer(service_fn(|call: Call| call.0));
    Arc::new(move |call| {
        let guarded = service.clone().oneshot(Call(call));
        Box::pin(async move {
            guarded.await.map_err(|e| match e {
                CircuitBreakerError::Inner(fault) => fault,
                CircuitBreakerError::OpenCircuit => Fault::Open,
            })
        })
    })
}

/// A request that is the call itself.
struct Call(Boxed<Result<u64, Fault>>);

fn seatbelt(set: Set) -> Guard {
    from_seatbelt(|layer| {
        layer
            .min_throughput(3)
            .break_duration(set.wait)
            .half_open_mode(seatbelt::breaker::HalfOpenMode::quick())
    })
}

type Layer = seatbelt::breaker::BreakerLayer<Boxed<Output>, Output>;

pub fn from_seatbelt(set: impl FnOnce(Layer) -> Layer) -> Guard {
    let context = ResilienceContext::new(Clock::new_tokio()).name("trap");
    let layer = seatbelt::breaker::Breaker::layer("breaker", &context)
        .recovery_with(|output: &Output, _| recovery(output))
        .rejected_input_error(|_, _| Fault::Open);
    let service = Arc::new((set(layer), Execute::new(|call: Boxed<Output>| call)).into_service());
    Arc::new(move |call| {
        let service = service.clone();
        Box::pin(async move { service.execute(call).await })
    })
}
