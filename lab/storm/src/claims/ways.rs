//! The ways of a client below a limit of tokens.

use std::cell::Cell;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use resile::quota::{self, Charge, Cost, Dimension, Learning, Limit, Limits, Rate};
use resile::time::{ManualTimer, Timer};
use resile::{Never, Quota, RetryPolicy, Upstream, Verdict, retry};

use super::account::{Account, BURST, Charges, LIMIT, MAXIMUM, Tokens};
use super::sim::{drive, seconds, seeded};

const WORKERS: u64 = 64;
/// The way of a request to the provider, and of its answer.
const HOP: Duration = Duration::from_millis(50);

/// The way of a client.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// A loop without the crate that sleeps for the hint.
    Hint,
    /// A loop with that sleep and an even rate of requests, by the mean tokens of a call.
    Requests,
    /// A loop with that sleep that checks the count of the minute and adds each call at its end.
    Check,
    /// `retry` with a quota that charges the maximum and refunds nothing.
    NoRefund,
    /// `retry` with a quota that charges as the provider does.
    Quota,
    /// `retry` with that quota, which also learns the remaining tokens from each answer.
    Headers,
    /// `retry` with a quota that charges as the other provider does.
    OtherCharge,
}

impl Way {
    /// Returns the charge of the quota at this provider if the way has a quota.
    fn charge(self, provider: Charges) -> Option<Charge> {
        match (self, provider) {
            (Way::Hint | Way::Requests | Way::Check, _) => None,
            (Way::NoRefund, _) => {
                Some(Charge::ACTUAL.with_maximum_reserved(true).with_refund(false))
            }
            (Way::OtherCharge, Charges::Maximum) => Some(Charge::ACTUAL),
            (Way::OtherCharge, _) | (_, Charges::Maximum) => {
                let charge = Charge::ACTUAL.with_maximum_reserved(true);
                Some(charge.with_default_maximum(64_000).with_cache_read_weight(0.0))
            }
            (Way::Quota | Way::Headers, _) => Some(Charge::ACTUAL),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("too many tokens")]
struct TooMany {
    after: Duration,
}

fn throttled(error: &TooMany) -> Verdict {
    Verdict::throttled().after(error.after)
}

struct Scene {
    way: Way,
    timer: ManualTimer,
    account: Account,
    upstream: Upstream<ManualTimer>,
    /// The time of the next request at an even rate, and the time between two.
    next: Cell<Duration>,
    apart: Duration,
    /// The minute of the count, and its tokens.
    counted: Cell<(u64, u32)>,
}

impl Scene {
    async fn ask(&self, call: Tokens) -> Result<(), TooMany> {
        self.timer.sleep(HOP).await;
        if let Err(after) = self.account.begin(call, self.timer.now()) {
            self.timer.sleep(HOP).await;
            return Err(TooMany { after });
        }
        self.timer.sleep(call.takes()).await;
        let left = self.account.end(call, self.timer.now());
        self.timer.sleep(HOP).await;
        quota::record(call.usage());
        if self.way == Way::Headers {
            quota::learn(Limits::new().with(Dimension::Tokens, Limit::of_remaining(left)));
        }
        Ok(())
    }

    /// Waits for the next request at an even rate.
    async fn pace(&self) {
        let at = self.next.get().max(self.timer.now());
        self.next.set(at + self.apart);
        self.timer.sleep(at.saturating_sub(self.timer.now())).await;
    }

    /// Returns the count of this minute.
    fn count(&self) -> u32 {
        let minute = self.timer.now().as_secs() / 60;
        if self.counted.get().0 != minute {
            self.counted.set((minute, 0));
        }
        self.counted.get().1
    }

    /// Waits for the next minute while the count has reached the limit.
    async fn check(&self) {
        while self.count() >= LIMIT {
            let next = Duration::from_secs((self.counted.get().0 + 1) * 60);
            self.timer.sleep(next.saturating_sub(self.timer.now())).await;
        }
    }

    async fn by_hand(&self, call: Tokens) {
        loop {
            match self.way {
                Way::Requests => self.pace().await,
                Way::Check => self.check().await,
                _ => {}
            }
            match self.ask(call).await {
                Ok(()) => break,
                Err(refused) => self.timer.sleep(refused.after).await,
            }
        }
        let count = self.count();
        self.counted.set((self.counted.get().0, count + call.all()));
    }

    async fn call(&self, call: Tokens) {
        if self.upstream.quota().is_some() {
            let policy = RetryPolicy::new().with_attempts(u32::MAX).with_classifier(throttled);
            let cost = Cost::input(call.input.into()).with_max_output(MAXIMUM.into());
            let outcome =
                retry(|_| self.ask(call), &policy, Never).on(self.upstream.at_cost(cost)).await;
            assert!(outcome.is_ok(), "nothing ends a call but its success");
        } else {
            self.by_hand(call).await;
        }
    }

    async fn worker(&self, mut rng: ChaCha8Rng, until: Duration) {
        while self.timer.now() < until {
            self.call(Tokens::draw(&mut rng)).await;
        }
    }
}

/// Runs the workers for `until` seconds and returns the account. `tokens` is the mean of a call.
pub(crate) fn run(way: Way, charges: Charges, tokens: f64, until: u64, seed: u64) -> Account {
    let timer = ManualTimer::with_seed(seed);
    let upstream = Upstream::new("provider").with_timer(timer.clone()).with_observer(&());
    let rate = Rate::per_minute(u64::from(LIMIT)).with_burst(u64::from(BURST));
    let scene = Scene {
        way,
        account: Account::new(charges, until),
        upstream: match way.charge(charges) {
            Some(charge) => {
                let quota = Quota::new().with_tokens(rate).with_charge(charge);
                // A quota that learns would hide what the wrong charge costs.
                let is_wrong = matches!(way, Way::OtherCharge);
                let learning = if is_wrong { Learning::Off } else { Learning::Lower };
                upstream.with_quota(quota.with_learning(learning))
            }
            None => upstream,
        },
        next: Cell::default(),
        apart: seconds(tokens * 60.0 / f64::from(LIMIT)),
        counted: Cell::default(),
        timer,
    };
    let worker = |number| scene.worker(seeded(seed * WORKERS + number), Duration::from_secs(until));
    drive(&scene.timer, (0..WORKERS).map(worker));
    scene.account
}
