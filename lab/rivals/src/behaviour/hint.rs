//! Trap 2: the effect of a server's "come back in 10 s".

use std::sync::Mutex;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable};
use layered::{Execute, Service as _, Stack};
use resile::{Backoff, Never, RetryPolicy, Verdict};
use seatbelt::{RecoveryInfo, ResilienceContext};
use tokio::time::{Instant, timeout};
use tokio_retry2::strategy::FixedInterval;
use tokio_retry2::{Retry, RetryError};

use super::Section;
use crate::job::Fault;
use crate::rival::seatbelt::virtual_clock;

const LONG: Duration = Duration::from_secs(3 * 3600);

/// The instants of the attempts, up to twenty.
#[derive(Default)]
struct Seen(Mutex<Vec<Duration>>);

impl Seen {
    fn attempt(&self, now: Duration) -> Result<u64, Fault> {
        let mut seen = self.0.lock().expect("no panic");
        seen.push(now);
        if seen.len() < 20 { Err(Fault::Failed) } else { Ok(1) }
    }

    fn second(&self) -> Option<Duration> {
        self.0.lock().expect("no panic").get(1).copied()
    }

    fn count(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }
}

pub async fn seen() -> Section {
    Section {
        title: "2. A server's hint",
        tried: "Every attempt except the twentieth fails with \"come back in 10 s\". Three attempts are allowed, with delays of 1 s \
                otherwise. Each crate takes the hint as its documentation says. Then 20 callers get this hint at the same \
                instant. Last, the hint is 3 h, and the longest delay is 60 s if it can be set.",
        columns: &[
            "second attempt after",
            "attempts in all",
            "instants at which 20 callers return",
            "a hint of 3 h",
        ],
        rows: vec![
            ("**resile**", all(resiled).await),
            ("backon, `adjust`", all(backoned).await),
            ("tokio-retry2, `retry_after`", all(retry2ed).await),
            ("seatbelt, `RecoveryInfo::delay`", belted().await),
            ("tower, tower-resilience, google-cloud-gax", vec!["n/a".to_owned(); 4]),
        ],
    }
}

async fn all(call: impl AsyncFn(Duration, &Seen) -> String) -> Vec<String> {
    let (ten, seen) = (Duration::from_secs(10), Seen::default());
    call(ten, &seen).await;
    let waited = seen.second().unwrap_or_default();
    let mut returns = Vec::new();
    for _ in 0..20 {
        let one = Seen::default();
        call(ten, &one).await;
        returns.push(one.second().unwrap_or_default().as_millis());
    }
    returns.sort_unstable();
    returns.dedup();
    let long = Seen::default();
    let said = timeout(LONG * 30, call(LONG, &long)).await.unwrap_or_default();
    let reported = if long.count() == 1 {
        format!("ends at once: {said}")
    } else {
        format!("second attempt after {:.0} s", long.second().unwrap_or_default().as_secs_f64())
    };
    vec![
        format!("{:.1} s", waited.as_secs_f64()),
        seen.count().to_string(),
        returns.len().to_string(),
        reported,
    ]
}

async fn resiled(hint: Duration, seen: &Seen) -> String {
    let policy = RetryPolicy::new()
        .with_attempts(3)
        .with_backoff(Backoff::fixed(Duration::from_secs(1)))
        .with_hint_cap(Duration::from_secs(60))
        .with_classifier(move |_: &Fault| Verdict::transient().after(hint));
    let began = Instant::now();
    let outcome = resile::retry(async |_| seen.attempt(began.elapsed()), &policy, Never).await;
    outcome.map_or_else(
        |e| format!("`StopReason::{:?}`, `retry_after` {:?}", e.reason(), e.retry_after()),
        |_| String::new(),
    )
}

async fn backoned(hint: Duration, seen: &Seen) -> String {
    let policy = ConstantBuilder::new().with_delay(Duration::from_secs(1)).with_max_times(2);
    let began = Instant::now();
    let call = || async { seen.attempt(began.elapsed()) };
    let _ = call.retry(policy).adjust(|_, _| Some(hint)).await;
    String::new()
}

async fn retry2ed(hint: Duration, seen: &Seen) -> String {
    let began = Instant::now();
    let call =
        || async { seen.attempt(began.elapsed()).map_err(|e| RetryError::retry_after(e, hint)) };
    let _ = Retry::spawn(FixedInterval::new(Duration::from_secs(1)).take(2), call).await;
    String::new()
}

/// Runs the trial for seatbelt, on its own clock.
async fn belted() -> Vec<String> {
    let run = async |hint: Duration| {
        let clock = virtual_clock();
        let seen = std::sync::Arc::new(Seen::default());
        let (context, began) = (ResilienceContext::new(&clock).name("trap"), clock.instant());
        let (reported, at) = (seen.clone(), clock.clone());
        let layer = seatbelt::retry::Retry::layer("retry", &context)
            .clone_input()
            .recovery_with(move |output: &Result<u64, Fault>, _| match output {
                Ok(_) => RecoveryInfo::never(),
                Err(_) => RecoveryInfo::retry().delay(hint),
            })
            .max_retry_attempts(2)
            .base_delay(Duration::from_secs(1))
            .max_delay(Duration::from_secs(60));
        let attempt = move |()| {
            let outcome = reported.attempt(at.instant() - began);
            async move { outcome }
        };
        let _ = (layer, Execute::new(attempt)).into_service().execute(()).await;
        seen
    };
    let seen = run(Duration::from_secs(10)).await;
    let mut returns = Vec::new();
    for _ in 0..20 {
        returns.push(run(Duration::from_secs(10)).await.second().unwrap_or_default().as_millis());
    }
    returns.sort_unstable();
    returns.dedup();
    let long = run(LONG).await.second().unwrap_or_default();
    vec![
        format!("{:.1} s", seen.second().unwrap_or_default().as_secs_f64()),
        seen.count().to_string(),
        returns.len().to_string(),
        format!("second attempt after {:.0} s", long.as_secs_f64()),
    ]
}
