use super::payment::Payment;
use super::progress::Refuser;
use super::strain::Limited;
use super::{Endpoint, Guard, TellFailure, limits};
use crate::budget::{Budget, Cause};
use crate::observe::{CallKind, HeldBy};
use crate::time::Timer;

/// The payments of a call to the budget of its target.
impl<X: Endpoint, const N: usize> Guard<X, N> {
    fn budget(&self) -> Option<&Budget> {
        self.target.parts()?.budget.as_ref()
    }

    /// Sets the cause of the next attempt. It decides about the cost.
    #[inline]
    pub(crate) const fn set_cause(&mut self, cause: Cause) {
        // Held tokens keep the cause by which they were taken.
        if !self.progress.payment.is_held() {
            self.progress.payment = Payment::due(cause);
        }
    }

    /// Takes the cost of the next attempt from the budget unless the call already holds it. Returns
    /// false if the budget has too few tokens left. Without a budget every attempt is free.
    ///
    /// `engine/finish.rs` pays before the delay, `engine/begin.rs` after a dropped attempt, and a hedge as
    /// it joins. Each of them then notes what is [unpaid](Self::note_unpaid).
    #[inline]
    pub(crate) fn pay(&mut self) -> bool {
        let mut payment = self.progress.payment;
        if !X::ALONE && !payment.is_held() {
            if payment.is_spent() {
                // The attempt was dropped or panicked, so nothing is known about its cause.
                payment = Payment::due(Cause::Failed);
            }
            let Some(budget) = self.budget() else { return true };
            if !budget.take(payment.cause()) {
                self.progress.set_refuser(Some(Refuser::Budget));
                return false;
            }
            self.progress.payment = payment.held();
        }
        true
    }

    /// Notes that the budget does not pay for an attempt. `failure` is that of the attempt before, if the
    /// attempt is a retry and the failure is known.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_unpaid(&self, failure: Option<TellFailure<'_>>)
    where
        X: Endpoint<Timer: Timer>,
    {
        limits::note_with(&self.target, HeldBy::Budget, None, Limited::Refused, failure);
    }

    /// Spends the held tokens because the attempt begins.
    #[inline]
    pub(crate) const fn spend(&mut self) {
        self.progress.payment = self.progress.payment.begun();
    }

    /// Gives back the tokens of an attempt that will not begin.
    #[cold]
    #[inline(never)]
    pub(crate) fn release_payment(&mut self) {
        let payment = self.progress.payment;
        if payment.is_held() {
            self.progress.payment = payment.released();
            if let Some(budget) = self.budget() {
                budget.refund_for(payment.cause());
            }
        }
    }

    /// Records a success in the budget. A hedge never gives its cost back: nothing would then limit
    /// the hedges of an upstream that answers.
    #[inline]
    pub(super) fn deposit(&self) {
        let payment = self.progress.payment;
        let is_retry = payment.is_spent() && self.progress.kind() != CallKind::Hedge;
        match self.budget() {
            Some(budget) if is_retry => budget.deposit_for(payment.cause()),
            Some(budget) => budget.deposit(),
            None => {}
        }
    }
}
