use std::pin::Pin;
use std::task::Poll;

use super::HedgePolicy;
use super::future::{Hedge, State, delay};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::engine::{Classified, Finish};
use crate::error::GaveUp;
use crate::observe::EventKind;
use crate::policy::{AsPolicy, Attempt, Sending, StopReason};
use crate::upstream::{TargetFor, drops};
use crate::verdict::Health;

/// The finish of an attempt, and the close of the call with it.
impl<F, Fut, T, E, P, C, K, X> Hedge<F, Fut, E, P, K, X>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = HedgePolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Takes the outcome of an attempt whose future was dropped.
    ///
    /// Returns `Pending` while another attempt in flight may still succeed.
    pub(super) fn finish(
        mut self: Pin<&mut Self>,
        number: u32,
        outcome: Result<T, E>,
    ) -> Poll<Result<T, GaveUp<E>>> {
        let error = match outcome {
            Ok(value) => {
                let this = self.as_mut().project();
                *this.state = State::Done;
                if this.call.attempts() == 1 && this.pace.first().is_none() {
                    this.call.succeeded(0, 1);
                } else if this.call.attempts() == 1 {
                    this.call.learn_from(0);
                    this.call.succeeded_at(0, 1, None);
                } else {
                    self.as_mut().drop_losers(Some(number));
                    let this = self.project();
                    this.call.succeeded_at(number as usize - 1, number, None);
                }
                return Poll::Ready(Ok(value));
            }
            Err(error) => error,
        };
        self.as_mut().project().call.note_error(error);
        self.fail(number, Finish::Error)
    }

    #[cold]
    pub(super) fn fail(
        mut self: Pin<&mut Self>,
        number: u32,
        finish: Finish,
    ) -> Poll<Result<T, GaveUp<E>>> {
        let this = self.as_mut().project();
        let classified = this.call.report_failure(number as usize - 1, number, finish);
        let verdict = classified.verdict;
        if verdict.is_some_and(|verdict| {
            verdict.health() == Health::Throttling || verdict.wait().is_some()
        }) {
            this.pace.stop();
        }
        let is_over = this.first.is_none() && this.hedges.is_empty();
        if is_over || !verdict.is_some_and(|verdict| verdict.is_again()) {
            let reason = if is_over { StopReason::Attempts } else { StopReason::Fatal };
            return Poll::Ready(self.close_after(classified, reason));
        }
        Poll::Pending
    }

    pub(super) fn close_after(
        mut self: Pin<&mut Self>,
        classified: Classified,
        reason: StopReason,
    ) -> Result<T, GaveUp<E>> {
        *self.as_mut().project().state = State::Done;
        self.as_mut().drop_losers(None);
        Err(self.project().call.close_after(classified, reason))
    }

    /// Drops the attempts in flight and records their latencies.
    #[cold]
    pub(super) fn drop_losers(self: Pin<&mut Self>, won: Option<u32>) {
        let mut this = self.project();
        let first = this.first.is_some().then_some(1);
        let hedges = std::mem::take(this.hedges);
        let lost: Vec<u32> =
            first.into_iter().chain(hedges.iter().map(|joined| joined.number)).collect();
        // This call tells of each of them.
        drops(false, || {
            this.first.set(None);
            drop(hedges);
        });
        for number in &lost {
            this.call.learn_overtaken(*number as usize - 1, delay(this.call));
        }
        if let Some(number) = won {
            this.call.learn_from(number as usize - 1);
        }
        if won.is_none() && !lost.is_empty() {
            this.call.note_effect();
        }
        for number in lost {
            this.call.engine.guard.release(number as usize - 1);
            this.call.emit(EventKind::Lost { attempt: number });
        }
    }

    /// Ends the call because of the token or the deadline.
    #[cold]
    pub(super) fn close(self: Pin<&mut Self>, reason: StopReason) -> Result<T, GaveUp<E>> {
        let mut this = self.project();
        *this.state = State::Done;
        let mut slots = Vec::with_capacity(1 + this.hedges.len());
        let mut sending = Sending::NotSent;
        if this.first.is_some() {
            this.call.dropping(0, true, || this.first.set(None));
            sending = this.call.sending();
            slots.push(0);
        }
        for joined in std::mem::take(this.hedges) {
            let slot = joined.number as usize - 1;
            this.call.dropping(slot, true, || drop(joined));
            sending = sending.min(this.call.sending());
            slots.push(slot);
        }
        // One of them that may have sent the request is enough for a doubt.
        this.call.set_sending(sending);
        Err(this.call.close_cut(slots.into_iter(), reason))
    }
}
