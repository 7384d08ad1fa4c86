use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::super::{Mend, Part};
use super::{RetryStream, State, StateProj};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::Observe;
use crate::policy::{Attempt, Stop};
use crate::retry::{Event, GaveUp, Named, Refusal};
use crate::time::Timer;

/// What a stream yields when it has something to say.
type Yielded<T, E> = Option<Result<T, GaveUp<E>>>;

impl<F, Fut, S, T, E, C, K, P, A, O, M> Stream for RetryStream<'_, F, Fut, S, T, E, C, K, P, A, O, M>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<S, E>>,
    S: Stream<Item = Result<T, E>>,
    C: Classify<E>,
    K: Cancel,
    P: FnMut(&T) -> Part,
    A: FnMut(&E) -> Mend<T>,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    type Item = Result<T, GaveUp<E>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Yielded<T, E>> {
        loop {
            let mut this = self.as_mut().project();
            if *this.flowing {
                if let Some(item) = this.held.pop_front() {
                    return Poll::Ready(Some(Ok(item)));
                }
            }
            let polled = match this.state.as_mut().project() {
                StateProj::Done => return Poll::Ready(None),
                StateProj::Unstarted => {
                    this.course.note_nesting();
                    match this.course.begin_next() {
                        Ok(attempt) => this.state.set(State::Opening { attempt: (this.open)(attempt) }),
                        Err(refusal) => return self.cut(refusal),
                    }
                    continue;
                }
                StateProj::Between | StateProj::Waiting => match ready!(self.as_mut().poll_between(cx)) {
                    Ok(()) => continue,
                    Err(refusal) => return self.cut(refusal),
                },
                StateProj::Opening { attempt } => {
                    let opened = {
                        let _named = Named::enter(this.course.site);
                        this.course.within(|| attempt.poll(cx))
                    };
                    match opened {
                        Poll::Ready(Ok(stream)) => {
                            this.state.set(State::Reading { stream });
                            continue;
                        }
                        Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
                        Poll::Pending => Poll::Pending,
                    }
                }
                // To ask for the next item is to start something: the token comes first.
                StateProj::Reading { .. } if this.course.token.is_cancelled() => return self.cut(Stop::Cancelled),
                StateProj::Reading { stream } => this.course.within(|| stream.poll_next(cx)),
            };
            let error = match polled {
                Poll::Pending => {
                    let stop = ready!(self.as_mut().poll_cut(cx));
                    return self.cut(stop);
                }
                Poll::Ready(Some(Ok(item))) => {
                    self.as_mut().take(item);
                    continue;
                }
                Poll::Ready(Some(Err(error))) => error,
                Poll::Ready(None) => {
                    let Some(error) = *this.cut_off else {
                        self.as_mut().succeed();
                        continue;
                    };
                    error()
                }
            };
            if let Some(yielded) = ready!(self.as_mut().fail(error, cx)) {
                return Poll::Ready(Some(yielded));
            }
        }
    }
}

impl<F, Fut, S, T, E, C, K, P, A, O, M> RetryStream<'_, F, Fut, S, T, E, C, K, P, A, O, M>
where
    F: FnMut(Attempt) -> Fut,
    C: Classify<E>,
    K: Cancel,
    P: FnMut(&T) -> Part,
    A: FnMut(&E) -> Mend<T>,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    /// Takes an item in: what is held is handed over from then on, unless this one belongs to the preamble.
    fn take(mut self: Pin<&mut Self>, item: T) {
        let mut this = self.as_mut().project();
        let part = (this.parts)(&item);
        let holds = part == Part::Preamble && this.held.len() < *this.cap;
        this.held.push_back(item);
        if part == Part::End {
            self.succeed();
        } else if !*this.flowing && !holds {
            *this.flowing = true;
            this.waits.as_mut().clear_sleep(); // content has come: the deadline was met
        }
    }

    /// The stream came to its end. What is held is handed over.
    fn succeed(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.state.set(State::Done);
        this.waits.as_mut().clear_sleep();
        *this.flowing = true;
        this.course.succeeded();
    }

    /// The attempt failed. `None` where the next one has begun or is waited for; pending where others must have their
    /// turn first.
    fn fail(self: Pin<&mut Self>, error: E, cx: &mut Context<'_>) -> Poll<Yielded<T, E>> {
        let mut this = self.project();
        // The failed stream is dropped before anybody hears of it and before the next one is opened.
        this.state.set(State::Done);
        this.held.clear();
        let mut marker = None;
        if std::mem::take(this.flowing) {
            match (this.mend)(&error) {
                Mend::Fail => return Poll::Ready(Some(Err(this.course.failed_for_good(error, Stop::Partial)))),
                Mend::Restart(item) => marker = Some(item),
                Mend::Resume => {}
            }
            this.course.forgive();
            this.waits.as_mut().clear_sleep();
        }
        let next = match this.course.failed(error) {
            Ok(next) => next,
            Err(gave_up) => {
                this.waits.as_mut().clear_sleep();
                return Poll::Ready(Some(Err(gave_up)));
            }
        };
        if next.waits() {
            let at = this.course.resumes_at(&next);
            this.waits.as_mut().sleep(|| this.course.timer.sleep_until(at));
            this.state.set(State::Waiting);
        } else if this.course.must_yield() && marker.is_none() {
            this.state.set(State::Between);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        } else {
            this.state.set(State::Between);
        }
        Poll::Ready(marker.map(Ok))
    }

    /// What may cut the attempt in flight, which is pending.
    fn poll_cut(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Stop> {
        let this = self.project();
        if *this.flowing {
            return this.waits.poll_cancelled(&this.course.token, cx).map(|()| Stop::Cancelled);
        }
        this.waits.poll_limits(this.course, cx)
    }

    /// Between two attempts: waits for the delay, then begins the next one.
    fn poll_between(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        let mut this = self.project();
        if let State::Waiting = *this.state {
            if this.waits.as_mut().poll_sleep(cx).is_pending() {
                return this.waits.poll_cancelled(&this.course.token, cx).map(|()| Err(Stop::Cancelled.into()));
            }
            this.waits.as_mut().clear_sleep();
            this.state.set(State::Between);
            // A timer may have sleeps that are over at once: as good as no delay.
            if this.course.must_yield() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let attempt = this.course.begin_later()?;
        this.state.set(State::Opening { attempt: (this.open)(attempt) });
        Poll::Ready(Ok(()))
    }

    /// Ends the stream from outside.
    #[cold]
    fn cut(self: Pin<&mut Self>, why: impl Into<Refusal>) -> Poll<Yielded<T, E>> {
        let mut this = self.project();
        this.state.set(State::Done);
        this.waits.as_mut().clear_sleep();
        this.held.clear();
        Poll::Ready(Some(Err(this.course.cut(why))))
    }
}
