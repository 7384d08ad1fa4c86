//! Trap 17: the number of copies of the operation in a call.

use std::sync::Arc;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable};
use layered::Service as _;
use resile::{Never, RetryPolicy};
use tick::Clock;
use tokio_retry2::strategy::FixedInterval;
use tokio_retry2::{Retry, RetryError};
use tower::{Layer, Service, service_fn};

use super::Section;
use crate::job::{Fault, Immediate, Job};
use crate::rival::{gax::Gax, seatbelt, tower as towers, tower_resilience};

/// A job that keeps a kilobyte through a wait and then answers.
#[derive(Clone, Copy)]
struct Large;

impl Job for Large {
    const NAME: &'static str = "a kilobyte";
    const ATTEMPTS: u64 = 1;

    async fn attempt(self) -> Result<u64, Fault> {
        let kept = std::hint::black_box([1_u8; 1024]);
        std::future::ready(()).await;
        Ok(u64::from(std::hint::black_box(&kept)[0]))
    }
}

pub fn seen() -> Section {
    let operation = size_of_val(&Large.attempt()) - size_of_val(&Immediate.attempt());
    let rows = sizes(Immediate)
        .into_iter()
        .zip(sizes(Large))
        .map(|((name, small), (_, large))| {
            let held = match (large.saturating_sub(small) + operation / 2) / operation {
                0 => "in a box",
                1 => "once",
                _ => "more than once",
            };
            (name, vec![small.to_string(), large.to_string(), held.to_owned()])
        })
        .collect();
    Section {
        title: "17. The operation, held once",
        tried: "The size of a call's future, with a small operation and with one that keeps a kilobyte through a wait.",
        columns: &["small, bytes", "large, bytes", "the kilobyte is held"],
        rows,
    }
}

fn sizes<J: Job>(job: J) -> Vec<(&'static str, usize)> {
    let policy = RetryPolicy::new();
    let mut tower =
        tower::retry::Retry::new(towers::AtOnce(2), service_fn(move |()| job.attempt()));
    let mut resilience =
        tower_resilience::retry(Duration::ZERO).layer(service_fn(move |()| job.attempt()));
    let belt = Arc::new(seatbelt::retry(job, &Clock::new_tokio(), Duration::ZERO));
    let strategy = FixedInterval::from_millis(1).take(2);
    vec![
        ("**resile**", size_of_val(&resile::retry(|_| job.attempt(), &policy, Never))),
        ("a loop by hand", size_of_val(&crate::hand::by_hand(|| job.attempt(), 3, Duration::ZERO))),
        ("backon", size_of_val(&(|| job.attempt()).retry(ConstantBuilder::new()))),
        (
            "tokio-retry2",
            size_of_val(&Retry::spawn(strategy, || async {
                job.attempt().await.map_err(RetryError::transient)
            })),
        ),
        ("tower", size_of_val(&tower.call(()))),
        ("tower-resilience", size_of_val(&resilience.call(()))),
        ("seatbelt", size_of_val(&belt.execute(()))),
        ("google-cloud-gax", size_of_val(&Gax::new(Duration::ZERO, None).call(|_| job.attempt()))),
    ]
}
