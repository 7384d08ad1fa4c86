//! Trap 10: a hedge that fails fast.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use layered::{Execute, Service as _, Stack};
use resile::{HedgePolicy, Never};
use seatbelt::{RecoveryInfo, ResilienceContext};
use tick::Clock;
use tokio::time::{Instant, sleep};
use tower::hedge::{Hedge, Policy};
use tower::{ServiceExt, service_fn};

use super::Section;
use crate::job::Fault;

const SLOW: Duration = Duration::from_millis(200);
const DELAY: Duration = Duration::from_millis(50);

/// The first call answers late, the others fail at once.
fn calls(clock: impl Fn(Duration) -> super::retrier::Boxed<()> + Send + Sync + 'static) -> super::retrier::Op {
    let made = AtomicU32::new(0);
    super::retrier::op(move || {
        let first = made.fetch_add(1, Ordering::Relaxed) == 0;
        let slow = clock(SLOW);
        async move {
            if first {
                slow.await;
                Ok(1)
            } else {
                Err(Fault::Failed)
            }
        }
    })
}

#[derive(Clone)]
struct Always;

impl Policy<()> for Always {
    fn clone_request(&self, (): &()) -> Option<()> {
        Some(())
    }

    fn can_retry(&self, (): &()) -> bool {
        true
    }
}

pub async fn seen() -> Section {
    let tokio = |time| Box::pin(sleep(time)) as super::retrier::Boxed<()>;
    let began = Instant::now();
    let op = calls(tokio);
    let own = resile::hedge(|_| op(), &HedgePolicy::new().with_delay(DELAY), Never).await;
    let own = format!("{} after {} ms", told(own.is_ok()), began.elapsed().as_millis());

    let op = calls(tokio);
    let service = service_fn(move |()| op());
    let hedge = Hedge::new_with_mock_latencies(service, Always, 1, 0.9, Duration::from_secs(60), &[50; 20]);
    let began = Instant::now();
    let towered = hedge.oneshot(()).await;
    let towered = format!("{} after {} ms", told(towered.is_ok()), began.elapsed().as_millis());

    let clock: Clock = crate::rival::seatbelt::virtual_clock();
    let (context, sleeper) = (ResilienceContext::new(&clock).name("trap"), clock.clone());
    let op = calls(move |time| Box::pin(sleeper.delay(time)));
    let layer = seatbelt::hedging::Hedging::layer("hedge", &context)
        .clone_input()
        .recovery_with(|output: &Result<u64, Fault>, _| match output {
            Ok(_) => RecoveryInfo::never(),
            Err(_) => RecoveryInfo::retry(),
        })
        .hedging_delay(DELAY);
    let service = Arc::new((layer, Execute::new(move |()| op())).into_service());
    let began = clock.instant();
    let belted = service.execute(()).await;
    let belted = format!("{} after {} ms", told(belted.is_ok()), (clock.instant() - began).as_millis());
    Section {
        title: "10. A hedge that fails fast",
        tried: "The first attempt answers after 200 ms. A hedge joins it after 50 ms, and fails at once.",
        columns: &["the caller gets"],
        rows: vec![
            ("**resile**, `hedge`", vec![own]),
            ("tower, `hedge`", vec![towered]),
            ("seatbelt, `hedging`", vec![belted]),
            ("the others", vec!["n/a".to_owned()]),
        ],
    }
}

fn told(answered: bool) -> &'static str {
    if answered { "the answer" } else { "the failure" }
}
