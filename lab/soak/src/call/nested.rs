//! Calls within calls.

use resile::fallback::Alternative;
use resile::{Attempt, FallbackPolicy, GaveUp, ResilienceExt, fallback, retry};

use super::{Call, Outcome};
use crate::host::count;
use crate::operation::Judge;
use crate::world::OUTER;

impl Call<'_> {
    /// Makes a retry within a single call on the outer upstream.
    pub(super) async fn nested(&self) -> Outcome<()> {
        let outer = self.job_at(OUTER);
        let inner = async {
            outer.account(1);
            self.retry(self.job, &self.token).await
        };
        let target = Self::host_of(outer).target(outer.tokens, &self.dice);
        let outcome = inner.through(target, Judge(self.job.world)).await;
        Self::returned(outer, outcome.map(drop).map_err(GaveUp::flatten))
    }

    pub(super) async fn retried_hedge(&self) -> Outcome<()> {
        let outer = self.job_at(OUTER);
        let op = |attempt: Attempt| {
            outer.account(attempt.number());
            self.hedge(self.job)
        };
        let target = Self::host_of(outer).target(outer.tokens, &self.dice);
        let outcome = retry(op, self.policy(), &self.token).on(target).await;
        Self::returned(outer, outcome.map_err(GaveUp::flatten))
    }

    /// Tries three hosts, half of the time on the outer upstream.
    pub(super) async fn fallback(&self) -> Outcome<()> {
        let dice = &self.dice;
        let hosts = [(); 3].map(|()| usize::try_from(dice.below(OUTER as u64)).unwrap_or(0));
        let policy = FallbackPolicy::new()
            .with_total_timeout(self.total())
            .with_classifier(Judge(self.job.world));
        let outer = self.job_at(OUTER);
        let outcome = if dice.is_one_in(2) {
            let op = |alternative: Alternative<'_, usize>| {
                outer.account(u32::try_from(alternative.index() + 1).unwrap_or(1));
                self.retry(self.job_at(*alternative.value()), &self.token)
            };
            let target = Self::host_of(outer).target(outer.tokens, dice);
            let outcome = fallback(&hosts, op, policy, &self.token).on(target).await;
            outcome.inspect(|_| count(&Self::host_of(outer).book.returned))
        } else {
            let op = |alternative: Alternative<'_, usize>| {
                self.retry(self.job_at(*alternative.value()), &self.token)
            };
            fallback(&hosts, op, policy, &self.token).on(&self.job.world.bare).await
        };
        outcome.map(drop).map_err(GaveUp::flatten)
    }
}
