use std::fmt;
use std::iter;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::rules::{OneAttempt, Timeouts};
use crate::engine::{CallState, Ended, GaveUp, Pending, PendingOf};
use crate::cancel::{Cancel, Never};
use crate::classify::Classify;
use crate::observe::CallKind;
use crate::policy::StopReason;
use crate::upstream::{Target, TargetFor};

pin_project! {
    /// The future of [`Upstream::call`](crate::Upstream::call): one attempt without a retry.
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Call<F, E, C, X, K = Never>
    where
        X: Target,
        K: Cancel,
    {
        // `None` after its end. Declared before `call`: it drops before the permit is released.
        #[pin]
        future: Option<F>,
        call: CallState<E, OneAttempt<C, Timeouts>, K, X>,
        has_begun: bool,
        #[pin]
        pending: PendingOf<X, K>,
    }
}

impl<F, E, C, X: Target> Call<F, E, C, X> {
    #[track_caller]
    pub(super) fn new(target: X, future: F, classifier: C) -> Self {
        let rules = OneAttempt { classifier, limits: Timeouts::NONE };
        let call = CallState::new(CallKind::Single, rules, Never).on(target);
        Self { call, has_begun: false, future: Some(future), pending: Pending::none() }
    }
}

impl<F, E, C, X: Target> Call<F, E, C, X> {
    /// Sets the token that cancels the call, before the first poll.
    ///
    /// The token ends the wait for the admission and drops an attempt in flight.
    /// [`Drain(token)`](crate::Drain) lets an attempt in flight finish. The call ends as
    /// [`StopReason::Cancelled`].
    pub fn with_token<K: Cancel>(self, token: K) -> Call<F, E, C, X, K> {
        Call {
            future: self.future,
            call: self.call.with_token(token),
            has_begun: false,
            pending: Pending::none(),
        }
    }
}

/// Limits, before the first poll. Each replaces an earlier value of the same setting.
impl<F, E, C, X: Target, K: Cancel> Call<F, E, C, X, K> {
    /// Sets the total timeout: the limit on the wait for the admission and the attempt together.
    ///
    /// The time counts from the first poll. At the limit the attempt is dropped and the call ends
    /// as [`StopReason::Deadline`]. A wait that is known to be longer ends the call at once. Zero
    /// allows one poll.
    pub const fn with_total_timeout(mut self, limit: Duration) -> Self {
        self.call.policy.limits = self.call.policy.limits.with_total(limit);
        self
    }

    /// Sets the attempt timeout: the limit on the attempt alone, without the wait for its
    /// admission.
    ///
    /// At the limit the attempt is dropped, [classified](Classify::classify_cut) and reported to
    /// the upstream. A shorter limit learned by an
    /// [adaptive timeout](crate::AdaptiveTimeout) applies first.
    pub const fn with_attempt_timeout(mut self, limit: Duration) -> Self {
        self.call.policy.limits = self.call.policy.limits.with_attempt(limit);
        self
    }
}

impl<F, T, E, C, X, K> Future for Call<F, E, C, X, K>
where
    F: Future<Output = Result<T, E>>,
    C: Classify<E>,
    X: TargetFor<E>,
    K: Cancel,
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
            return Poll::Ready(match outcome {
                Ok(value) => {
                    this.future.set(None);
                    this.call.succeeded_at_once(0);
                    Ok(value)
                }
                Err(error) => {
                    this.call.dropping(0, false, || this.future.set(None));
                    this.call.note_error(error);
                    Err(this.call.failed_for_good(0, Ended::Error, StopReason::Attempts))
                }
            });
        }
        self.poll_on(cx)
    }
}

impl<F, T, E, C, X, K> Call<F, E, C, X, K>
where
    F: Future<Output = Result<T, E>>,
    C: Classify<E>,
    X: TargetFor<E>,
    K: Cancel,
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
        let is_cut = outcome.as_ref().is_err_and(|ended| ended.is_cut());
        this.call.dropping(0, is_cut, || this.future.set(None));
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
        this.call.dropping(0, true, || this.future.set(None));
        Poll::Ready(Err(Self::end(this.call, ended)))
    }

    #[cold]
    fn end(call: &mut CallState<E, OneAttempt<C, Timeouts>, K, X>, ended: Ended) -> GaveUp<E> {
        let reason = match ended {
            Ended::Deadline => StopReason::Deadline,
            Ended::Cancelled => StopReason::Cancelled,
            ended => return call.failed_for_good(0, ended, StopReason::Attempts),
        };
        call.cut_by_call(iter::once(0), reason)
    }
}

impl<F, E, C, X: Target, K: Cancel> fmt::Debug for Call<F, E, C, X, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("attempts", &self.call.attempts()).finish_non_exhaustive()
    }
}
