use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;

use super::future::{RetryStream, State, StateProj};
use super::open::Open;
use super::{Part, Resumption};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::engine::Finish;
use crate::error::GaveUp;
use crate::policy::{AsPolicy, RetryPolicy, StopReason};
use crate::upstream::{Target, TargetFor};

/// The output of a poll that is ready.
type Yielded<F> = Option<Result<<F as Open>::Item, GaveUp<<F as Open>::Error>>>;

impl<F, P, C, K, X, Q, A> Stream for RetryStream<F, P, K, X, Q, A>
where
    F: Open,
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<F::Error>,
    K: Cancel,
    X: TargetFor<F::Error>,
    Q: FnMut(&F::Item) -> Part,
    A: FnMut(Option<&F::Error>) -> Resumption<F::Item>,
{
    type Item = Result<F::Item, GaveUp<F::Error>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Yielded<F>> {
        loop {
            let this = self.as_mut().project();
            if let Some(item) = this.answer.pop(&mut this.call.policy.shown) {
                return Poll::Ready(Some(Ok(item)));
            }
            let mut state = this.state.pinned();
            let polled = match state.as_mut().project() {
                StateProj::Done => return Poll::Ready(None),
                StateProj::Between => {
                    let begun = ready!(this.call.poll_between(0, None, this.pending, cx));
                    state.set(State::Done);
                    match begun {
                        Ok(attempt) => {
                            let attempt = attempt.of_stream(this.call.policy.whole);
                            state.set(State::Opening { attempt: this.open.open(attempt) });
                        }
                        Err(gave_up) => return Poll::Ready(Some(Err(self.close(gave_up)))),
                    }
                    continue;
                }
                StateProj::Opening { attempt } => {
                    let opened = this.call.poll_within(0, || attempt.poll(cx));
                    match opened {
                        Poll::Ready(Ok(stream)) => {
                            state.set(State::Reading { stream });
                            continue;
                        }
                        Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
                        Poll::Pending => Poll::Pending,
                    }
                }
                // Taking the next item starts new work. The token is therefore checked first.
                StateProj::Reading { .. } if this.call.stops_reading() => {
                    if let Some(yielded) = self.as_mut().fail(Finish::Cancelled) {
                        return Poll::Ready(Some(yielded));
                    }
                    continue;
                }
                // A sender that is never silent would otherwise exceed the limit for ever.
                StateProj::Reading { .. }
                    if this.answer.flowing && this.call.is_past(this.call.policy.whole) =>
                {
                    if let Some(yielded) = self.as_mut().fail(Finish::Deadline) {
                        return Poll::Ready(Some(yielded));
                    }
                    continue;
                }
                StateProj::Reading { stream } => this.call.poll_within(0, || stream.poll_next(cx)),
            };
            let finish = match polled {
                Poll::Pending => ready!(self.as_mut().poll_limits(cx)),
                Poll::Ready(Some(Ok(item))) => {
                    self.as_mut().take(item);
                    continue;
                }
                // A complete answer stays complete whatever follows.
                Poll::Ready(Some(Err(_)) | None) if this.call.policy.shown.is_complete => {
                    self.as_mut().succeed();
                    continue;
                }
                Poll::Ready(Some(Err(error)))
                    if this.answer.flowing
                        && this.call.is_end_of_whole(this.call.policy.whole, &error) =>
                {
                    Finish::Deadline
                }
                Poll::Ready(Some(Err(error))) => {
                    self.as_mut().project().call.note_error(error);
                    Finish::Error
                }
                Poll::Ready(None) if this.answer.rules.requires_end => Finish::Stream,
                Poll::Ready(None) => {
                    self.as_mut().succeed();
                    continue;
                }
            };
            if let Some(yielded) = self.as_mut().fail(finish) {
                return Poll::Ready(Some(yielded));
            }
        }
    }
}

