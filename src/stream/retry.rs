use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;

use super::{Part, Resumption};
use crate::call::{CallState, Ended, GaveUp, Pending, PendingOf, Renewed};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::CallKind;
use crate::policy::{AsPolicy, Attempt, RetryPolicy, StopReason};
use crate::upstream::{NoUpstream, Target, TargetFor};

pin_project! {
    /// A stream that is opened again under its policy. Made by
    /// [`retry_stream`](crate::retry_stream()).
    ///
    /// An error is the last item. A poll after the end returns `None` again.
    #[must_use = "streams do nothing unless polled"]
    pub struct RetryStream<F, Fut, S, T, E, P, K, X = NoUpstream, Q = fn(&T) -> Part, A = fn(Option<&E>) -> Resumption<T>>
    where
        K: Cancel,
        X: Target,
    {
        open: F,
        parts: Q,
        resumption: A,
        // Declared before `call`: the stream is dropped before its permits are released.
        #[pin]
        state: State<Fut, S>,
        call: CallState<E, Renewed<P>, K, X>,
        // The wait for the limits until content comes.
        #[pin]
        pending: PendingOf<X, K>,
        // Invariant: if not `flowing`, the preamble of this attempt. Otherwise, items to yield
        // before the next item of the stream.
        held: VecDeque<T>,
        rules: Rules,
        // Whether content has come since the consumer's stream was last opened.
        flowing: bool,
        // Whether the item that completes the answer has come.
        complete: bool,
    }
}

/// The rules of the stream, set by the caller.
#[derive(Clone, Copy)]
struct Rules {
    preamble_cap: usize,
    requires_end: bool,
    renews: bool,
}

