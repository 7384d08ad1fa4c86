use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;

use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, TimerSlot};
use crate::timeout::Elapsed;

pin_project! {
    /// A stream with a limit on its silence. Made by [`StreamResilienceExt`](crate::StreamResilienceExt).
    #[must_use = "streams do nothing unless polled"]
    pub struct StreamTimeout<S, W, M = DefaultTimer>
    where
        M: TimerSlot,
    {
        limit: Duration,
        watch: W,
        timer: M,
        // Gone once it has ended or was cut.
        #[pin]
        stream: Option<S>,
        // Made when the stream first had to be waited for since the limit was last met.
        #[pin]
        sleep: Option<M::Sleep>,
        // For good.
        met: bool,
    }
}

/// What an item means for the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meets {
    /// The limit is met, and starts anew.
    Again,
    /// The limit is met for good.
    ForGood,
    /// The limit runs on.
    Not,
}

/// Which items meet a limit. Nobody needs to implement it.
pub trait Watch<T>: sealed::Sealed {
    #[doc(hidden)]
    fn meets(&mut self, item: &T) -> Meets;

    /// Returns the meaning of an item that is an error: its sender is not silent.
    #[doc(hidden)]
    fn meets_error(&mut self) -> Meets {
        Meets::Again
    }

    #[doc(hidden)]
    fn elapsed(limit: Duration) -> Elapsed;
}

/// Every item meets the limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Every;

/// The first item meets the limit for good.
#[derive(Clone, Copy, Debug, Default)]
pub struct First;

/// Items that the caller's function calls progress meet the limit.
#[derive(Clone, Copy)]
pub struct Progress<F>(pub(crate) F);

impl<T> Watch<T> for Every {
    fn meets(&mut self, _: &T) -> Meets {
        Meets::Again
    }

    fn elapsed(limit: Duration) -> Elapsed {
        Elapsed::item(limit)
    }
}

impl<T> Watch<T> for First {
    fn meets(&mut self, _: &T) -> Meets {
        Meets::ForGood
    }

    fn meets_error(&mut self) -> Meets {
        Meets::ForGood
    }

    fn elapsed(limit: Duration) -> Elapsed {
        Elapsed::first_item(limit)
    }
}

impl<T, F: FnMut(&T) -> bool> Watch<T> for Progress<F> {
    fn meets(&mut self, item: &T) -> Meets {
        if (self.0)(item) { Meets::Again } else { Meets::Not }
    }

    fn elapsed(limit: Duration) -> Elapsed {
        Elapsed::progress(limit)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Every {}
    impl Sealed for super::First {}
    impl<F> Sealed for super::Progress<F> {}
}

impl<F> fmt::Debug for Progress<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}

impl<S, W> StreamTimeout<S, W> {
    #[inline]
    pub(crate) fn new(stream: S, limit: Duration, watch: W) -> Self {
        Self { limit, watch, timer: DEFAULT_TIMER, stream: Some(stream), sleep: None, met: false }
    }
}

impl<S, W, M: TimerSlot> StreamTimeout<S, W, M> {
    /// Time is `timer`'s.
    #[inline]
    pub fn with_timer<N: Timer>(self, timer: N) -> StreamTimeout<S, W, N> {
        let Self { limit, watch, stream, met, .. } = self;
        StreamTimeout { limit, watch, timer, stream, sleep: None, met }
    }
}

impl<S, W, M: Timer> StreamTimeout<S, W, M> {
    /// Ready once the limit has run out.
    fn poll_limit(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if *this.met {
            return Poll::Pending;
        }
        if this.limit.is_zero() {
            return Poll::Ready(());
        }
        if this.sleep.is_none() {
            this.sleep.set(Some(this.timer.sleep(*this.limit)));
        }
        this.sleep.as_pin_mut().map_or(Poll::Pending, |sleep| sleep.poll(cx))
    }

    /// Drops the stream: nothing comes any more.
    fn end(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.sleep.set(None);
        this.stream.set(None);
    }
}

impl<S, T, E, W, M> Stream for StreamTimeout<S, W, M>
where
    S: Stream<Item = Result<T, E>>,
    E: From<Elapsed>,
    W: Watch<T>,
    M: Timer,
{
    type Item = Result<T, E>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.as_mut().project();
        let Some(stream) = this.stream.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        match stream.poll_next(cx) {
            Poll::Ready(Some(item)) => {
                let meets = match &item {
                    Ok(item) => this.watch.meets(item),
                    Err(_) => this.watch.meets_error(),
                };
                if meets == Meets::Not {
                    // Asked here too: a peer that is never silent would otherwise never be found out.
                    if self.as_mut().poll_limit(cx).is_pending() {
                        return Poll::Ready(Some(item));
                    }
                } else {
                    *this.met |= meets == Meets::ForGood;
                    this.sleep.set(None);
                    return Poll::Ready(Some(item));
                }
            }
            Poll::Ready(None) => {
                self.end();
                return Poll::Ready(None);
            }
            Poll::Pending => ready!(self.as_mut().poll_limit(cx)),
        }
        let elapsed = W::elapsed(self.limit);
        self.end();
        Poll::Ready(Some(Err(elapsed.into())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.stream {
            None => (0, Some(0)),
            // The error of the limit may come on top.
            Some(stream) => (0, stream.size_hint().1.and_then(|most| most.checked_add(1))),
        }
    }
}

impl<S, T, E, W, M> FusedStream for StreamTimeout<S, W, M>
where
    S: Stream<Item = Result<T, E>>,
    E: From<Elapsed>,
    W: Watch<T>,
    M: Timer,
{
    fn is_terminated(&self) -> bool {
        self.stream.is_none()
    }
}

impl<S, W, M: TimerSlot> fmt::Debug for StreamTimeout<S, W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamTimeout").field("limit", &self.limit).finish_non_exhaustive()
    }
}
