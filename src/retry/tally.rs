use crate::budget::{Budget, Withdrawal};

/// What a call has spent: its attempts, and what is known of the next one.
///
/// Invariant: `Ahead::Paid` is one withdrawal from `budget`, which goes back when the tally is dropped.
pub(crate) struct Tally<'a> {
    budget: Option<&'a Budget>,
    attempts: u32,
    ahead: Ahead,
}

/// What is known of the attempt that has not begun.
///
/// A word, and not zero at first, for speed: made together with the zeros beside it by one wide store, it would be read
/// back, by the drop of a call that succeeds at once, at several times the cost.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Ahead {
    Unknown = 1,
    /// It is the first, and was held by a cooldown.
    Held,
    /// Its token was taken.
    Paid,
}

impl<'a> Tally<'a> {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { budget: None, attempts: 0, ahead: Ahead::Unknown }
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
        matches!(self.ahead, Ahead::Paid)
    }

    /// A cooldown holds the next attempt.
    pub(crate) const fn hold(&mut self) {
        if self.attempts == 0 {
            self.ahead = Ahead::Held;
        }
    }

    /// Whether a cooldown holds the first attempt.
    pub(crate) const fn is_held(&self) -> bool {
        matches!(self.ahead, Ahead::Held)
    }

    /// How many attempts were begun.
    #[inline]
    pub(crate) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How many retries the budget could pay now, if there is one.
    pub(crate) fn tokens(&self) -> Option<u32> {
        self.budget.map(Budget::available)
    }

    /// Counts the first attempt. It is free.
    #[inline]
    pub(crate) const fn begin_first(&mut self) {
        self.attempts = 1;
    }

    /// Counts an attempt that begins, and spends what was taken for it.
    #[inline]
    pub(crate) const fn begin(&mut self) {
        self.ahead = Ahead::Unknown;
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Takes the token for a retry; false if there is none to take. Free without a budget.
    #[inline]
    pub(crate) fn pay(&mut self) -> bool {
        let Some(budget) = self.budget else { return true };
        if !self.is_paid() {
            let Some(token) = budget.withdraw() else { return false };
            token.spend();
            self.ahead = Ahead::Paid;
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
        self.ahead = Ahead::Unknown;
        self.budget.map(Withdrawal::of)
    }

    /// Takes the token that was lent.
    pub(crate) fn restore(&mut self, lent: Option<Withdrawal<'a>>) {
        if let Some(token) = lent {
            token.spend();
            self.ahead = Ahead::Paid;
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
