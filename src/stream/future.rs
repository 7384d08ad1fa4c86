use std::fmt;
use std::time::Duration;

use pin_project_lite::pin_project;

use super::answer::Answer;
use super::open::Open;
use super::{Part, Resumption};
use crate::cancel::Cancel;
use crate::engine::{Attempting, CallState, Flowing, Pending, PendingOf, Watched};
use crate::observe::CallKind;
use crate::upstream::{NoUpstream, Target, TargetFor, Via};

/// The default of [`RetryStream::with_parts`].
type PartOf<F> = fn(&<F as Open>::Item) -> Part;
/// The default of [`RetryStream::with_resumption`].
type ResumptionOf<F> = fn(Option<&<F as Open>::Error>) -> Resumption<<F as Open>::Item>;

pin_project! {
    /// A stream that is opened again under its policy. Made by
    /// [`retry_stream`](crate::retry_stream()).
    ///
    /// An error is the last item. A poll after the end returns `None` again.
    #[must_use = "streams do nothing unless polled"]
    pub struct RetryStream<F, P, K, X = NoUpstream, Q = PartOf<F>, A = ResumptionOf<F>>
    where
        F: Open,
        K: Cancel,
        X: Target,
    {
        pub(super) open: F,
        pub(super) parts: Q,
        pub(super) resumption: A,
        // Declared before `call`: the stream is dropped before its permits are released.
        #[pin]
        pub(super) state: Watched<State<F::Opening, F::Stream>>,
        pub(super) call: CallState<F::Error, Flowing<P>, K, X>,
        // The wait for the limits until content comes.
        #[pin]
        pub(super) pending: PendingOf<X, K>,
        pub(super) answer: Answer<F::Item>,
    }
}