pin_project! {
    #[project = StateProj]
    enum State<Fut, S> {
        Unstarted,
        // Waiting for the start of the next attempt.
        Between,
        Opening { #[pin] attempt: Fut },
        Reading { #[pin] stream: S },
        Done,
    }
}

const PREAMBLE_CAP: usize = 64;

impl<F, Fut, S, T, E, P, K: Cancel> RetryStream<F, Fut, S, T, E, P, K> {
    #[inline]
    #[track_caller]
    pub(super) fn new(open: F, policy: P, token: K) -> Self {
        Self {
            open,
            parts: |_| Part::Content,
            resumption: |_| Resumption::Fail,
            call: CallState::new(CallKind::Stream, Renewed::new(policy), token),
            state: State::Unstarted,
            pending: Pending::none(),
            held: VecDeque::new(),
            rules: Rules { preamble_cap: PREAMBLE_CAP, requires_end: false, renews: false },
            flowing: false,
            complete: false,
        }
    }
}

impl<F, Fut, S, T, E, P, K: Cancel, Q, A> RetryStream<F, Fut, S, T, E, P, K, NoUpstream, Q, A> {
    /// Assigns the stream to an [`Upstream`](crate::Upstream) shared with other calls, or to a
    /// name.
    ///
    /// Call this method once, before the first poll. Each opening of the stream is one attempt. The
    /// attempt ends with the stream. An error in mid-stream counts like an error of `open`.
    pub fn on<Y: TargetFor<E>>(self, target: Y) -> RetryStream<F, Fut, S, T, E, P, K, Y, Q, A> {
        let Self { open, parts, resumption, call, held, rules, flowing, complete, .. } = self;
        let (call, state, pending) = (call.on(target), State::Unstarted, Pending::none());
        RetryStream {
            open,
            parts,
            resumption,
            state,
            call,
            pending,
            held,
            rules,
            flowing,
            complete,
        }
    }
}

/// Settings. Set them before the first poll.
impl<F, Fut, S, T, E, P, K: Cancel, X: Target, Q, A> RetryStream<F, Fut, S, T, E, P, K, X, Q, A> {
    /// Sets the function that assigns each item to a part. By default, every item is content.
    pub fn with_parts<R>(self, parts: R) -> RetryStream<F, Fut, S, T, E, P, K, X, R, A>
    where
        R: FnMut(&T) -> Part,
    {
        let Self {
            open,
            parts: _,
            resumption,
            state,
            call,
            pending,
            held,
            rules,
            flowing,
            complete,
        } = self;
        RetryStream {
            open,
            parts,
            resumption,
            state,
            call,
            pending,
            held,
            rules,
            flowing,
            complete,
        }
    }

    /// Sets the function that decides how to continue after content. By default, the stream fails.
    ///
    /// The function gets the error, or `None` if the stream was cut. It decides only about items
    /// already yielded. The policy must still allow another attempt and the request must be
    /// repeatable.
    pub fn with_resumption<B>(self, resumption: B) -> RetryStream<F, Fut, S, T, E, P, K, X, Q, B>
    where
        B: FnMut(Option<&E>) -> Resumption<T>,
    {
        let Self {
            open,
            parts,
            resumption: _,
            state,
            call,
            pending,
            held,
            rules,
            flowing,
            complete,
        } = self;
        RetryStream {
            open,
            parts,
            resumption,
            state,
            call,
            pending,
            held,
            rules,
            flowing,
            complete,
        }
    }

    /// Treats an end without [`Part::End`] or [`Part::Complete`] as
    /// [`Cut::Stream`](crate::Cut::Stream).
    pub fn with_required_end(mut self) -> Self {
        self.rules.requires_end = true;
        self
    }

    /// Sets the number of preamble items to hold back. The next item then counts as content. The
    /// default is 64.
    pub fn with_preamble_cap(mut self, items: usize) -> Self {
        self.rules.preamble_cap = items;
        self
    }

    /// Restarts the count of attempts and the growth of delays when a stream fails after content.
    ///
    /// Use it for streams that live long and break now and then.
    pub fn with_attempts_renewed(mut self) -> Self {
        self.rules.renews = true;
        self
    }
}

/// The output of a poll that is ready.
type Yielded<T, E> = Option<Result<T, GaveUp<E>>>;

impl<F, Fut, S, T, E, P, C, K, X, Q, A> Stream for RetryStream<F, Fut, S, T, E, P, K, X, Q, A>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<S, E>>,
    S: Stream<Item = Result<T, E>>,
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
    Q: FnMut(&T) -> Part,
    A: FnMut(Option<&E>) -> Resumption<T>,
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
                    this.call.note_nesting();
                    this.state.set(State::Between);
                    continue;
                }
                StateProj::Between => {
                    let begun = ready!(this.call.poll_between(0, this.pending, cx));
                    this.state.set(State::Done);
                    match begun {
                        Ok(attempt) => {
                            this.state.set(State::Opening { attempt: (this.open)(attempt) });
                        }
                        Err(gave_up) => return self.end(gave_up),
                    }
                    continue;
                }
                StateProj::Opening { attempt } => {
                    let opened = {
                        let _polled = this.call.polled();
                        attempt.poll(cx)
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
                // Taking the next item starts new work. The token is therefore checked first.
                StateProj::Reading { .. } if this.call.stops_reading() => {
                    this.state.set(State::Done);
                    let gave_up = this.call.give_up(StopReason::Cancelled, None);
                    return self.end(gave_up);
                }
                StateProj::Reading { stream } => {
                    let _polled = this.call.polled();
                    stream.poll_next(cx)
                }
            };
            let ended = match polled {
                Poll::Pending => ready!(self.as_mut().poll_limits(cx)),
                Poll::Ready(Some(Ok(item))) => {
                    self.as_mut().take(item);
                    continue;
                }
                // A complete answer stays complete whatever follows.
                Poll::Ready(Some(Err(_)) | None) if *this.complete => {
                    self.as_mut().succeed();
                    continue;
                }
                Poll::Ready(Some(Err(error))) => {
                    self.as_mut().project().call.note_error(error);
                    Ended::Error
                }
                Poll::Ready(None) if this.rules.requires_end => Ended::Stream,
                Poll::Ready(None) => {
                    self.as_mut().succeed();
                    continue;
                }
            };
            if let Some(yielded) = self.as_mut().fail(ended) {
                return Poll::Ready(Some(yielded));
            }
        }
    }
}

