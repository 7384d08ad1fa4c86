use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::Deadline;

pin_project! {
    /// A future with a current [`Deadline`]. Made by [`Deadline::scope`].
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Scope<F> {
        deadline: Deadline,
        #[pin]
        future: F,
    }
}

impl<F> Scope<F> {
    pub(super) const fn new(deadline: Deadline, future: F) -> Self {
        Self { deadline, future }
    }
}

impl<F: Future> Future for Scope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _current = this.deadline.enter();
        this.future.poll(cx)
    }
}

impl<F> fmt::Debug for Scope<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
