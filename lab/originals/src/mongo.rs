use std::time::Duration;

use resile::policy::Decision;
use resile::{Attempt, Backoff, RetryPolicy};
use resile_clients::{Idempotency, mongodb};
use serde::Deserialize;

use crate::delay::near;
use crate::script::{Difference, same};

/// A command whose attempts fail with these labels, codes and bases of the backoff in milliseconds. The
/// code of a success is 0, and the base that the server does not name.
#[derive(Deserialize)]
pub(crate) struct Mongo {
    is_read: bool,
    failures: Vec<(Vec<String>, i32, u64)>,
    attempts: u32,
    delays: Vec<f64>,
}

/// The code of a server that is no primary: a read is repeated, and the server is not overloaded.
const NO_PRIMARY: i32 = 10107;

impl Mongo {
    /// Compares the number of attempts, and the upper ends of the delays between them.
    pub(crate) fn compare(&self) -> Result<(), Difference> {
        // The drivers double the base once before the first retry.
        let backoff = Backoff::exponential(Duration::from_millis(200));
        let policy = RetryPolicy::new()
            .with_attempts(3)
            .with_backoff(backoff.with_cap(Duration::from_secs(10)));
        let idempotency =
            if self.is_read { Idempotency::Idempotent } else { Idempotency::NotIdempotent };
        let (mut attempts, mut delays) = (0, Vec::new());
        for (labels, code, base) in &self.failures {
            attempts += 1;
            if *code == 0 {
                break;
            }
            let labels: Vec<_> = labels.iter().map(String::as_str).collect();
            let verdict = mongodb::code(&labels, Some(*code), idempotency);
            let verdict = verdict.map(|it| it.with_base(Duration::from_millis(2 * base)));
            let decision = policy.decide(Attempt::new(attempts), verdict, |range| *range.end());
            let Decision::Retry(delay) = decision else { break };
            delays.push(delay.as_secs_f64());
        }
        same(&[f64::from(attempts)], &[f64::from(self.attempts)], &self.failures)?;
        same(&near(&delays, &self.delays), &self.delays, &self.failures)
    }

    /// Returns whether an attempt failed that may come again, and the server was not overloaded.
    pub(crate) fn has_other_failures(&self) -> bool {
        self.is_read && self.failures.iter().any(|(_, code, _)| *code == NO_PRIMARY)
    }
}
