use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::admission::Admission;
use super::rules::{OneAttempt, Timeouts};
use crate::cancel::{Cancel, Never};
use crate::classify::Always;
use crate::engine::{CallState, Pending, PendingOf};
use crate::error::GaveUp;
use crate::observe::CallKind;
use crate::upstream::TargetFor;

pin_project! {
    /// The wait for an [`Admission`]. Made by [`Upstream::admit`](crate::Upstream::admit).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Admitting<X, K = Never>
    where
        X: TargetFor<Infallible>,
        K: Cancel,
    {
        // `None` after its end.
        call: Option<CallState<Infallible, OneAttempt<Always, Timeouts>, K, X>>,
        #[pin]
        pending: PendingOf<X, K>,
    }
}

impl<X: TargetFor<Infallible>, K: Cancel> Admitting<X, K> {
    #[track_caller]
    pub(super) fn new(target: X, token: K) -> Self {
        let rules = OneAttempt { classifier: Always, limits: Timeouts::NONE };
        let call = CallState::new(CallKind::Single, rules, token).on(target);
        Self { call: Some(call), pending: Pending::none() }
    }

    /// Sets the longest wait for the admission. At the limit the wait ends as
    /// [`StopReason::Deadline`](crate::StopReason::Deadline).
    ///
    /// A wait that is known to be longer ends at once. The time counts from the first poll. Zero
    /// allows one poll. The limit is not a limit on the attempt, which the caller makes.
    pub const fn with_max_wait(mut self, limit: Duration) -> Self {
        if let Some(call) = &mut self.call {
            call.policy.limits = call.policy.limits.with_total(limit);
        }
        self
    }
}

impl<X: TargetFor<Infallible>, K: Cancel> Future for Admitting<X, K> {
    type Output = Result<Admission<X, K>, GaveUp<Infallible>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let call = this.call.as_mut().expect("`Upstream::admit` polled after completion");
        let begun = ready!(call.poll_between(0, None, this.pending, cx));
        let call = this.call.take().map(Admission::of);
        Poll::Ready(begun.map(|_| call.expect("it was there at the start of this poll")))
    }
}

impl<X: TargetFor<Infallible>, K: Cancel> fmt::Debug for Admitting<X, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitting").finish_non_exhaustive()
    }
}