impl<F, Fut, S, T, E, P, C, K, X, Q, A> RetryStream<F, Fut, S, T, E, P, K, X, Q, A>
where
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
    Q: FnMut(&T) -> Part,
    A: FnMut(Option<&E>) -> Resumption<T>,
{
    /// Stores an item. Starts to yield all stored items unless this item belongs to the preamble.
    fn take(mut self: Pin<&mut Self>, item: T) {
        let mut this = self.as_mut().project();
        let part = (this.parts)(&item);
        let holds = part == Part::Preamble && this.held.len() < this.rules.preamble_cap;
        this.held.push_back(item);
        match part {
            Part::End => return self.succeed(),
            Part::Complete => *this.complete = true,
            Part::Preamble | Part::Content => {}
        }
        if !*this.flowing && !holds {
            *this.flowing = true;
            // Content has come and met the limits.
            this.pending.as_mut().drop_sleep();
            this.call.lift_limits(0);
        }
    }

    /// Ends the stream with success. The items in `held` are still yielded.
    fn succeed(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.state.set(State::Done);
        this.pending.as_mut().drop_sleep();
        if !std::mem::replace(this.flowing, true) {
            this.call.lift_limits(0);
        }
        let attempts = this.call.attempts();
        this.call.succeeded_at(0, attempts, None);
    }

    /// Ends a failed attempt. Returns `None` while the next attempt is awaited.
    fn fail(self: Pin<&mut Self>, ended: Ended) -> Yielded<T, E> {
        let mut this = self.project();
        // The failed stream is dropped before the failure is reported and before the next stream is
        // opened.
        this.state.set(State::Done);
        this.pending.as_mut().drop_sleep();
        this.held.clear();
        if matches!(ended, Ended::Deadline | Ended::Cancelled) {
            return this.call.ended(0, ended).err().map(Err);
        }
        let mut marker = None;
        if std::mem::take(this.flowing) {
            match (this.resumption)(this.call.error_of(ended)) {
                Resumption::Fail => {
                    return Some(Err(this.call.failed_for_good(0, ended, StopReason::Partial)));
                }
                Resumption::Restart(item) => marker = Some(item),
                Resumption::Resume => {}
            }
            let (elapsed, attempts) = (this.call.elapsed(), this.call.attempts());
            this.call.policy.exclude(elapsed);
            if this.rules.renews {
                this.call.policy.renew(attempts.saturating_sub(1));
            }
        }
        match this.call.failed(0, ended) {
            Ok(_) => this.state.set(State::Between),
            Err(gave_up) => return Some(Err(gave_up)),
        }
        marker.map(Ok)
    }

    /// Waits for a limit or the token to end the pending attempt.
    fn poll_limits(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let this = self.project();
        if !*this.flowing {
            return this.call.poll_limits(0, this.pending, cx);
        }
        if !this.call.token.stops_attempts() {
            return Poll::Pending;
        }
        this.pending.poll_cancelled(&this.call.token, cx).map(|()| Ended::Cancelled)
    }

    /// Ends the stream from outside.
    #[cold]
    fn end(self: Pin<&mut Self>, gave_up: GaveUp<E>) -> Poll<Yielded<T, E>> {
        let mut this = self.project();
        this.pending.as_mut().drop_sleep();
        this.held.clear();
        Poll::Ready(Some(Err(gave_up)))
    }
}

impl<F, Fut, S, T, E, P, K, X, Q, A> FusedStream for RetryStream<F, Fut, S, T, E, P, K, X, Q, A>
where
    Self: Stream,
    K: Cancel,
    X: Target,
{
    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Done) && self.held.is_empty()
    }
}

impl<F, Fut, S, T, E, P, K: Cancel, X: Target, Q, A> fmt::Debug
    for RetryStream<F, Fut, S, T, E, P, K, X, Q, A>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Unstarted => "unstarted",
            State::Between => "between attempts",
            State::Opening { .. } => "opening",
            State::Reading { .. } => "reading",
            State::Done => "done",
        };
        f.debug_struct("RetryStream")
            .field("state", &state)
            .field("attempts", &self.call.attempts())
            .field("held", &self.held.len())
            .field("flowing", &self.flowing)
            .finish_non_exhaustive()
    }
}
