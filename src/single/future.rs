use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::rules::OneAttempt;
use crate::call::{CallState, Ended, GaveUp, Pending, PendingOf};
use crate::cancel::Never;
use crate::classify::Classify;
use crate::observe::CallKind;
use crate::policy::StopReason;
use crate::upstream::TargetFor;

pin_project! {
    /// The future of [`Upstream::call`](crate::Upstream::call).
    pub(super) struct Single<F, E, C, X>
    where
        X: TargetFor<E>,
    {
        // `None` after its end. Declared before `call`: it drops before the permit is released.
        #[pin]
        future: Option<F>,
        call: CallState<E, OneAttempt<C>, Never, X>,
        has_begun: bool,
        #[pin]
        pending: PendingOf<X, Never>,
    }
}

impl<F, E, C, X: TargetFor<E>> Single<F, E, C, X> {
    #[track_caller]
    pub(super) fn new(target: X, future: F, classifier: C) -> Self {
        let call = CallState::new(CallKind::Single, OneAttempt(classifier), Never).on(target);
        Self { call, has_begun: false, future: Some(future), pending: Pending::none() }
    }
}

impl<F, T, E, C, X> Future for Single<F, E, C, X>
where
    F: Future<Output = Result<T, E>>,
    C: Classify<E>,
    X: TargetFor<E>,
{
    type Output = Result<T, GaveUp<E>>;

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the part before `poll_on` is short, and most attempts need only that part"
    )]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        // Most attempts end here. No observer counts the call, so no `Polled` guard is needed.
        if !*this.has_begun && this.call.begin_first(0).is_some() {
            *this.has_begun = true;
            let future = this
                .future
                .as_mut()
                .as_pin_mut()
                .expect("`Upstream::call` polled after completion");
            let polled = {
                let _lending = this.call.engine.guard.lend(0);
                future.poll(cx)
            };
            let Poll::Ready(outcome) = polled else { return self.poll_in_flight(cx) };
            this.future.set(None);
            return Poll::Ready(match outcome {
                Ok(value) => {
                    this.call.succeeded_at_once(0);
                    Ok(value)
                }
                Err(error) => {
                    this.call.note_error(error);
                    Err(this.call.failed_for_good(0, Ended::Error, StopReason::Attempts))
                }
            });
        }
        self.poll_on(cx)
    }
}

impl<F, T, E, C, X> Single<F, E, C, X>
where
    F: Future<Output = Result<T, E>>,
    C: Classify<E>,
    X: TargetFor<E>,
{
    /// Polls an attempt that needs a full admission, or that was pending.
    #[inline(never)]
    fn poll_on(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        let mut this = self.project();
        if !*this.has_begun {
            let begun = ready!(this.call.poll_between(0, this.pending.as_mut(), cx));
            if let Err(gave_up) = begun {
                this.future.set(None);
                return Poll::Ready(Err(gave_up));
            }
            *this.has_begun = true;
        }
        let future =
            this.future.as_mut().as_pin_mut().expect("`Upstream::call` polled after completion");
        let outcome = ready!(this.call.poll_attempt(0, future, this.pending, cx));
        this.call.dropping(0, || this.future.set(None));
        Poll::Ready(match outcome {
            Ok(value) => {
                this.call.succeeded(0, 1);
                Ok(value)
            }
            Err(ended) => Err(Self::end(this.call, ended)),
        })
    }

    /// Polls the limits after the first poll left the attempt pending.
    #[inline(never)]
    fn poll_in_flight(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, GaveUp<E>>> {
        let mut this = self.project();
        let ended = ready!(this.call.poll_limits(0, this.pending, cx));
        this.call.dropping(0, || this.future.set(None));
        Poll::Ready(Err(Self::end(this.call, ended)))
    }

    #[cold]
    fn end(call: &mut CallState<E, OneAttempt<C>, Never, X>, ended: Ended) -> GaveUp<E> {
        match ended {
            Ended::Deadline => call.give_up(StopReason::Deadline, None),
            Ended::Cancelled => call.give_up(StopReason::Cancelled, None),
            ended => call.failed_for_good(0, ended, StopReason::Attempts),
        }
    }
}
