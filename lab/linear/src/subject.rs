use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use resile::call::Admission;
use resile::quota::Rate;
use resile::time::{ManualTimer, Timer};
use resile::{Backoff, Breaker, Budget, Bulkhead, Cooldown, Never, Quota, Upstream, Verdict};

use crate::model::{Breaker as Breaking, Model};

/// A step on a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Asks for a token, a permit, a unit or an admission.
    Take,
    /// Reports a success, or begins a hold.
    Give,
    /// Gives back what was taken, or reports a failure.
    Back,
    /// The first half of a failure on a breaker: it counts. The number tells the failures apart.
    Count(u32),
    /// The second half: the breaker opens if the count was too high.
    Open(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Yes,
    No,
    Done,
}

type Store = Upstream<ManualTimer>;

/// What a thread has taken.
#[derive(Default)]
pub(crate) struct Hands<'s> {
    tokens: u32,
    admissions: Vec<Admission<&'s Store, Never>>,
}

/// A part that threads share.
pub(crate) enum Subject {
    /// Tokens, of which a success gives half a one.
    Budget(Budget),
    /// An upstream with one part.
    Bulkhead(Store),
    Quota(Store),
    Cooldown(Store),
    Breaker(Store),
    /// A budget that looks and then takes: the checker must reject it.
    Careless(AtomicU32, u32),
}

/// The names of the subjects, in order.
pub(crate) const NAMES: [&str; 6] =
    ["budget", "bulkhead", "quota", "cooldown", "breaker", "careless twin"];

/// The place of the twin among the names.
pub(crate) const TWIN: usize = 5;

impl Subject {
    /// Makes a subject with few units, and its model.
    pub(crate) fn new(nth: usize, draw: &ManualTimer) -> (Self, Model) {
        let few = u32::try_from(draw.draw_within(0..=2)).unwrap_or(0) + 1;
        let upstream = || Upstream::new("linear").with_timer(ManualTimer::new());
        match nth {
            0 => {
                let budget = Budget::new().with_capacity(few).with_deposit(0.5);
                (Self::Budget(budget), Model::Budget { left: 2 * few, capacity: 2 * few })
            }
            1 => {
                let bulkhead = Bulkhead::new(few).with_queue(0);
                let upstream = upstream().with_bulkhead(bulkhead);
                (Self::Bulkhead(upstream), Model::Count { left: few })
            }
            2 => {
                let quota =
                    Quota::new().with_requests(Rate::per_minute(60).with_burst(u64::from(few)));
                (Self::Quota(upstream().with_quota(quota)), Model::Count { left: few })
            }
            3 => {
                let cooldown = Cooldown::new().with_jitter(0.0);
                let upstream = upstream().with_cooldown(cooldown);
                (Self::Cooldown(upstream), Model::Cooldown { holds: false })
            }
            4 => {
                let breaker = Breaker::new()
                    .with_consecutive(few)
                    .without_failure_rate()
                    .with_open_time(Backoff::fixed(Duration::from_secs(60)));
                let upstream = upstream().with_breaker(breaker);
                (Self::Breaker(upstream), Model::Breaker(Breaking::new(few)))
            }
            _ => {
                let left = AtomicU32::new(2 * few);
                (Self::Careless(left, 2 * few), Model::Budget { left: 2 * few, capacity: 2 * few })
            }
        }
    }

    /// Draws the next step of a thread. A thread gives back only what it has.
    pub(crate) fn next(&self, hands: &Hands<'_>, draw: &ManualTimer) -> Op {
        let has = hands.tokens > 0 || !hands.admissions.is_empty();
        match (self, draw.draw_within(0..=2)) {
            (Self::Cooldown(_), 0) | (Self::Budget(_) | Self::Careless(..), 1) => Op::Give,
            (Self::Breaker(_), 1) if has => Op::Give,
            (_, 2) if has => Op::Back,
            _ => Op::Take,
        }
    }

    pub(crate) fn run<'s>(&'s self, op: Op, hands: &mut Hands<'s>) -> Said {
        match (self, op) {
            (Self::Budget(budget), Op::Take) => hands.token(budget.withdraw()),
            (Self::Budget(budget), Op::Give) => {
                budget.deposit();
                Said::Done
            }
            (Self::Budget(budget), _) => {
                hands.tokens -= 1;
                budget.refund();
                Said::Done
            }
            (Self::Careless(left, _), Op::Take) => {
                let seen = left.load(Ordering::SeqCst);
                let has = seen >= 2;
                if has {
                    thread::yield_now(); // another thread looks too
                    left.store(seen - 2, Ordering::SeqCst);
                }
                hands.token(has)
            }
            (Self::Careless(left, most), op) => {
                let amount = if op == Op::Back { 2 } else { 1 };
                hands.tokens -= u32::from(op == Op::Back);
                let more = |left: u32| Some((left + amount).min(*most));
                let _ = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
                Said::Done
            }
            (Self::Cooldown(upstream), Op::Give) => {
                upstream.hold(Duration::from_secs(60));
                Said::Done
            }
            (Self::Cooldown(upstream), _) => match upstream.try_admit() {
                Ok(admission) => {
                    admission.withdraw();
                    Said::Yes
                }
                Err(_) => Said::No,
            },
            (Self::Bulkhead(of) | Self::Quota(of) | Self::Breaker(of), Op::Take) => {
                match of.try_admit() {
                    Ok(admission) => {
                        hands.admissions.push(admission);
                        Said::Yes
                    }
                    Err(_) => Said::No,
                }
            }
            (Self::Bulkhead(_) | Self::Quota(_), _) => {
                hands.admissions.pop().expect("an admission").withdraw();
                Said::Done
            }
            (Self::Breaker(_), Op::Give) => {
                hands.admissions.pop().expect("an admission").succeeded();
                Said::Done
            }
            (Self::Breaker(_), Op::Back | Op::Count(_) | Op::Open(_)) => {
                hands.admissions.pop().expect("an admission").settle(&Verdict::transient());
                Said::Done
            }
        }
    }
}

impl Hands<'_> {
    fn token(&mut self, has: bool) -> Said {
        self.tokens += u32::from(has);
        if has { Said::Yes } else { Said::No }
    }
}
