use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

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
    }
}

impl<'a, F, C, O, M> Guarded<'a, F, C, O, M>
where
    O: Observe<Event>,
    M: Timer,
{
    #[inline]
    pub(crate) const fn new(future: F, breaker: &'a Breaker<C, O, M>) -> Self {
        Self { future, breaker, permit: None }
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
        // In hand while the future is polled, and stored only where that has to go on: most often it need not.
        let permit = match this.permit.take() {
            Some(permit) => permit,
            None => match this.breaker.permit() {
                Ok(permit) => permit,
                Err(open) => return Poll::Ready(Err(open.into())),
            },
        };
        let output = match this.future.poll(cx) {
            Poll::Ready(output) => output,
            Poll::Pending => {
                *this.permit = Some(permit);
                return Poll::Pending;
            }
        };
        match &output {
            Ok(_) => permit.success(),
            Err(error) => permit.failure(this.breaker.classify.classify(error).unwrap_or(Verdict::Fail)),
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
