use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::upstream::{note_begun, note_commit_begun, note_unsent};

pin_project! {
    /// The part of an attempt before its request is sent. Made by
    /// [`ResilienceExt::before_sending`](crate::ResilienceExt::before_sending).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct BeforeSending<F> {
        #[pin]
        future: F,
        stage: Stage,
        is_of_commit: bool,
    }

    impl<F> PinnedDrop for BeforeSending<F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            match this.stage {
                Stage::New => {}
                Stage::Pending => note_unsent(),
                Stage::Ended if *this.is_of_commit => note_commit_begun(),
                Stage::Ended => note_begun(),
            }
        }
    }
}

/// How far the part has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    New,
    Pending,
    /// The program has kept it, while its request is sent.
    Ended,
}

impl<F> BeforeSending<F> {
    pub(crate) const fn new(future: F) -> Self {
        Self { future, stage: Stage::New, is_of_commit: false }
    }

    /// States that the request is the `COMMIT` of a transaction, so that the words of a cut name it. For
    /// `sqlx::commit` of `resile-clients`.
    #[doc(hidden)]
    pub const fn of_commit(mut self) -> Self {
        self.is_of_commit = true;
        self
    }
}

impl<F: Future> Future for BeforeSending<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let output = this.future.poll(cx);
        *this.stage = if output.is_pending() { Stage::Pending } else { Stage::Ended };
        output
    }
}

impl<F> fmt::Debug for BeforeSending<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeforeSending").field("stage", &self.stage).finish_non_exhaustive()
    }
}
