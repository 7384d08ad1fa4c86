//! An upstream under test, with counts of everything that happens on it.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use resile::Upstream;
use resile::observe::{Event, EventKind};
use resile::quota::Cost;
use resile::time::ManualTimer;
use resile::upstream::AtCost;

use crate::dice::Dice;
use crate::fuse::{Fuse, Injected};
use crate::ledger::{Ledger, Tokens};

/// The share of events at which the observer panics is one in this number.
const OBSERVER_PANICS: u64 = 20_000;

/// The counts of an upstream.
#[derive(Default)]
pub(crate) struct Book {
    /// The calls that ended, as events say it.
    pub(crate) ends: AtomicU64,
    /// The calls that succeeded, as events say it.
    pub(crate) successes: AtomicU64,
    /// The calls that returned a success.
    pub(crate) returned: AtomicU64,
    pub(crate) transitions: AtomicU64,
    /// The ends of a strain at which the observer panicked. Such an end can follow the deposit of a
    /// success, whose own event is then never emitted.
    pub(crate) lost_reliefs: AtomicU64,
    /// The attempts that began, and those among them that needed a token of the budget.
    pub(crate) begun: AtomicU64,
    pub(crate) paid: AtomicU64,
    pub(crate) operations: AtomicU64,
    pub(crate) dropped_operations: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// The requirements on the level of a quota.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exactness {
    /// The level is what the charges say.
    Exact,
    /// The level is at most that, because refusals and headers lower it.
    AtMost,
}

/// An upstream under test.
pub(crate) struct Host {
    pub(crate) upstream: Upstream<ManualTimer>,
    pub(crate) book: Arc<Book>,
    pub(crate) ledger: Option<(Ledger, Exactness)>,
    pub(crate) is_observed: bool,
    /// The tokens of the budget after the last check, and the paid attempts, the successes and the lost
    /// ends of strains then.
    pub(crate) base: [AtomicU64; 4],
    /// The tokens that the budget should have after each check.
    pub(crate) wanted: u32,
}

impl Host {
    /// Creates a host. Its budget has `wanted` tokens after each check. Without a fuse nothing
    /// observes it.
    pub(crate) fn new(
        upstream: Upstream<ManualTimer>,
        wanted: u32,
        fuse: Option<&Arc<Fuse>>,
        ledger: Option<(Ledger, Exactness)>,
    ) -> Self {
        let book = Arc::new(Book::default());
        let upstream = match fuse {
            None => upstream.with_observer(&()),
            Some(fuse) => {
                let (book, fuse) = (Arc::clone(&book), Arc::clone(fuse));
                upstream.with_shared_observer(move |event: &Event<'_>| note(&book, &fuse, event))
            }
        };
        let base = [const { AtomicU64::new(0) }; 4];
        let host = Self { upstream, book, ledger, is_observed: fuse.is_some(), base, wanted };
        host.refill();
        host
    }

    /// Returns the upstream as the target of a call with this cost.
    pub(crate) fn target(
        &self,
        tokens: Tokens,
        dice: &Dice,
    ) -> AtCost<'static, &Upstream<ManualTimer>> {
        let [input, output] = tokens.map(u64::from);
        let cost = Cost::input(input).with_max_output(output);
        let priority = dice.of(&[0, 0, 1, 7, u8::MAX]);
        AtCost::new(&self.upstream, cost).with_priority(priority).with_group(dice.below(5))
    }

    /// Counts the successes that filled the budget.
    pub(crate) fn deposits(&self) -> u64 {
        let Book { successes, returned, .. } = &*self.book;
        if self.is_observed { successes.load(Relaxed) } else { returned.load(Relaxed) }
    }

    /// Brings the budget to its wanted tokens, and begins new sums.
    pub(crate) fn refill(&self) {
        let Some(budget) = self.upstream.budget() else { return };
        while budget.available() > self.wanted {
            let _ = budget.withdraw();
        }
        while budget.available() < self.wanted {
            budget.deposit();
        }
        let [paid, lost] = [&self.book.paid, &self.book.lost_reliefs].map(|it| it.load(Relaxed));
        let now = [u64::from(budget.available()), paid, self.deposits(), lost];
        self.base.iter().zip(now).for_each(|(base, now)| base.store(now, Relaxed));
    }
}

fn note(book: &Book, fuse: &Fuse, event: &Event<'_>) {
    match event.kind {
        EventKind::Succeeded { .. } => {
            count(&book.ends);
            count(&book.successes);
        }
        EventKind::GaveUp { .. } => count(&book.ends),
        EventKind::Breaker { .. } => count(&book.transitions),
        _ => {}
    }
    if fuse.blows(OBSERVER_PANICS) {
        if matches!(event.kind, EventKind::Relieved { .. }) {
            count(&book.lost_reliefs);
        }
        resume_unwind(Box::new(Injected));
    }
}
