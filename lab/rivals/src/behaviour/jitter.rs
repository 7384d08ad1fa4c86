//! Trap 1: jitter that is lost at the cap or exceeds it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use google_cloud_gax::backoff_policy::BackoffPolicy;
use google_cloud_gax::exponential_backoff::ExponentialBackoffBuilder;
use google_cloud_gax::retry_state::RetryState;
use layered::{Execute, Service as _, Stack};
use rand::RngExt;
use resile::{Backoff, Jitter};
use seatbelt::{RecoveryInfo, ResilienceContext};
use tokio::time::Instant;
use tokio_retry2::strategy::{ExponentialFactorBackoff, jitter};
use tower::retry::backoff::{Backoff as _, ExponentialBackoffMaker, MakeBackoff};
use tower::util::rng::HasherRng;
use tower_resilience_retry::{ExponentialRandomBackoff, IntervalFunction};

use super::Section;
use crate::job::Fault;
use crate::rival::seatbelt::virtual_clock;

const BASE: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_secs(30);
const DRAWS: usize = 20_000;

pub async fn seen() -> Section {
    let mut rows = Vec::new();
    let kinds = [
        ("**resile**, full jitter (default)", Jitter::Full),
        ("**resile**, equal jitter", Jitter::Equal),
        ("**resile**, ± 50 %", Jitter::Proportional(0.5)),
        ("**resile**, decorrelated", Jitter::Decorrelated),
    ];
    for (name, kind) in kinds {
        let backoff = Backoff::exponential(BASE).with_cap(CAP).with_jitter(kind);
        let mut rng = rand::rng();
        rows.push(row(name, || {
            (1..=12).fold(Duration::ZERO, |last, retry| {
                backoff.delay(retry, last, |range| rng.random_range(range))
            })
        }));
    }
    let policy = ExponentialBuilder::new()
        .with_min_delay(BASE)
        .with_max_delay(CAP)
        .with_jitter()
        .with_max_times(12);
    rows.push(row("backon, `with_jitter`", || policy.build().last().unwrap_or_default()));
    rows.push(row("tokio-retry2, `jitter`", || {
        let strategy = ExponentialFactorBackoff::from_millis(1000, 2.0).max_delay(CAP).map(jitter);
        strategy.take(12).last().unwrap_or_default()
    }));
    let mut maker =
        ExponentialBackoffMaker::new(BASE, CAP, 0.99, HasherRng::default()).expect("valid");
    rows.push(row("tower, jitter of 0.99 (default)", || {
        let mut backoff = maker.make_backoff();
        (0..12)
            .map(|_| backoff.next_backoff().deadline() - Instant::now())
            .last()
            .unwrap_or_default()
    }));
    let random = ExponentialRandomBackoff::new(BASE, 0.5).expect("valid").max_interval(CAP);
    rows.push(row("tower-resilience, ± 50 %", || random.next_interval(11)));
    let mut delays = seatbelt_delays().await.into_iter();
    rows.push(row("seatbelt, jitter (default)", || delays.next().unwrap_or_default()));
    let gax =
        ExponentialBackoffBuilder::new().with_initial_delay(BASE).with_maximum_delay(CAP).clamp();
    let state = RetryState::new(true).set_attempt_count(12_u32);
    rows.push(row("google-cloud-gax", || gax.on_failure(&state)));
    Section {
        title: "1. Jitter at the cap",
        tried: "Delays start at 1 s and double, with a cap of 30 s. The 12th delay, drawn 20,000 times:",
        columns: &[
            "shortest",
            "longest",
            "exactly the cap",
            "most of 1,000 clients in one slot of 100 ms",
        ],
        rows,
    }
}

fn row(name: &'static str, mut draw: impl FnMut() -> Duration) -> (&'static str, Vec<String>) {
    let delays: Vec<_> = (0..DRAWS).map(|_| draw()).collect();
    let seconds = |delay: Option<&Duration>| {
        format!("{:.1} s", delay.copied().unwrap_or_default().as_secs_f64())
    };
    #[allow(clippy::cast_precision_loss)]
    let capped = delays.iter().filter(|&&delay| delay == CAP).count() as f64 * 100.0 / DRAWS as f64;
    let mut slots = HashMap::new();
    for delay in &delays[..1000] {
        *slots.entry(delay.as_millis() / 100).or_insert(0) += 1;
    }
    let most = slots.values().max().copied().unwrap_or(0);
    let cells = [
        seconds(delays.iter().min()),
        seconds(delays.iter().max()),
        format!("{capped:.1} %"),
        most.to_string(),
    ];
    (name, cells.into())
}

/// Returns the delays of seatbelt, which reports them to a callback only.
async fn seatbelt_delays() -> Vec<Duration> {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let listener = reported.clone();
    let context = ResilienceContext::new(virtual_clock()).name("trap");
    let layer = seatbelt::retry::Retry::layer("retry", &context)
        .clone_input()
        .recovery_with(|_: &Result<u64, Fault>, _| RecoveryInfo::retry())
        .max_retry_attempts(12)
        .base_delay(BASE)
        .max_delay(CAP)
        .on_retry(move |_, args| listener.lock().expect("no panic").push(args.retry_delay()));
    let service = (layer, Execute::new(|()| async { Err(Fault::Failed) })).into_service();
    for _ in 0..DRAWS {
        let _ = service.execute(()).await;
    }
    let reported = reported.lock().expect("no panic");
    reported.chunks(12).filter_map(|call| call.last().copied()).collect()
}
