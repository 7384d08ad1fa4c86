//! Calls of one attempt.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use resile::call::Admission;
use resile::cancel::Cancel;
use resile::classify::Always;
use resile::time::Timer;
use resile::upstream::TargetFor;
use resile::{Classify, ResilienceExt, StopReason, Verdict};

use super::{Call, End, Outcome};
use crate::host::count;
use crate::ledger::Tokens;
use crate::operation::{Down, Job, Judge, usage_of};

impl<'w> Call<'w> {
    pub(super) async fn call(&self) -> Outcome<()> {
        let (job, dice) = (self.job, &self.dice);
        let host = Self::host_of(job);
        let operation =
            async { job.begin(1, dice).timeout(dice.time(33)).on(&host.upstream).await };
        let target = host.target(job.tokens, dice);
        Self::returned(job, operation.through(target, Judge(job.world)).await.map(drop))
    }

    pub(super) async fn admit(&self) -> End {
        let (job, dice) = (Job { records: false, ..self.job }, &self.dice);
        let host = Self::host_of(job);
        let limit = dice.time(33);
        let admission = {
            let mut admitting = pin!(host.target(job.tokens, dice).admit(&self.token));
            let mut patience = pin!(job.world.timer.sleep(limit));
            let admitted = poll_fn(|cx| match admitting.as_mut().poll(cx) {
                Poll::Ready(admitted) => Poll::Ready(Some(admitted)),
                Poll::Pending => patience.as_mut().poll(cx).map(|()| None),
            });
            match admitted.await {
                None => return End::Left,
                Some(Err(gave_up)) => return End::GaveUp(gave_up.reason()),
                Some(Ok(admission)) => admission,
            }
        };
        let operation = job.begin(1, dice).timeout(limit).on(&host.upstream).await;
        self.report(job, admission, operation)
    }

    pub(super) fn try_admit(&self) -> End {
        let job = Job { records: false, ..self.job };
        match Self::host_of(job).target(job.tokens, &self.dice).try_admit() {
            Ok(admission) => {
                job.account(1);
                self.report(job, admission, Ok(job.tokens))
            }
            Err(gave_up) => End::GaveUp(gave_up.reason()),
        }
    }

    /// Reports an admitted attempt, or drops it.
    fn report<X, K: Cancel>(
        &self,
        job: Job<'w>,
        mut admission: Admission<X, K>,
        operation: Result<Tokens, Down>,
    ) -> End
    where
        X: TargetFor<Infallible>,
    {
        let (dice, world) = (&self.dice, job.world);
        if dice.is_one_in(8) {
            return End::Left;
        }
        if dice.is_one_in(8) {
            if let Some((ledger, _)) = &Self::host_of(job).ledger {
                ledger.withdraw(world.now(), job.tokens);
            }
            admission.withdraw();
            return End::Left;
        }
        match operation {
            Ok(usage) => {
                if dice.is_one_in(2) {
                    job.settle(usage);
                    admission.record(usage_of(usage));
                }
                // The book first: the report may panic after the deposit.
                if !Self::host_of(job).is_observed {
                    count(&Self::host_of(job).book.returned);
                }
                admission.succeeded();
                End::Succeeded
            }
            Err(error) => {
                let verdict = Judge(world).classify(&error);
                let verdict = verdict.unwrap_or(Verdict::fatal());
                let is_again = verdict.is_again();
                admission.settle(&verdict);
                End::GaveUp(if is_again { StopReason::Attempts } else { StopReason::Fatal })
            }
        }
    }

    /// Makes an attempt on an upstream that has a bulkhead alone.
    pub(super) async fn limited(&self) -> End {
        let (job, dice) = (self.job, &self.dice);
        let operation = async {
            tokio::task::yield_now().await;
            job.world.timer.sleep(dice.time(28)).await;
            Ok::<_, Down>(())
        };
        let limited = operation.through(&job.world.gate, Always);
        let limited = async { limited.await.map_err(|_| Down::broken()) };
        let limited = limited.timeout(dice.time(30));
        match limited.on(&Self::host_of(job).upstream).await {
            Ok(()) => End::Succeeded,
            Err(_) => End::GaveUp(StopReason::Full),
        }
    }
}
