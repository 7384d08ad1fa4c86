//! Trap 13: instant failures without a delay, inside a timeout.

use std::time::{Duration, Instant};

use super::Section;
use super::retrier::{RETRIERS, op};
use crate::job::Fault;
use crate::measure::runtime;

const LIMIT: Duration = Duration::from_millis(10);
/// The time after which the trial no longer waits for the timeout.
const PATIENCE: Duration = Duration::from_millis(300);

pub fn seen() -> Section {
    let runtime = runtime(false);
    let mut rows = Vec::new();
    for who in RETRIERS {
        let began = Instant::now();
        let call = who.call(
            u32::MAX,
            Duration::ZERO,
            op(move || async move {
                if began.elapsed() > PATIENCE { Ok(1) } else { Err(Fault::Failed) }
            }),
        );
        let fired = runtime.block_on(async { tokio::time::timeout(LIMIT, call).await.is_err() });
        let reported = if fired {
            format!("{} ms", began.elapsed().as_millis())
        } else {
            "not within 300 ms".to_owned()
        };
        rows.push((who.name(), vec![reported]));
    }
    Section {
        title: "13. Starvation",
        tried: "An operation that always fails at once, without a delay or a limit of attempts. It runs in tokio's `timeout` of \
                10 ms on a current-thread runtime.",
        columns: &["the timeout fired after"],
        rows,
    }
}
