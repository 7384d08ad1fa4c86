//! `seatbelt`: its services over a clock of its own.

use std::time::Duration;

use layered::{Execute, Service, Stack};
use seatbelt::breaker::{Breaker, BreakerLayer};
use seatbelt::retry::{Backoff, Retry};
use seatbelt::timeout::Timeout;
use seatbelt::{RecoveryInfo, ResilienceContext};
use tick::Clock;

use crate::job::{Fault, Job};

pub type Output = Result<u64, Fault>;

pub fn recovery(output: &Output) -> RecoveryInfo {
    if output.is_ok() { RecoveryInfo::never() } else { RecoveryInfo::retry() }
}

pub fn retry<J: Job>(
    job: J,
    clock: &Clock,
    delay: Duration,
) -> impl Service<(), Out = Output> + use<J> {
    let context = ResilienceContext::new(clock).name("rival");
    let stack = (
        Retry::layer("retry", &context)
            .clone_input()
            .recovery_with(|output: &Output, _| recovery(output))
            .max_retry_attempts(4)
            .backoff(Backoff::Constant)
            .base_delay(delay)
            .use_jitter(false),
        Execute::new(move |()| job.attempt()),
    );
    stack.into_service()
}

pub fn retry_within<J: Job>(
    job: J,
    clock: &Clock,
    delay: Duration,
    limit: Duration,
) -> impl Service<(), Out = Output> + use<J> {
    let context = ResilienceContext::new(clock).name("rival");
    let stack = (
        Timeout::layer("deadline", &context).timeout_output(|_| Err(Fault::Elapsed)).timeout(limit),
        Retry::layer("retry", &context)
            .clone_input()
            .recovery_with(|output: &Output, _| recovery(output))
            .max_retry_attempts(4)
            .backoff(Backoff::Constant)
            .base_delay(delay)
            .use_jitter(false),
        Execute::new(move |()| job.attempt()),
    );
    stack.into_service()
}

pub type Guard<In> = BreakerLayer<In, Output>;

/// Makes a breaker alone over `call`. The input says whether the call succeeds.
pub fn breaker<F, Fut, G>(
    call: F,
    clock: &Clock,
    set: G,
) -> impl Service<bool, Out = Output> + use<F, Fut, G>
where
    F: Fn(bool) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Output> + Send + 'static,
    G: FnOnce(Guard<bool>) -> Guard<bool>,
{
    let context = ResilienceContext::new(clock).name("rival");
    let layer = Breaker::layer("breaker", &context)
        .recovery_with(|output: &Output, _| recovery(output))
        .rejected_input_error(|_, _| Fault::Open);
    (set(layer), Execute::new(call)).into_service()
}

/// Makes the whole stack: a deadline, a retry, a breaker, and a timeout for each attempt.
pub fn stack<J: Job>(
    job: J,
    clock: &Clock,
    deadline: Duration,
    limit: Duration,
) -> impl Service<(), Out = Output> + use<J> {
    let context = ResilienceContext::new(clock).name("rival");
    let stack = (
        Timeout::layer("deadline", &context)
            .timeout_output(|_| Err(Fault::Elapsed))
            .timeout(deadline),
        Retry::layer("retry", &context)
            .clone_input()
            .recovery_with(|output: &Output, _| recovery(output))
            .max_retry_attempts(4)
            .backoff(Backoff::Constant)
            .base_delay(Duration::ZERO)
            .use_jitter(false),
        Breaker::layer("breaker", &context)
            .recovery_with(|output: &Output, _| recovery(output))
            .rejected_input_error(|_, _| Fault::Open)
            .failure_threshold(0.9),
        Timeout::layer("attempt", &context).timeout_output(|_| Err(Fault::Elapsed)).timeout(limit),
        Execute::new(move |()| job.attempt()),
    );
    stack.into_service()
}

/// Makes a clock that advances by itself to the next timer.
pub fn virtual_clock() -> Clock {
    tick::ClockControl::new().auto_advance_timers(true).to_clock()
}