impl<F, P, C, K, X, Q, A> RetryStream<F, P, K, X, Q, A>
where
    F: Open,
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<F::Error>,
    K: Cancel,
    X: TargetFor<F::Error>,
    Q: FnMut(&F::Item) -> Part,
    A: FnMut(Option<&F::Error>) -> Resumption<F::Item>,
{
    /// Stores an item. Starts to yield all stored items unless this item belongs to the preamble.
    fn take(mut self: Pin<&mut Self>, item: F::Item) {
        let mut this = self.as_mut().project();
        let part = (this.parts)(&item);
        let answer = this.answer;
        let holds = part == Part::Preamble && answer.held.len() < answer.rules.preamble_cap;
        answer.held.push_back(item);
        match part {
            Part::End => return self.succeed(),
            Part::Complete => this.call.policy.shown.is_complete = true,
            Part::Preamble | Part::Content => {}
        }
        if !answer.flowing && !holds {
            answer.flowing = true;
            this.call.policy.shown.has_begun = true;
            let leaves = this.call.asked_leaves();
            this.call.policy.shown.left.set(leaves);
            // Content has come and met the limits.
            this.pending.as_mut().drop_sleep();
            let now = this.call.lift_limits(0);
            this.call.policy.flow_since(now);
        }
    }

    /// Ends the stream with success. The items in `held` are still yielded.
    fn succeed(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.state.as_mut().pinned().set(State::Done);
        this.pending.as_mut().drop_sleep();
        this.call.policy.shown.is_complete = true;
        if !std::mem::replace(&mut this.answer.flowing, true) {
            this.call.lift_limits(0);
        }
        let attempts = this.call.attempts();
        this.call.succeeded_as_stream(0, attempts);
    }

    /// Ends a failed attempt. Returns `None` while the next attempt is awaited.
    fn fail(mut self: Pin<&mut Self>, finish: Finish) -> Yielded<F> {
        let mut this = self.as_mut().project();
        // The failed stream is dropped before the failure is reported and before the next stream is
        // opened.
        this.call.dropping(0, finish.is_cut(), || this.state.as_mut().pinned().set(State::Done));
        this.pending.as_mut().drop_sleep();
        this.answer.held.clear();
        // The failure says it now.
        this.call.policy.shown.left.clear();
        if this.answer.flowing && matches!(finish, Finish::Deadline) {
            let (whole, is_shortened) =
                (this.call.policy.whole, this.call.policy.is_whole_shortened);
            let gave_up = this.call.close_whole(0, whole, is_shortened);
            return Some(Err(self.close(gave_up)));
        }
        if matches!(finish, Finish::Deadline | Finish::Cancelled) {
            let gave_up = this.call.finish(0, finish).err()?;
            return Some(Err(self.close(gave_up)));
        }
        if std::mem::take(&mut this.answer.flowing) {
            match (this.resumption)(this.call.error_of(finish)) {
                Resumption::Fail => {
                    let gave_up = this.call.finish_last(0, finish, StopReason::Partial);
                    return Some(Err(self.close(gave_up)));
                }
                Resumption::Restart(item) => this.answer.marker = Some(item),
                Resumption::Resume => {}
            }
            let (elapsed, attempts) = (this.call.engine.elapsed(), this.call.attempts());
            this.call.policy.renewed.exclude(elapsed);
            if this.answer.rules.renews {
                this.call.policy.renewed.renew(attempts.saturating_sub(1));
            }
        }
        match this.call.finish_failed(0, finish) {
            Ok(_) => {
                this.call.policy.flow_since(None);
                this.call.policy.shown.has_begun = false;
                this.state.as_mut().pinned().set(State::Between);
                None
            }
            Err(gave_up) => Some(Err(self.close(gave_up))),
        }
    }

    /// Waits for a limit or the token to end the pending attempt.
    fn poll_limits(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Finish> {
        let this = self.project();
        if !this.answer.flowing {
            return this.call.poll_limits(0, this.pending, cx);
        }
        let whole = this.call.policy.whole;
        this.call.poll_whole(whole, this.pending, cx)
    }

    /// Ends the stream without success. Returns its error.
    #[cold]
    fn close(self: Pin<&mut Self>, gave_up: GaveUp<F::Error>) -> GaveUp<F::Error> {
        let mut this = self.project();
        this.pending.as_mut().drop_sleep();
        this.answer.drop_held();
        gave_up
    }
}

impl<F, P, K, X, Q, A> FusedStream for RetryStream<F, P, K, X, Q, A>
where
    F: Open,
    Self: Stream,
    K: Cancel,
    X: Target,
{
    fn is_terminated(&self) -> bool {
        matches!(self.state.get(), State::Done)
            && self.answer.held.is_empty()
            && self.answer.marker.is_none()
    }
}
