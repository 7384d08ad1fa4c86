//! The operation of an attempt, with random faults, and its classification.

use std::cell::Cell;
use std::fmt;
use std::panic::resume_unwind;
use std::time::Duration;

use futures_util::future::pending;
use resile::classify::Cut;
use resile::quota::{self, Dimension, Limit, Limits, Usage};
use resile::time::Timer;
use resile::timeout::Elapsed;
use resile::{Classify, GaveUp, Verdict};

use crate::dice::Dice;
use crate::fuse::Injected;
use crate::host::{Book, Exactness, count};
use crate::ledger::Tokens;
use crate::world::World;

/// The share of passages at which a classifier or a function that makes attempts panics.
const PANICS: u64 = 2_000;

/// The error of an operation.
#[derive(Debug)]
pub(crate) struct Down {
    word: Word,
    /// The host and the reserved tokens, if a refusal gives them back.
    receipt: Cell<Option<(usize, Tokens)>>,
}

#[derive(Clone, Copy, Debug)]
enum Word {
    Transient,
    Throttled(Duration),
    Unsure,
    Fatal,
    Unknown,
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.word)
    }
}

impl std::error::Error for Down {}

impl From<Elapsed> for Down {
    fn from(_: Elapsed) -> Self {
        Self::new(Word::Transient)
    }
}

impl Down {
    const fn new(word: Word) -> Self {
        Self { word, receipt: Cell::new(None) }
    }

    /// Creates the error of a stream that broke off.
    pub(crate) const fn broken() -> Self {
        Self::new(Word::Transient)
    }
}

/// The classifier of all calls.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'w>(pub(crate) &'w World);

impl Classify<Down> for Judge<'_> {
    fn classify(&self, down: &Down) -> Option<Verdict> {
        self.0.fuse.pass(PANICS);
        Some(match down.word {
            Word::Transient => Verdict::transient(),
            Word::Throttled(hint) => {
                let receipt = down.receipt.take();
                let host = receipt.map(|(host, tokens)| (&self.0.hosts[host], tokens));
                let ledger = host.and_then(|(host, tokens)| Some((host.ledger.as_ref()?, tokens)));
                match ledger {
                    Some(((ledger, Exactness::Exact), tokens)) => {
                        ledger.refund(self.0.now(), tokens);
                        Verdict::overloaded().after(hint)
                    }
                    Some(((ledger, Exactness::AtMost), tokens)) => {
                        ledger.refund(self.0.now(), tokens);
                        Verdict::throttled().after(hint)
                    }
                    // An error that is classified again, or a usage that was charged.
                    None => Verdict::overloaded().after(hint),
                }
            }
            Word::Unsure => Verdict::transient().with_health(resile::Health::Unknown),
            Word::Fatal => Verdict::fatal(),
            Word::Unknown => return None,
        })
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(Verdict::transient())
    }
}

/// The classifier of calls around other calls.
impl Classify<GaveUp<Down>> for Judge<'_> {
    fn classify(&self, gave_up: &GaveUp<Down>) -> Option<Verdict> {
        self.0.fuse.pass(PANICS);
        gave_up.verdict().or(Some(Verdict::transient()))
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(Verdict::transient())
    }
}

/// Counts an operation until it is dropped.
struct Running<'w>(&'w Book);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        count(&self.0.dropped_operations);
    }
}

/// One attempt at a host.
#[derive(Clone, Copy)]
pub(crate) struct Job<'w> {
    pub(crate) world: &'w World,
    pub(crate) host: usize,
    pub(crate) tokens: Tokens,
    /// False if the caller reports the usage by hand.
    pub(crate) records: bool,
}

impl<'w> Job<'w> {
    /// Counts an attempt that begins now.
    pub(crate) fn account(&self, number: u32) {
        let host = &self.world.hosts[self.host];
        count(&host.book.begun);
        if number > 1 {
            count(&host.book.paid);
        }
        if let Some((ledger, _)) = &host.ledger {
            ledger.take(self.world.now(), self.tokens);
        }
    }

    /// Begins attempt `number`, and returns the rest of its work.
    pub(crate) fn begin(
        self,
        number: u32,
        dice: &Dice,
    ) -> impl Future<Output = Result<Tokens, Down>> + use<'w> {
        self.account(number);
        self.world.fuse.pass(PANICS);
        let book = &self.world.hosts[self.host].book;
        count(&book.operations);
        let (running, dice) = (Running(book), Dice::new(dice.next(), u64::from(number)));
        async move {
            let _running = running;
            self.work(&dice).await
        }
    }

    async fn work(&self, dice: &Dice) -> Result<Tokens, Down> {
        for _ in 0..dice.below(3) {
            tokio::task::yield_now().await;
        }
        match dice.below(100) {
            0..25 => self.world.timer.sleep(dice.time(27)).await,
            25..30 => self.world.timer.sleep(dice.time(34)).await,
            30..32 => pending().await,
            32 if dice.is_one_in(8) => resume_unwind(Box::new(Injected)),
            _ => {}
        }
        let good = if self.world.is_down(self.host) { 10 } else { 85 };
        if dice.below(100) < good {
            let usage = self.usage(dice);
            if self.records && !dice.is_one_in(10) {
                self.settle(usage);
                quota::record(usage_of(usage));
            }
            self.learn(dice);
            return Ok(usage);
        }
        let word = match dice.below(20) {
            0..3 => Word::Throttled(dice.time(30)),
            3 => Word::Unsure,
            4..6 => Word::Fatal,
            6 => Word::Unknown,
            _ => Word::Transient,
        };
        let down = Down::new(word);
        if self.records && dice.is_one_in(4) {
            let usage = self.usage(dice);
            self.settle(usage);
            quota::record(usage_of(usage));
        } else {
            down.receipt.set(Some((self.host, self.tokens)));
        }
        self.learn(dice);
        Err(down)
    }

    /// Draws the tokens that the provider charges. They may be more than were reserved.
    fn usage(&self, dice: &Dice) -> Tokens {
        self.tokens.map(|tokens| {
            u32::try_from(dice.below(u64::from(tokens) * 5 / 4 + 1)).unwrap_or_default()
        })
    }

    /// Charges a usage that is about to be reported.
    pub(crate) fn settle(&self, usage: Tokens) {
        if let Some((ledger, _)) = &self.world.hosts[self.host].ledger {
            ledger.settle(self.world.now(), self.tokens, usage);
        }
    }

    /// Reports limits of the provider at hosts whose level may be lower than the charges say.
    fn learn(&self, dice: &Dice) {
        let ledger = &self.world.hosts[self.host].ledger;
        if matches!(ledger, Some((_, Exactness::AtMost))) && self.records && dice.is_one_in(20) {
            let limit = Limit::of_remaining(dice.below(4_000));
            quota::learn(Limits::new().with(Dimension::Tokens, limit));
        }
    }
}

/// Returns the usage for the crate.
pub(crate) fn usage_of([input, output]: Tokens) -> Usage {
    Usage::new().with_input(input.into()).with_output(output.into())
}
