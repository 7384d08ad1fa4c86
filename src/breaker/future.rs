use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{Breaker, Event, Open, Permit};
use crate::classify::{Classify, Verdict};
use crate::observe::Observe;
use crate::time::Timer;

pin_project! {
    /// A future under a breaker. Made by [`ResilienceExt::guarded_by`](crate::ResilienceExt::guarded_by).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Guarded<'a, F, C, O, M>
    where
        O: Observe<Event>,
        M: Timer,
    {
        #[pin]
        future: F,
        breaker: &'a Breaker<C, O, M>,
        permit: Option<Permit<'a, C, O, M>>,
        done: bool,
    }
}

impl<'a, F, C, O, M> Guarded<'a, F, C, O, M>
where
    O: Observe<Event>,
    M: Timer,
{
    #[inline]
    pub(crate) const fn new(future: F, breaker: &'a Breaker<C, O, M>) -> Self {
        Self { future, breaker, permit: None, done: false }
    }
}

impl<F, T, E, C, O, M> Future for Guarded<'_, F, C, O, M>
where
    F: Future<Output = Result<T, E>>,
    E: From<Open>,
    C: Classify<E>,
    O: Observe<Event>,
    M: Timer,
{
    type Output = Result<T, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        assert!(!*this.done, "`Guarded` polled after completion");
        if this.permit.is_none() {
            match this.breaker.permit() {
                Ok(permit) => *this.permit = Some(permit),
                Err(open) => {
                    *this.done = true;
                    return Poll::Ready(Err(open.into()));
                }
            }
        }
        let output = ready!(this.future.poll(cx));
        *this.done = true;
        if let Some(permit) = this.permit.take() {
            match &output {
                Ok(_) => permit.success(),
                Err(error) => permit.failure(this.breaker.classify.classify(error).unwrap_or(Verdict::Fail)),
            }
        }
        Poll::Ready(output)
    }
}

impl<F, C, O, M> fmt::Debug for Guarded<'_, F, C, O, M>
where
    O: Observe<Event>,
    M: Timer,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("admitted", &self.permit.is_some()).finish_non_exhaustive()
    }
}
