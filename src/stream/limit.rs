use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;

use crate::time::Timer;
use crate::timeout::{Elapsed, Missed};
use crate::upstream::{Endpoint, NoUpstream, Target};

pin_project! {
    /// A stream with a limit on silence. Made by
    /// [`StreamResilienceExt`](crate::StreamResilienceExt).
    #[must_use = "streams do nothing unless polled"]
    pub struct StreamTimeout<S, F, X = NoUpstream>
    where
        X: Target,
    {
        limit: Duration,
        missed: Missed,
        is_progress: F,
        target: X,
        // `None` once the stream has ended or the limit has run out.
        #[pin]
        stream: Option<S>,
        // Made when the stream is first found pending after the limit was last met.
        #[pin]
        sleep: Option<X::Sleep>,
        // Set once the limit on a first item is met. It then never applies again.
        met: bool,
    }
}

impl<S, F> StreamTimeout<S, F> {
    #[inline]
    pub(crate) fn new(stream: S, limit: Duration, missed: Missed, is_progress: F) -> Self {
        Self {
            limit,
            missed,
            is_progress,
            target: NoUpstream,
            stream: Some(stream),
            sleep: None,
            met: false,
        }
    }

    /// Uses the timer of an [`Upstream`](crate::Upstream) for the limit.
    #[inline]
    pub fn on<Y: Target>(self, target: Y) -> StreamTimeout<S, F, Y> {
        let Self { limit, missed, is_progress, stream, met, .. } = self;
        StreamTimeout { limit, missed, is_progress, target, stream, sleep: None, met }
    }
}

impl<S, F, X> StreamTimeout<S, F, X>
where
    X: Target + Endpoint<Timer: Timer<Sleep = <X as Endpoint>::Sleep>, Sleep: Future<Output = ()>>,
{
    /// Returns `Ready` once the limit has run out.
    fn poll_limit(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if *this.met {
            return Poll::Pending;
        }
        if this.limit.is_zero() {
            return Poll::Ready(());
        }
        if this.sleep.is_none() {
            this.sleep.set(Some(this.target.timer().sleep(*this.limit)));
        }
        this.sleep.as_pin_mut().map_or(Poll::Pending, |sleep| sleep.poll(cx))
    }

    /// Drops the stream. No more items follow.
    fn end(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.sleep.set(None);
        this.stream.set(None);
    }
}

impl<S, T, E, F, X> Stream for StreamTimeout<S, F, X>
where
    S: Stream<Item = Result<T, E>>,
    E: From<Elapsed>,
    F: FnMut(&T) -> bool,
    X: Target + Endpoint<Timer: Timer<Sleep = <X as Endpoint>::Sleep>, Sleep: Future<Output = ()>>,
{
    type Item = Result<T, E>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.as_mut().project();
        let Some(stream) = this.stream.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        match stream.poll_next(cx) {
            Poll::Ready(Some(item)) => {
                // An error counts as progress because the sender is active.
                if item.as_ref().map_or(true, this.is_progress) {
                    *this.met |= *this.missed == Missed::FirstItem;
                    this.sleep.set(None);
                    return Poll::Ready(Some(item));
                }
                // The limit is also checked after an item. Otherwise a sender that is never silent
                // could exceed the limit forever.
                if self.as_mut().poll_limit(cx).is_pending() {
                    return Poll::Ready(Some(item));
                }
            }
            Poll::Ready(None) => {
                self.end();
                return Poll::Ready(None);
            }
            Poll::Pending => ready!(self.as_mut().poll_limit(cx)),
        }
        let elapsed = Elapsed::new(self.limit, self.missed);
        self.end();
        Poll::Ready(Some(Err(elapsed.into())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.stream {
            None => (0, Some(0)),
            // The error for the limit may be one more item.
            Some(stream) => (0, stream.size_hint().1.and_then(|most| most.checked_add(1))),
        }
    }
}

impl<S, F, X> FusedStream for StreamTimeout<S, F, X>
where
    Self: Stream,
    X: Target,
{
    fn is_terminated(&self) -> bool {
        self.stream.is_none()
    }
}

impl<S, F, X: Target> fmt::Debug for StreamTimeout<S, F, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamTimeout").field("limit", &self.limit).finish_non_exhaustive()
    }
}
