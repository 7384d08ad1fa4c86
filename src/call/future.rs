use std::fmt;
use std::iter;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::rules::{OneAttempt, Timeouts};
use crate::cancel::{Cancel, Never};
use crate::classify::Classify;
use crate::engine::{CallState, Finish, Pending, PendingOf, Watched};
use crate::error::GaveUp;
use crate::observe::CallKind;
use crate::policy::StopReason;
use crate::upstream::{Target, TargetFor};

pin_project! {
    /// One attempt on an upstream, without a retry. Made by
    /// [`Upstream::call`](crate::Upstream::call) and by
    /// [`ResilienceExt::through`](crate::ResilienceExt::through).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Call<F, E, C, X, K = Never>
    where
        X: Target,
        K: Cancel,
    {
        // `None` after its end. Declared before `state`: it drops before the permit is released.
        #[pin]
        future: Watched<Option<F>>,
        state: CallState<E, OneAttempt<C, Timeouts>, K, X>,
        has_begun: bool,
        #[pin]
        pending: PendingOf<X, K>,
    }
}

impl<F, E, C, X: Target> Call<F, E, C, X> {
    #[track_caller]
    pub(crate) fn new(target: X, future: F, classifier: C) -> Self {
        let rules = OneAttempt { classifier, limits: Timeouts::NONE };
        let state = CallState::new(CallKind::Single, rules, Never).on(target);
        Self {
            state,
            has_begun: false,
            future: Watched::new(Some(future)),
            pending: Pending::none(),
        }
    }
}

impl<F, E, C, X: Target> Call<F, E, C, X> {
    /// Sets the token that cancels the call, before the first poll.
    ///
    /// The token ends the wait for the admission and drops an attempt in flight, while
    /// [`Drain(token)`](crate::Drain) lets an attempt in flight finish. The call ends as
    /// [`StopReason::Cancelled`].
    pub fn with_token<K: Cancel>(self, token: K) -> Call<F, E, C, X, K> {
        Call {
            future: self.future,
            state: self.state.with_token(token),
            has_begun: false,
            pending: Pending::none(),
        }
    }
}

impl<F, E, C, X: Target, K: Cancel> Call<F, E, C, X, K> {
    /// Sets the call site that the log prints, in place of the one that made this future.
    ///
    /// It is for a crate that makes the calls of its users, such as a layer of services: the site is
    /// where the user made the layer.
    pub const fn called_at(mut self, site: &'static Location<'static>) -> Self {
        self.state.engine.set_site(site);
        self
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
        self.state.policy.limits = self.state.policy.limits.with_total(limit);
        self
    }

    /// Shortens the total timeout to the time that the caller of this call has `left`. With zero the call makes no
    /// attempt.
    ///
    /// An attempt that this deadline cuts counts at the breaker only if it ran for at least half of the
    /// time that the limits set before allow it. See
    /// [`RetryPolicy::shortened_to`](crate::RetryPolicy::shortened_to).
    pub fn shortened_to(mut self, left: Duration) -> Self {
        self.state.policy.limits = self.state.policy.limits.shortened_to(left);
        self
    }

    /// Sets the attempt timeout: the limit on the attempt alone, without the wait for its
    /// admission.
    ///
    /// At the limit the attempt is dropped, [classified](Classify::classify_cut) and reported to
    /// the upstream. A shorter limit learned by an
    /// [adaptive timeout](crate::AdaptiveTimeout) applies first.
    pub const fn with_attempt_timeout(mut self, limit: Duration) -> Self {
        self.state.policy.limits = self.state.policy.limits.with_attempt(limit);
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

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut future = this.future.pinned();
        if !*this.has_begun {
            let begun = ready!(this.state.poll_between(0, None, this.pending.as_mut(), cx));
            if let Err(gave_up) = begun {
                future.set(None);
                return Poll::Ready(Err(gave_up));
            }
            *this.has_begun = true;
        }
        let attempt =
            future.as_mut().as_pin_mut().expect("`Upstream::call` polled after completion");
        let outcome = ready!(this.state.poll_attempt(0, attempt, this.pending, cx));
        let is_cut = outcome.as_ref().is_err_and(|finish| finish.is_cut());
        // The future is dropped before its end is reported.
        this.state.dropping(0, is_cut, || future.set(None));
        Poll::Ready(match outcome {
            Ok(value) => {
                this.state.succeeded(0, 1);
                Ok(value)
            }
            Err(finish) => Err(Self::close(this.state, finish)),
        })
    }
}

impl<F, E, C, X, K> Call<F, E, C, X, K>
where
    C: Classify<E>,
    X: TargetFor<E>,
    K: Cancel,
{
    #[cold]
    fn close(call: &mut CallState<E, OneAttempt<C, Timeouts>, K, X>, finish: Finish) -> GaveUp<E> {
        let reason = match finish {
            Finish::Deadline => StopReason::Deadline,
            Finish::Cancelled => StopReason::Cancelled,
            finish => return call.finish_last(0, finish, StopReason::Attempts),
        };
        call.close_cut(iter::once(0), reason)
    }
}

impl<F, E, C, X: Target, K: Cancel> fmt::Debug for Call<F, E, C, X, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("attempts", &self.state.attempts()).finish_non_exhaustive()
    }
}
