//! Calls with hedges.

use std::time::Duration;

use resile::{Attempt, HedgePolicy, hedge};

use super::{Call, Outcome};
use crate::operation::{Job, Judge};

impl<'w> Call<'w> {
    fn hedges(&self) -> HedgePolicy<Judge<'w>> {
        let dice = &self.dice;
        let policy = HedgePolicy::new()
            .with_delay(dice.of(&[0, 2, 50, 400].map(Duration::from_millis)))
            .with_hedges(dice.of(&[0, 1, 2, 4]))
            .with_total_timeout(self.total())
            .with_classifier(Judge(self.job.world));
        match dice.below(3) {
            0 => policy.with_attempt_timeout(dice.time(31)),
            1 => policy.with_learned_delay(),
            _ => policy,
        }
    }

    pub(super) async fn hedge(&self, job: Job<'w>) -> Outcome<()> {
        let op = |attempt: Attempt| job.begin(attempt.number(), &self.dice);
        let target = Self::host_of(job).target(job.tokens, &self.dice);
        let outcome = hedge(op, self.hedges(), &self.token).on(target).await;
        Self::returned(job, outcome.map(drop))
    }
}
