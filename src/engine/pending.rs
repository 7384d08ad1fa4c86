use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::cancel::Cancel;
use crate::upstream::Endpoint;

/// The [`Pending`] of a call on target `X` with token `K`.
pub(crate) type PendingOf<X, K> = Pending<<X as Endpoint>::Sleep, <K as Cancel>::Cancelled>;

pin_project! {
    /// The sleep and the token's future of a call. Each is created at the first wait for it.
    pub(crate) struct Pending<S, T> {
        #[pin]
        futures: Option<Futures<S, T>>,
    }
}

pin_project! {
    #[project = FuturesProj]
    struct Futures<S, T> {
        #[pin]
        sleep: Option<S>,
        // Completes once the token is cancelled.
        #[pin]
        cancelled: Option<T>,
    }

    // Most calls end without a wait. With `#[cold]`, dropping an empty `Option` is one comparison.
    impl<S, T> PinnedDrop for Futures<S, T> {
        fn drop(this: Pin<&mut Self>) {
            this.clear();
        }
    }
}

impl<S, T> Futures<S, T> {
    #[cold]
    #[inline(never)]
    fn clear(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.sleep.set(None);
        this.cancelled.set(None);
    }
}

impl<S, T> Pending<S, T> {
    #[inline]
    pub(crate) const fn none() -> Self {
        Self { futures: None }
    }

    #[inline]
    fn futures(self: Pin<&mut Self>) -> Option<FuturesProj<'_, S, T>> {
        self.project().futures.as_pin_mut().map(Futures::project)
    }

    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        self.futures.as_ref().is_some_and(|futures| futures.sleep.is_some())
    }

    /// Creates the sleep in its final place. A sleep is large: a move costs as much as creation.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the sleep would be moved")]
    pub(crate) fn sleep(self: Pin<&mut Self>, sleep: impl FnOnce() -> S) {
        let mut futures = self.project().futures;
        match futures.as_mut().as_pin_mut() {
            Some(futures) => futures.project().sleep.set(Some(sleep())),
            None => futures.set(Some(Futures { sleep: Some(sleep()), cancelled: None })),
        }
    }

    /// Drops the sleep if any. The token's future stays.
    #[inline]
    pub(crate) fn drop_sleep(self: Pin<&mut Self>) {
        if let Some(mut futures) = self.futures() {
            futures.sleep.set(None);
        }
    }
}

impl<S: Future<Output = ()>, T: Future<Output = ()>> Pending<S, T> {
    /// Returns `Ready` once the sleep has ended, or at once without a sleep.
    #[inline]
    pub(crate) fn poll_sleep(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.futures().and_then(|futures| futures.sleep.as_pin_mut());
        sleep.map_or(Poll::Ready(()), |sleep| sleep.poll(cx))
    }

    /// Returns `Ready` once `token` is cancelled.
    #[inline]
    pub(crate) fn poll_cancelled<K: Cancel<Cancelled = T>>(
        mut self: Pin<&mut Self>,
        token: &K,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if self.futures.as_ref().is_none_or(|futures| futures.cancelled.is_none()) {
            // A token without a future never cancels the call and needs no storage.
            let Some(cancelled) = token.cancelled() else { return Poll::Pending };
            let mut futures = self.as_mut().project().futures;
            match futures.as_mut().as_pin_mut() {
                Some(futures) => futures.project().cancelled.set(Some(cancelled)),
                None => futures.set(Some(Futures { sleep: None, cancelled: Some(cancelled) })),
            }
        }
        let cancelled = self.futures().and_then(|futures| futures.cancelled.as_pin_mut());
        cancelled.map_or(Poll::Pending, |cancelled| cancelled.poll(cx))
    }
}
