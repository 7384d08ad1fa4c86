mod poll;

use std::collections::VecDeque;
use std::fmt;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;

use super::{CutOff, Mend, Part};
use crate::budget::Budget;
use crate::cancel::Cancel;
use crate::observe::{Observe, Standard};
use crate::policy::RetryPolicy;
use crate::retry::{Course, Event, Forgiving, Waits};
use crate::time::{DefaultTimer, Timer, TimerSlot};

pin_project! {
    /// A stream that is opened again as its policy says. Made by [`retry_stream`](crate::retry_stream()).
    ///
    /// An error is its last item. Polled again after its end it stays ended.
    #[must_use = "streams do nothing unless polled"]
    pub struct RetryStream<'a, F, Fut, S, T, E, C, K, P = fn(&T) -> Part, A = fn(&E) -> Mend<T>, O = Standard, M = DefaultTimer>
    where
        K: Cancel,
        M: TimerSlot,
    {
        open: F,
        parts: P,
        mend: A,
        course: Course<'a, E, C, K, O, M, Forgiving>,
        #[pin]
        state: State<Fut, S>,
        // Its deadline is waited for until there is content.
        #[pin]
        waits: Waits<M::Sleep, K::Cancelled>,
        // Invariant: while not `flowing`, the preamble of this attempt; else what is to be handed over ahead of what
        // the stream yields next.
        held: VecDeque<T>,
        cap: usize,
        // Whether content has come since the stream was last opened for the consumer to see.
        flowing: bool,
        cut_off: Option<fn() -> E>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<Fut, S> {
        Unstarted,
        Between,
        Opening { #[pin] attempt: Fut },
        Reading { #[pin] stream: S },
        Waiting,
        Done,
    }
}

const PREAMBLE_CAP: usize = 64;

impl<'a, F, Fut, S, T, E, C, K: Cancel> RetryStream<'a, F, Fut, S, T, E, C, K> {
    #[inline]
    pub(super) fn new(open: F, policy: &'a RetryPolicy<C>, token: K) -> Self {
        Self {
            open,
            parts: |_| Part::Content,
            mend: |_| Mend::Fail,
            course: Course::forgiving(policy, token),
            state: State::Unstarted,
            waits: Waits::none(),
            held: VecDeque::new(),
            cap: PREAMBLE_CAP,
            flowing: false,
            cut_off: None,
        }
    }
}

/// What the caller knows of the stream, and what is live and shared: attached before the first poll.
impl<'a, F, Fut, S, T, E, C, K: Cancel, P, A, O, M: TimerSlot> RetryStream<'a, F, Fut, S, T, E, C, K, P, A, O, M> {
    /// `parts` says what each item is. Without it, every item is content.
    pub fn with_parts<Q>(self, parts: Q) -> RetryStream<'a, F, Fut, S, T, E, C, K, Q, A, O, M>
    where
        Q: FnMut(&T) -> Part,
    {
        let Self { open, parts: _, mend, course, state, waits, held, cap, flowing, cut_off } = self;
        RetryStream { open, parts, mend, course, state, waits, held, cap, flowing, cut_off }
    }

    /// `mend` says what becomes of the stream when it breaks off after content. Without it, it fails.
    ///
    /// It only speaks of what has been handed over: the policy must still allow another attempt, and the error be one
    /// that this may mend.
    pub fn with_mend<B>(self, mend: B) -> RetryStream<'a, F, Fut, S, T, E, C, K, P, B, O, M>
    where
        B: FnMut(&E) -> Mend<T>,
    {
        let Self { open, parts, mend: _, course, state, waits, held, cap, flowing, cut_off } = self;
        RetryStream { open, parts, mend, course, state, waits, held, cap, flowing, cut_off }
    }

    /// A stream that ends without a [`Part::End`] has failed, with [`CutOff`] as its error.
    pub fn with_required_end(mut self) -> Self
    where
        E: From<CutOff>,
    {
        self.cut_off = Some(|| CutOff.into());
        self
    }

    /// How many items of the preamble are held back at most. The one after counts as content.
    pub fn with_preamble_cap(mut self, items: usize) -> Self {
        self.cap = items;
        self
    }

    /// Retries are paid from `budget`. A stream that has come to its end refills it; one that is dropped does not.
    pub fn with_budget(mut self, budget: &'a Budget) -> Self {
        self.course.set_budget(budget);
        self
    }

    /// `observer` is told what happens, instead of [`Standard`]; for both give `(Standard, observer)`.
    pub fn with_observer<B>(self, observer: B) -> RetryStream<'a, F, Fut, S, T, E, C, K, P, A, B, M>
    where
        B: for<'e> Observe<Event<'e, E>>,
    {
        let Self { open, parts, mend, course, state, waits, held, cap, flowing, cut_off } = self;
        let course = course.observed(observer);
        RetryStream { open, parts, mend, course, state, waits, held, cap, flowing, cut_off }
    }

    /// Time is `timer`'s.
    pub fn with_timer<N: Timer>(self, timer: N) -> RetryStream<'a, F, Fut, S, T, E, C, K, P, A, O, N> {
        let Self { open, parts, mend, course, state, held, cap, flowing, cut_off, .. } = self;
        let course = course.timed(timer);
        RetryStream { open, parts, mend, course, state, waits: Waits::none(), held, cap, flowing, cut_off }
    }
}

impl<F, Fut, S, T, E, C, K, P, A, O, M> FusedStream for RetryStream<'_, F, Fut, S, T, E, C, K, P, A, O, M>
where
    Self: Stream,
    K: Cancel,
    M: TimerSlot,
{
    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Done) && self.held.is_empty()
    }
}

impl<F, Fut, S, T, E, C, K: Cancel, P, A, O, M: TimerSlot> fmt::Debug
    for RetryStream<'_, F, Fut, S, T, E, C, K, P, A, O, M>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Unstarted => "unstarted",
            State::Between => "between attempts",
            State::Opening { .. } => "opening",
            State::Reading { .. } => "reading",
            State::Waiting => "waiting",
            State::Done => "done",
        };
        f.debug_struct("RetryStream")
            .field("state", &state)
            .field("attempts", &self.course.attempts())
            .field("held", &self.held.len())
            .field("flowing", &self.flowing)
            .finish_non_exhaustive()
    }
}
