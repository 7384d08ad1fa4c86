use crate::budget::{Budget, Withdrawal};

/// What a call has spent: its attempts, and what is known of the next one.
///
/// Invariant: `PAID` is one withdrawal from `budget`, which goes back when the tally is dropped.
pub(crate) struct Tally<'a> {
    budget: Option<&'a Budget>,
    /// The number of attempts begun, and above it what is known of the next. One word, and never zero: next to a zero
    /// `budget` it would be written together with it, and whoever then reads one of the two waits for both.
    spent: u64,
}

/// The first attempt has not begun.
const FIRST: u64 = 1 << 32;
/// The first attempt was held by a cooldown.
const HELD: u64 = 1 << 33;
/// A token was taken for the next attempt.
const PAID: u64 = 1 << 34;

impl<'a> Tally<'a> {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { budget: None, spent: FIRST }
    }

    #[inline]
    pub(crate) fn set_budget(&mut self, budget: &'a Budget) {
        if self.is_paid() {
            self.take_back();
        }
        self.budget = Some(budget);
    }

    #[inline]
    const fn is_paid(&self) -> bool {
        self.spent & PAID != 0
    }

    /// A cooldown holds the next attempt.
    pub(crate) const fn hold(&mut self) {
        if self.attempts() == 0 {
            self.spent |= HELD;
        }
    }

    /// Whether a cooldown holds the first attempt.
    pub(crate) const fn is_held(&self) -> bool {
        self.spent & HELD != 0
    }

    /// How many attempts were begun.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub(crate) const fn attempts(&self) -> u32 {
        self.spent as u32
    }

    /// How many retries the budget could pay now, if there is one.
    pub(crate) fn tokens(&self) -> Option<u32> {
        self.budget.map(Budget::available)
    }

    /// Counts the first attempt. It is free.
    #[inline]
    pub(crate) const fn begin_first(&mut self) {
        self.spent = 1;
    }

    /// Counts an attempt that begins, and spends what was taken for it.
    #[inline]
    pub(crate) const fn begin(&mut self) {
        self.spent = self.attempts().saturating_add(1) as u64;
    }

    /// Takes the token for a retry; false if there is none to take. Free without a budget.
    #[inline]
    pub(crate) fn pay(&mut self) -> bool {
        let Some(budget) = self.budget else { return true };
        if !self.is_paid() {
            let Some(token) = budget.withdraw() else { return false };
            token.spend();
            self.spent |= PAID;
        }
        true
    }

    /// Gives back the token of a retry that will not begin.
    #[cold]
    #[inline(never)] // every drop of a call stays small
    pub(crate) fn take_back(&mut self) {
        drop(self.lend());
    }

    /// Hands the token out for the time of a wait, so that it goes back if the wait is dropped.
    pub(crate) fn lend(&mut self) -> Option<Withdrawal<'a>> {
        if !self.is_paid() {
            return None;
        }
        self.spent &= !PAID;
        self.budget.map(Withdrawal::of)
    }

    /// Takes the token that was lent.
    pub(crate) fn restore(&mut self, lent: Option<Withdrawal<'a>>) {
        if let Some(token) = lent {
            token.spend();
            self.spent |= PAID;
        }
    }

    /// The call succeeded.
    #[inline]
    pub(crate) fn deposit(&self) {
        if let Some(budget) = self.budget {
            budget.deposit();
        }
    }
}

impl Drop for Tally<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_paid() {
            self.take_back();
        }
    }
}
