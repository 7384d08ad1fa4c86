use super::{Budget, Cause};

/// Tokens taken from a [`Budget`] for a retry that has not started yet. Dropping it gives the
/// tokens back.
#[derive(Debug)]
#[must_use = "dropping it gives the tokens back; `spend` it when the retry starts"]
pub struct Withdrawal<'a> {
    pub(super) budget: &'a Budget,
    pub(super) cause: Cause,
}

impl Withdrawal<'_> {
    /// Spends the tokens, because the retry starts.
    pub fn spend(self) {
        std::mem::forget(self);
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.budget.refund(self.cause);
    }
}
