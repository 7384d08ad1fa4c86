//! Trap 16: the number of failures that trip a breaker after many successes.

use std::future::ready;
use std::time::{Duration, Instant};

use google_cloud_gax::retry_result::RetryResult;
use google_cloud_gax::retry_throttler::{AdaptiveThrottler, RetryThrottler};
use recloser::Recloser;
use resile::Breaker;
use tower_resilience_circuitbreaker::{CircuitBreakerLayer, SlidingWindowType};

use super::Section;
use super::guard::{
    Guard, from_failsafe, from_recloser, from_resile, from_seatbelt, from_tower_resilience,
};
use crate::job::Fault;

const SUCCESSES: [u32; 3] = [1_000, 10_000, 100_000];
/// The most failures that are tried.
const MOST: u32 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(2);

pub async fn seen() -> Section {
    let by_time = || {
        let layer =
            CircuitBreakerLayer::builder().sliding_window_type(SlidingWindowType::TimeBased);
        from_tower_resilience(
            layer.sliding_window_duration(Duration::from_secs(10)).build().expect("valid"),
        )
    };
    let makers: Vec<Made> = vec![
        ("**resile** (default)", Box::new(|| from_resile(Breaker::new()))),
        (
            "**resile**, failure rate alone",
            Box::new(|| from_resile(Breaker::new().without_consecutive())),
        ),
        ("failsafe (default)", Box::new(|| from_failsafe(failsafe::Config::new().build()))),
        ("recloser (default)", Box::new(|| from_recloser(Recloser::custom().build()))),
        (
            "tower-resilience (default)",
            Box::new(|| {
                from_tower_resilience(CircuitBreakerLayer::builder().build().expect("valid"))
            }),
        ),
        ("tower-resilience, window of 10 s", Box::new(by_time)),
        ("seatbelt (default)", Box::new(|| from_seatbelt(|layer| layer))),
    ];
    let mut rows = Vec::new();
    for (name, make) in makers {
        let mut cells = Vec::new();
        for successes in SUCCESSES {
            cells.push(failures(&make(), successes).await);
        }
        rows.push((name, cells));
    }
    rows.push((
        "google-cloud-gax, `AdaptiveThrottler`, to deny half",
        SUCCESSES.map(throttled).into(),
    ));
    Section {
        title: "16. The window",
        tried: "So many calls succeed without a pause, and then all calls fail. The numbers are the failures until calls are \
                refused.",
        columns: &["after 1,000 successes", "after 10,000", "after 100,000"],
        rows,
    }
}

/// A name and a function that makes a new breaker.
type Made = (&'static str, Box<dyn Fn() -> Guard>);

async fn failures(guard: &Guard, successes: u32) -> String {
    let began = Instant::now();
    for done in 0..successes {
        let _ = guard(Box::pin(ready(Ok(1)))).await;
        if began.elapsed() > PATIENCE {
            return format!("not tried: {done} successes took 2 s");
        }
    }
    for failures in 0..MOST {
        if guard(Box::pin(ready(Err(Fault::Failed)))).await == Err(Fault::Open) {
            return failures.to_string();
        }
        if began.elapsed() > 2 * PATIENCE {
            return format!("more than {failures}, in 2 s");
        }
    }
    format!("more than {MOST}")
}

/// Returns the number of failures until more than half of a thousand draws deny a retry. The
/// throttler draws at random.
fn throttled(successes: u32) -> String {
    let mut throttler = AdaptiveThrottler::default();
    (0..successes).for_each(|_| throttler.on_success());
    for failures in 0..MOST {
        throttler
            .on_retry_failure(&RetryResult::Continue(google_cloud_gax::error::Error::io("down")));
        // A denied draw counts as a request, so the draws are made on a copy.
        let mut copy = throttler.clone();
        if failures % 100 == 0
            && (0..1000).filter(|_| copy.clone().throttle_retry_attempt()).count() > 500
        {
            copy.on_success();
            return format!("{failures}");
        }
    }
    format!("more than {MOST}")
}
