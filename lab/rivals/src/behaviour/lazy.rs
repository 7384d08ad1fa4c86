//! Trap 14: work before the first poll.

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
use crate::job::{Fault, Immediate, Job, attempts, count, reset};
use crate::rival::{gax::Gax, seatbelt, tower as towers, tower_resilience};

/// Counts when it is called, not when its future is polled.
fn called() -> impl Future<Output = Result<u64, Fault>> + Send + 'static {
    count();
    Immediate.attempt()
}

pub fn seen() -> Section {
    let mut rows = Vec::new();
    let mut note = |name, make: &dyn Fn()| {
        reset();
        make();
        rows.push((
            name,
            vec![if attempts() > 0 { "called once" } else { "not called" }.to_owned()],
        ));
    };
    note("**resile**", &|| drop(resile::retry(|_| called(), &RetryPolicy::new(), Never)));
    note("backon", &|| drop((|| called()).retry(ConstantBuilder::new())));
    note("tokio-retry2", &|| {
        let attempt = || {
            let call = called();
            async { call.await.map_err(RetryError::transient) }
        };
        drop(Retry::spawn(FixedInterval::from_millis(1), attempt));
    });
    note("tower", &|| {
        drop(tower::retry::Retry::new(towers::AtOnce(2), service_fn(|()| called())).call(()))
    });
    note("tower-resilience", &|| {
        drop(tower_resilience::retry(Duration::ZERO).layer(service_fn(|()| called())).call(()));
    });
    note("seatbelt", &|| {
        let service = Arc::new(seatbelt::breaker(|_| called(), &Clock::new_tokio(), |layer| layer));
        drop(service.execute(true));
    });
    note("google-cloud-gax", &|| drop(Gax::new(Duration::ZERO, None).call(|_| called())));
    Section {
        title: "14. Laziness",
        tried: "The future of a call is made, and then dropped without a poll.",
        columns: &["the operation was"],
        rows,
    }
}
