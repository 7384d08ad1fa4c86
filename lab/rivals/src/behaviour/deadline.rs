//! Trap 3: the effect of a deadline of 10 s.

use std::fmt::Display;
use std::future::pending;
use std::time::Duration;

use backon::{ConstantBuilder, ExponentialBuilder, Retryable};
use layered::{Execute, Service as _, Stack};
use resile::{Backoff, Never, RetryPolicy};
use seatbelt::ResilienceContext;
use tick::Clock;
use tokio::time::{Instant, timeout};
use tokio_retry2::strategy::FixedInterval;
use tokio_retry2::{Retry, RetryError};
use tower::timeout::Timeout;
use tower::{Layer, ServiceExt, service_fn};
use tower_resilience_timelimiter::TimeLimiterLayer;

use super::Section;
use super::retrier::{Op, op};
use crate::job::Fault;
use crate::measure::runtime;
use crate::rival::gax::Gax;
use crate::rival::seatbelt::{Output, recovery};
use crate::rival::{tower as towers, tower_resilience};

const DEADLINE: Duration = Duration::from_secs(10);
const DELAY: Duration = Duration::from_secs(8);

pub async fn seen() -> Section {
    // A thread of its own, because a runtime cannot be started within another.
    let belted = std::thread::spawn(belted).join().expect("no panic");
    Section {
        title: "3. A deadline",
        tried: "A deadline of 10 s, delays of 8 s and up to five attempts. Every attempt fails at once, so the second delay does \
                not fit, or every attempt hangs.",
        columns: &["failing: ends after", "failing: says", "hanging: ends after"],
        rows: vec![
            ("**resile**", both(resiled).await),
            ("backon, `with_total_delay`", both(backoned).await),
            ("backon + tokio's `timeout`", both(backoned_within).await),
            ("tokio-retry2 + tokio's `timeout`", both(retry2ed).await),
            ("tower, `Timeout`", both(towered).await),
            ("tower-resilience, time limiter", both(limited).await),
            ("seatbelt, `Timeout`", belted),
            ("google-cloud-gax, time limit", both(gaxed).await),
        ],
    }
}

async fn both(call: impl AsyncFn(Op) -> String) -> Vec<String> {
    let began = Instant::now();
    let said = call(op(async || Err(Fault::Failed))).await;
    let failing = began.elapsed();
    let began = Instant::now();
    let hung = timeout(Duration::from_secs(3600), call(op(pending))).await;
    let hanging =
        if hung.is_ok() { after(began.elapsed()) } else { "not within an hour".to_owned() };
    vec![after(failing), said, hanging]
}

fn after(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn said<E: Display>(outcome: Result<u64, E>) -> String {
    outcome.map_or_else(|e| format!("{e}"), |_| "an answer".to_owned())
}

async fn resiled(op: Op) -> String {
    let backoff = Backoff::fixed(DELAY).with_jitter(resile::Jitter::None);
    let policy =
        RetryPolicy::new().with_attempts(5).with_backoff(backoff).with_total_timeout(DEADLINE);
    match resile::retry(|_| op(), &policy, Never).await {
        Err(e) => format!("`StopReason::{:?}`, last error: {:?}", e.reason(), e.last()),
        Ok(_) => "an answer".to_owned(),
    }
}

async fn backoned(op: Op) -> String {
    let policy =
        ExponentialBuilder::new().with_factor(1.0).with_min_delay(DELAY).with_max_delay(DELAY);
    said((|| op()).retry(policy.with_max_times(4).with_total_delay(Some(DEADLINE))).await)
}

async fn backoned_within(op: Op) -> String {
    let policy = ConstantBuilder::new().with_delay(DELAY).with_max_times(4);
    timeout(DEADLINE, (|| op()).retry(policy)).await.map_or_else(|e| format!("{e}"), said)
}

async fn retry2ed(op: Op) -> String {
    let attempt = || async { op().await.map_err(RetryError::transient) };
    let call = Retry::spawn(FixedInterval::new(DELAY).take(4), attempt);
    timeout(DEADLINE, call).await.map_or_else(|e| format!("{e}"), said)
}

async fn towered(op: Op) -> String {
    let retry = tower::retry::Retry::new(towers::Later(4, DELAY), service_fn(|()| op()));
    said(Timeout::new(retry, DEADLINE).oneshot(()).await)
}

async fn limited(op: Op) -> String {
    let retry = tower_resilience::retry(DELAY).layer(service_fn(move |()| op()));
    said(
        TimeLimiterLayer::builder()
            .timeout_duration(DEADLINE)
            .build()
            .layer(retry)
            .oneshot(())
            .await,
    )
}

async fn gaxed(op: Op) -> String {
    said(Gax::limited(5, DELAY, Some(DEADLINE)).call(|_| op()).await)
}

/// Runs the trial for seatbelt at a tenth of each time. Its clock does not stand still with
/// tokio's, so this is real time.
fn belted() -> Vec<String> {
    let run = |op: Op| {
        let runtime = runtime(false);
        let began = std::time::Instant::now();
        let outcome = runtime.block_on(async {
            let context = ResilienceContext::new(Clock::new_tokio()).name("trap");
            let stack = (
                seatbelt::timeout::Timeout::layer("deadline", &context)
                    .timeout_output(|_| Err(Fault::Elapsed))
                    .timeout(DEADLINE / 10),
                seatbelt::retry::Retry::layer("retry", &context)
                    .clone_input()
                    .recovery_with(|output: &Output, _| recovery(output))
                    .max_retry_attempts(4)
                    .backoff(seatbelt::retry::Backoff::Constant)
                    .base_delay(DELAY / 10)
                    .use_jitter(false),
                Execute::new(move |()| op()),
            );
            stack.into_service().execute(()).await
        });
        (after(began.elapsed() * 10), format!("`timeout_output`: {:?}", outcome.unwrap_err()))
    };
    let (failing, said) = run(op(async || Err(Fault::Failed)));
    let (hanging, _) = run(op(pending));
    vec![failing, said, hanging]
}
