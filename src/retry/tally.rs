use crate::budget::{Budget, Withdrawal};

/// What a call has spent: its attempts, a token that was taken for a retry which has not begun, and whether a cooldown
/// has held it.
///
/// Invariant: `owed` is one withdrawal from `budget`, which goes back when the tally is dropped.
#[derive(Default)]
pub(crate) struct Tally<'a> {
    budget: Option<&'a Budget>,
    attempts: u32,
    owed: bool,
    held: bool,
}

impl<'a> Tally<'a> {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { budget: None, attempts: 0, owed: false, held: false }
    }

    #[inline]
    pub(crate) fn set_budget(&mut self, budget: &'a Budget) {
        if self.owed {
            self.take_back();
        }
        self.budget = Some(budget);
    }

    /// A cooldown holds the next attempt.
    pub(crate) const fn hold(&mut self) {
        self.held = true;
    }

    /// Whether a cooldown has held an attempt.
    pub(crate) const fn was_held(&self) -> bool {
        self.held
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

    /// Counts an attempt that begins, and spends what was taken for it.
    #[inline]
    pub(crate) const fn begin(&mut self) {
        self.owed = false;
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Takes the token for a retry; false if there is none to take. Free without a budget.
    #[inline]
    pub(crate) fn pay(&mut self) -> bool {
        let Some(budget) = self.budget else { return true };
        if !self.owed {
            self.owed = budget.withdraw().map(Withdrawal::spend).is_some();
        }
        self.owed
    }

    /// Gives back the token of a retry that will not begin.
    #[cold]
    #[inline(never)] // every drop of a call stays small
    pub(crate) fn take_back(&mut self) {
        if std::mem::take(&mut self.owed) {
            self.budget.map(Budget::refund);
        }
    }

    /// Counts the first attempt. Nothing is owed for it.
    #[inline]
    pub(crate) const fn begin_first(&mut self) {
        self.attempts = 1;
    }

    /// Hands the token out for the time of a wait, so that it goes back if the wait is dropped.
    pub(crate) fn lend(&mut self) -> Option<Withdrawal<'a>> {
        let owed = std::mem::take(&mut self.owed);
        self.budget.filter(|_| owed).map(Withdrawal::of)
    }

    /// Takes the token that was lent.
    pub(crate) fn restore(&mut self, lent: Option<Withdrawal<'a>>) {
        self.owed = lent.map(Withdrawal::spend).is_some();
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
        if self.owed {
            self.take_back();
        }
    }
}