pin_project! {
    #[project = StateProj]
    pub(super) enum State<Fut, S> {
        // Waiting for the start of the next attempt.
        Between,
        Opening { #[pin] attempt: Fut },
        Reading { #[pin] stream: S },
        Done,
    }
}

impl<Fut, S> Attempting for State<Fut, S> {
    const DONE: Self = Self::Done;

    #[inline]
    fn has_attempt(&self) -> bool {
        matches!(self, Self::Opening { .. } | Self::Reading { .. })
    }
}

impl<F: Open, P, K: Cancel> RetryStream<F, P, K> {
    #[inline]
    #[track_caller]
    pub(super) fn new(open: F, policy: P, token: K) -> Self {
        Self {
            open,
            parts: |_| Part::Content,
            resumption: |_| Resumption::Fail,
            call: CallState::new(CallKind::Stream, Flowing::new(policy), token),
            state: Watched::new(State::Between),
            pending: Pending::none(),
            answer: Answer::new(),
        }
    }
}

impl<F: Open, P, K: Cancel, Q, A> RetryStream<F, P, K, NoUpstream, Q, A> {
    /// Opens the stream on an [`Upstream`](crate::Upstream) shared with other calls, or names it.
    ///
    /// Call this method once, before the first poll. Each opening of the stream is one attempt,
    /// which ends with the stream, so an error in mid-stream counts like an error of `open`.
    pub fn on<Y: Target, M>(self, target: Y) -> RetryStream<F, P, K, Via<Y, M>, Q, A>
    where
        Via<Y, M>: TargetFor<F::Error>,
    {
        let Self { open, parts, resumption, call, answer, .. } = self;
        let (call, pending) = (call.on(Via::new(target)), Pending::none());
        let state = Watched::new(State::Between);
        RetryStream { open, parts, resumption, state, call, pending, answer }
    }
}

/// Settings. Set them before the first poll.
impl<F: Open, P, K: Cancel, X: Target, Q, A> RetryStream<F, P, K, X, Q, A> {
    /// Sets the function that assigns each item to a part. By default, every item is content.
    pub fn with_parts<R>(self, parts: R) -> RetryStream<F, P, K, X, R, A>
    where
        R: FnMut(&F::Item) -> Part,
    {
        self.rebuild(|_, resumption| (parts, resumption))
    }

    /// Sets the function that decides how to continue after content. By default, the stream fails.
    ///
    /// The function gets the error, or `None` if the stream was cut. It decides only about items
    /// already yielded, so the policy must still allow another attempt and the request must be
    /// repeatable.
    pub fn with_resumption<B>(self, resumption: B) -> RetryStream<F, P, K, X, Q, B>
    where
        B: FnMut(Option<&F::Error>) -> Resumption<F::Item>,
    {
        self.rebuild(|parts, _| (parts, resumption))
    }

    /// Limits the whole stream, from its first poll to its last item. All attempts, delays and
    /// content count, and nothing restarts this limit. By default there is none: the policy's total
    /// timeout applies only until content.
    ///
    /// At the limit the stream in flight is dropped. The error has
    /// [`StopReason::Deadline`](crate::StopReason::Deadline) before content, also before that of a
    /// stream that is opened again, and [`StopReason::Partial`](crate::StopReason::Partial) after
    /// it. An upstream that has sent content is not blamed for the length of its answer. If it knows the limit and
    /// ends the stream with an error such as `DEADLINE_EXCEEDED` of gRPC in the last 100 ms or the last fifth,
    /// whichever is shorter, the limit has ended the stream. Each further service of a chain that keeps some of that
    /// time for itself ends it earlier, and then it is an error like any other.
    ///
    /// The time that the consumer spends between polls counts too, but the limit is noticed only by the next
    /// poll. A limit of zero polls once.
    pub fn with_whole_timeout(mut self, limit: Duration) -> Self {
        self.call.policy.limit_to(limit);
        self
    }

    /// Shortens the whole stream to the time that the caller of this stream has `left`. With zero the stream
    /// is not opened.
    ///
    /// It is for a stream within a request or a question that has a deadline of its own, and needs no
    /// [`with_whole_timeout`](Self::with_whole_timeout) beside it. A longer `left` changes nothing. The stream ends
    /// as with that limit, but its words name the deadline of the caller, because no setting has its number. An
    /// attempt that this deadline cuts before its first content counts at the breaker only if it ran for at least
    /// half of the time that the policy allows it. A `with_whole_timeout` that comes later replaces this time.
    ///
    /// [`RetryPolicy::shortened_to`](crate::RetryPolicy::shortened_to) shortens only the wait for the first
    /// content, and begins anew when a stream is opened again after content.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use futures_util::{Stream, TryStreamExt, stream};
    /// use resile::{Attempt, Never, RetryPolicy, retry_stream};
    /// use std::time::Duration;
    ///
    /// # type Item = Result<u32, &'static str>;
    /// # async fn open(_: Attempt) -> Result<impl Stream<Item = Item>, &'static str> {
    /// #     Ok(stream::unfold(0, |number| async move {
    /// #         tokio::time::sleep(Duration::from_millis(400)).await;
    /// #         Some((Ok(number), number + 1))
    /// #     }))
    /// # }
    /// let left = Duration::from_secs(1); // until the deadline of the request
    /// let numbers = retry_stream(open, RetryPolicy::new(), Never).shortened_to(left);
    /// let end = numbers.try_collect::<Vec<_>>().await.unwrap_err();
    /// assert!(end.is_partial());
    /// let words = "the stream did not end before the deadline of its caller after 1s";
    /// assert!(end.to_string().contains(words));
    /// # }
    /// ```
    pub fn shortened_to(mut self, left: Duration) -> Self {
        self.call.policy.shorten_to(left);
        self
    }

    /// Treats an end without [`Part::End`] or [`Part::Complete`] as
    /// [`Cut::Stream`](crate::classify::Cut::Stream).
    pub fn with_required_end(mut self) -> Self {
        self.answer.rules.requires_end = true;
        self
    }

    /// Sets the number of preamble items to hold back. The next item then counts as content. The
    /// default is 64.
    pub fn with_preamble_cap(mut self, items: usize) -> Self {
        self.answer.rules.preamble_cap = items;
        self
    }

    /// Restarts the count of attempts and the growth of delays when a stream fails after content.
    ///
    /// Use it for streams that live long and break now and then.
    pub fn with_attempts_renewed(mut self) -> Self {
        self.answer.rules.renews = true;
        self
    }

    /// Replaces the functions of the caller, which changes the type.
    fn rebuild<R, B>(self, replace: impl FnOnce(Q, A) -> (R, B)) -> RetryStream<F, P, K, X, R, B> {
        let Self { open, parts, resumption, state, call, pending, answer } = self;
        let (parts, resumption) = replace(parts, resumption);
        RetryStream { open, parts, resumption, state, call, pending, answer }
    }
}

impl<F: Open, P, K: Cancel, X: Target, Q, A> fmt::Debug for RetryStream<F, P, K, X, Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state.get() {
            State::Between if self.call.attempts() == 0 => "unstarted",
            State::Between => "between attempts",
            State::Opening { .. } => "opening",
            State::Reading { .. } => "reading",
            State::Done => "done",
        };
        f.debug_struct("RetryStream")
            .field("state", &state)
            .field("attempts", &self.call.attempts())
            .field("held", &self.answer.held.len())
            .field("flowing", &self.answer.flowing)
            .finish_non_exhaustive()
    }
}
