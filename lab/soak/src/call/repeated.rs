//! Calls that repeat their attempts: retries and loops by hand.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use resile::cancel::Cancel;
use resile::{Attempt, ResilienceExt, Run, retry};

use super::{Call, Outcome};
use crate::ledger::Tokens;
use crate::operation::{Down, Job, usage_of};

impl<'w> Call<'w> {
    pub(super) async fn retry(&self, job: Job<'w>, token: impl Cancel) -> Outcome<Tokens> {
        let op = |attempt: Attempt| job.begin(attempt.number(), &self.dice);
        let target = Self::host_of(job).target(job.tokens, &self.dice);
        Self::returned(job, retry(op, self.policy(), token).on(target).await)
    }

    /// Drops some attempts in the middle and goes on.
    pub(super) async fn run(&self) -> Outcome<Tokens> {
        let (job, dice) = (self.job, &self.dice);
        let target = Self::host_of(job).target(job.tokens, dice);
        let mut run = Run::new(self.policy(), &self.token).on(target);
        loop {
            let number = run.attempts() + 1;
            let operation = async { job.begin(number, dice).await };
            let mut polls = if dice.is_one_in(10) { dice.below(4) } else { u64::MAX };
            let mut attempt = pin!(run.attempt(operation));
            let outcome = poll_fn(|cx| {
                if polls == 0 {
                    return Poll::Ready(None);
                }
                polls -= 1;
                let polled = attempt.as_mut().poll(cx).map(Some);
                if polled.is_pending() && polls == 0 {
                    cx.waker().wake_by_ref(); // it is dropped at the next poll
                }
                polled
            });
            match outcome.await.transpose()?.flatten() {
                Some(usage) => return Self::returned(job, Ok(usage)),
                None => tokio::task::yield_now().await,
            }
        }
    }

    pub(super) async fn by_hand(&self) -> Outcome<Tokens> {
        let (job, dice) = (Job { records: false, ..self.job }, &self.dice);
        let host = Self::host_of(job);
        let mut run = Run::new(self.policy(), &self.token).on(host.target(job.tokens, dice));
        loop {
            run.next().await?;
            let limit = dice.time(33);
            let operation = job.begin(run.attempts(), dice).timeout(limit).on(&host.upstream);
            match operation.await {
                Ok(usage) => {
                    if !dice.is_one_in(4) {
                        job.settle(usage);
                        run.record(usage_of(usage));
                    }
                    return Self::returned(job, Ok(run.succeeded(usage)));
                }
                Err(error) => {
                    if dice.is_one_in(8) {
                        run.progressed();
                    }
                    run.failed(error)?;
                }
            }
        }
    }

    /// Waits in place: the clock advances meanwhile.
    pub(super) fn blocking(&self) -> Outcome<Tokens> {
        let (job, dice) = (Job { records: false, ..self.job }, &self.dice);
        let target = Self::host_of(job).target(job.tokens, dice);
        let mut run = Run::new(self.policy(), &self.token).on(target);
        loop {
            run.blocking_next()?;
            job.account(run.attempts());
            if dice.is_one_in(2) {
                return Self::returned(job, Ok(run.succeeded(job.tokens)));
            }
            run.failed(Down::broken())?;
        }
    }
}
