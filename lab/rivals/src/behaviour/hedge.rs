//! Trap 10: a hedge that fails fast.

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
use super::retrier::{Op, op};
use crate::job::Fault;

const SLOW: Duration = Duration::from_millis(400);
const DELAY: Duration = Duration::from_millis(100);

/// Makes an operation: the first call answers late, and the others fail at once.
fn calls() -> Op {
    let made = AtomicU32::new(0);
    op(move || {
        let first = made.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if !first {
                return Err(Fault::Failed);
            }
            sleep(SLOW).await;
            Ok(1)
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
    let op = calls();
    let own = reported(resile::hedge(|_| op(), &HedgePolicy::new().with_delay(DELAY), Never)).await;

    let op = calls();
    let service = service_fn(move |()| op());
    let hedge = Hedge::new_with_mock_latencies(
        service,
        Always,
        1,
        0.9,
        Duration::from_secs(60),
        &[100; 20],
    );
    let towered = reported(hedge.oneshot(())).await;

    let op = calls();
    let context = ResilienceContext::new(Clock::new_tokio()).name("trap");
    let layer = seatbelt::hedging::Hedging::layer("hedge", &context)
        .clone_input()
        .recovery_with(|output: &Result<u64, Fault>, _| match output {
            Ok(_) => RecoveryInfo::never(),
            Err(_) => RecoveryInfo::retry(),
        })
        .hedging_delay(DELAY);
    let service = (layer, Execute::new(move |()| op())).into_service();
    let belted = reported(service.execute(())).await;
    Section {
        title: "10. A hedge that fails fast",
        tried: "The first attempt answers after 0.4 s. A hedge joins it after 0.1 s and fails at once.",
        columns: &["the caller gets"],
        rows: vec![
            ("**resile**, `hedge`", vec![own]),
            ("tower, `hedge`", vec![towered]),
            ("seatbelt, `hedging`", vec![belted]),
            ("the others", vec!["n/a".to_owned()]),
        ],
    }
}

/// Returns the outcome and its time, to a tenth of a second. The clock is real because seatbelt has
/// no other here.
async fn reported<E>(call: impl Future<Output = Result<u64, E>>) -> String {
    let began = Instant::now();
    let what = if call.await.is_ok() { "the answer" } else { "the failure" };
    format!("{what} after {:.1} s", began.elapsed().as_secs_f64())
}
