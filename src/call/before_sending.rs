use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::upstream::note_unsent;

pin_project! {
    /// The part of an attempt before its request is sent. Made by
    /// [`ResilienceExt::before_sending`](crate::ResilienceExt::before_sending).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct BeforeSending<F> {
        #[pin]
        future: F,
        // True while the future works.
        is_pending: bool,
    }

    impl<F> PinnedDrop for BeforeSending<F> {
        fn drop(this: Pin<&mut Self>) {
            if *this.project().is_pending {
                note_unsent();
            }
        }
    }
}

impl<F> BeforeSending<F> {
    pub(crate) const fn new(future: F) -> Self {
        Self { future, is_pending: false }
    }
}

impl<F: Future> Future for BeforeSending<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let output = this.future.poll(cx);
        *this.is_pending = output.is_pending();
        output
    }
}

impl<F> fmt::Debug for BeforeSending<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeforeSending")
            .field("is_pending", &self.is_pending)
            .finish_non_exhaustive()
    }
}
