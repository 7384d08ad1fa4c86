//! A random call on random upstreams, in every way that the crate has.

mod hedged;
mod nested;
mod repeated;
mod single;
mod streamed;

use std::pin::Pin;
use std::time::Duration;

use resile::{Backoff, Drain, GaveUp, Jitter, RetryPolicy, StopReason};
use tokio_util::sync::CancellationToken;

use crate::dice::Dice;
use crate::host::{Host, count};
use crate::operation::{Down, Job, Judge};
use crate::world::{HOSTS, OUTER, World};

/// The end of a call that was not dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Succeeded,
    GaveUp(StopReason),
    /// The caller dropped or withdrew its admission.
    Left,
}

/// The ways to make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Retry,
    Run,
    ByHand,
    Blocking,
    Hedge,
    Stream,
    Call,
    Admit,
    TryAdmit,
    Limited,
    Nested,
    RetriedHedge,
    Fallback,
}

pub(crate) const WAYS: [Way; 13] = [
    Way::Retry,
    Way::Run,
    Way::ByHand,
    Way::Blocking,
    Way::Hedge,
    Way::Stream,
    Way::Call,
    Way::Admit,
    Way::TryAdmit,
    Way::Limited,
    Way::Nested,
    Way::RetriedHedge,
    Way::Fallback,
];

impl Way {
    /// Returns whether the call ends with exactly one event on its host.
    pub(crate) const fn has_one_end(self) -> bool {
        !matches!(self, Self::Limited | Self::Nested | Self::RetriedHedge | Self::Fallback)
    }
}

/// A call that has not begun.
pub(crate) struct Call<'w> {
    pub(crate) way: Way,
    job: Job<'w>,
    dice: Dice,
    token: CancellationToken,
}

type Outcome<T> = Result<T, GaveUp<Down>>;

impl<'w> Call<'w> {
    /// Draws call `number` of a run.
    pub(crate) fn new(world: &'w World, number: u64, token: CancellationToken) -> Self {
        let dice = Dice::new(world.seed, number);
        let way = dice.of(&WAYS);
        let host = usize::try_from(dice.below(HOSTS as u64)).unwrap_or_default();
        let host = if way == Way::Nested || way == Way::RetriedHedge { host % OUTER } else { host };
        // A few costs are larger than a burst.
        let most = if dice.is_one_in(500) { 9_000 } else { 250 };
        let tokens = [(); 2].map(|()| u32::try_from(1 + dice.below(most)).unwrap_or(1));
        Self { way, job: Job { world, host, tokens, records: true }, dice, token }
    }

    /// Returns the host that sees the call.
    pub(crate) fn host(&self) -> usize {
        self.job.host
    }

    /// Makes the call.
    pub(crate) async fn make(self) -> End {
        let (dice, job) = (&self.dice, self.job);
        let token = &self.token;
        let outcome = match self.way {
            Way::Retry if dice.is_one_in(2) => self.retry(job, Drain(token)).await.map(drop),
            Way::Retry => self.retry(job, token).await.map(drop),
            Way::Run => self.run().await.map(drop),
            Way::ByHand => self.by_hand().await.map(drop),
            Way::Blocking => self.blocking().map(drop),
            Way::Hedge => self.hedge(job).await,
            Way::Stream => self.stream().await,
            Way::Call => self.call().await,
            Way::Admit => return self.admit().await,
            Way::TryAdmit => return self.try_admit(),
            Way::Limited => return self.limited().await,
            Way::Nested => self.nested().await,
            Way::RetriedHedge => self.retried_hedge().await,
            Way::Fallback => self.fallback().await,
        };
        end_of(outcome)
    }

    fn job_at(&self, host: usize) -> Job<'w> {
        Job { host, ..self.job }
    }

    /// Counts the success of a call on its host.
    fn returned<T>(job: Job<'w>, outcome: Outcome<T>) -> Outcome<T> {
        if outcome.is_ok() {
            count(&job.world.hosts[job.host].book.returned);
        }
        outcome
    }

    fn host_of(job: Job<'w>) -> &'w Host {
        &job.world.hosts[job.host]
    }

    /// Draws a limit on a whole call.
    fn total(&self) -> Duration {
        self.dice.of(&[1, 300, 2_000, 20_000, 100_000].map(Duration::from_millis))
    }

    fn policy(&self) -> RetryPolicy<Judge<'w>> {
        let dice = &self.dice;
        let millis = Duration::from_millis;
        let backoff = dice.of(&[
            Backoff::none(),
            Backoff::exponential(millis(10)),
            Backoff::fixed(millis(50)),
            Backoff::fibonacci(millis(3)).with_jitter(Jitter::Full),
            Backoff::linear(millis(20)).with_jitter(Jitter::Proportional(0.5)),
            Backoff::exponential(millis(5)).with_jitter(Jitter::Decorrelated),
        ]);
        let policy = RetryPolicy::new()
            .with_attempts(dice.of(&[1, 2, 3, 5, 40]))
            .with_backoff(backoff)
            .with_total_timeout(self.total())
            .with_classifier(Judge(self.job.world));
        let policy = match dice.below(4) {
            0 => policy.with_attempt_timeout(dice.time(32)),
            1 => policy.with_learned_attempt_timeout(),
            2 => policy.with_attempt_timeout(dice.time(34)),
            _ => policy,
        };
        if dice.is_one_in(4) { policy.with_hint_cap(millis(500)) } else { policy }
    }
}

fn end_of(outcome: Outcome<()>) -> End {
    match outcome {
        Ok(()) => End::Succeeded,
        Err(gave_up) => End::GaveUp(gave_up.reason()),
    }
}

/// A call in flight.
pub(crate) type Making<'w> = Pin<Box<dyn Future<Output = End> + 'w>>;
