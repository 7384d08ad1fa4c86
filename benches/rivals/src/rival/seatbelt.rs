//! `seatbelt`: its services over a clock of its own.

use std::time::Duration;

use layered::{Execute, Service, Stack};
use seatbelt::retry::{Backoff, Retry};
use seatbelt::timeout::Timeout;
use seatbelt::{RecoveryInfo, ResilienceContext};
use tick::Clock;

use crate::job::{Fault, Job};

pub type Output = Result<u64, Fault>;

pub fn recovery(output: &Output) -> RecoveryInfo {
    if output.is_ok() { RecoveryInfo::never() } else { RecoveryInfo::retry() }
}

pub fn retry<J: Job>(job: J, clock: &Clock, delay: Duration) -> impl Service<(), Out = Output> + use<J> {
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
