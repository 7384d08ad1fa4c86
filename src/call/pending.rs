use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::cancel::Cancel;
use crate::upstream::Endpoint;

/// What a call with that target and token waits for.
pub(crate) type PendingOf<X, K> = Pending<<X as Endpoint>::Sleep, <K as Cancel>::Cancelled>;

pin_project! {
    /// What a call waits for beside its work, each made the first time that it has to be waited for.
    pub(crate) struct Pending<S, T> {
        #[pin]
        slots: Option<Slots<S, T>>,
    }
}

pin_project! {
    #[project = SlotsProj]
    struct Slots<S, T> {
        #[pin]
        sleep: Option<S>,
        // The token's future.
        #[pin]
        cancelled: Option<T>,
    }

    // Most calls end without a wait, and should not pay for dropping one: said to be rare, it stays out of their way.
    impl<S, T> PinnedDrop for Slots<S, T> {
        fn drop(this: Pin<&mut Self>) {
            this.clear();
        }
    }
}

impl<S, T> Slots<S, T> {
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
        Self { slots: None }
    }

    #[inline]
    fn slots(self: Pin<&mut Self>) -> Option<SlotsProj<'_, S, T>> {
        self.project().slots.as_pin_mut().map(Slots::project)
    }

    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        self.slots.as_ref().is_some_and(|slots| slots.sleep.is_some())
    }

    /// Pending from now on for what `sleep` makes, in the place where it stays: a sleep is large, and to move it costs as
    /// much as to make it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line it would be moved after all")]
    pub(crate) fn sleep(self: Pin<&mut Self>, sleep: impl FnOnce() -> S) {
        let mut slots = self.project().slots;
        match slots.as_mut().as_pin_mut() {
            Some(slots) => slots.project().sleep.set(Some(sleep())),
            None => slots.set(Some(Slots { sleep: Some(sleep()), cancelled: None })),
        }
    }

    /// Pending for no sleep any more.
    #[inline]
    pub(crate) fn wake(self: Pin<&mut Self>) {
        if let Some(mut slots) = self.slots() {
            slots.sleep.set(None);
        }
    }
}

impl<S: Future<Output = ()>, T: Future<Output = ()>> Pending<S, T> {
    /// Ready once the sleep is over, or where there is none.
    #[inline]
    pub(crate) fn poll_sleep(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.slots().and_then(|slots| slots.sleep.as_pin_mut());
        sleep.map_or(Poll::Ready(()), |sleep| sleep.poll(cx))
    }

    /// Ready once `token` is cancelled.
    #[inline]
    pub(crate) fn poll_cancelled<K: Cancel<Cancelled = T>>(
        mut self: Pin<&mut Self>,
        token: &K,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if self.slots.as_ref().is_none_or(|slots| slots.cancelled.is_none()) {
            // Not even room is made for what never comes.
            let Some(cancelled) = token.cancelled() else { return Poll::Pending };
            let mut slots = self.as_mut().project().slots;
            match slots.as_mut().as_pin_mut() {
                Some(slots) => slots.project().cancelled.set(Some(cancelled)),
                None => slots.set(Some(Slots { sleep: None, cancelled: Some(cancelled) })),
            }
        }
        let cancelled = self.slots().and_then(|slots| slots.cancelled.as_pin_mut());
        cancelled.map_or(Poll::Pending, |cancelled| cancelled.poll(cx))
    }
}
