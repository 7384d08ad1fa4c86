use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::queue::Entry;
use super::{Bulkhead, Full, Permit};

/// A future that acquires a [`Permit`]. Made by [`Bulkhead::acquire`].
#[must_use = "futures do nothing unless `.await`ed or polled"]
pub struct Acquire<'a> {
    bulkhead: &'a Bulkhead,
    /// The ticket in the queue, while waiting.
    ticket: Option<u64>,
}

impl<'a> Acquire<'a> {
    pub(super) const fn new(bulkhead: &'a Bulkhead) -> Self {
        Self { bulkhead, ticket: None }
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<Permit<'a>, Full>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let bulkhead = self.bulkhead;
        if let Some(ticket) = self.ticket {
            ready!(bulkhead.poll_ticket(ticket, cx.waker()));
            self.ticket = None;
            return Poll::Ready(Ok(Permit { bulkhead }));
        }
        if let Ok(permit) = bulkhead.try_acquire() {
            return Poll::Ready(Ok(permit));
        }
        match bulkhead.enqueue(cx.waker()) {
            Ok(Entry::In) => Poll::Ready(Ok(Permit { bulkhead })),
            Ok(Entry::Pending(ticket)) => {
                self.ticket = Some(ticket);
                Poll::Pending
            }
            Err(full) => Poll::Ready(Err(full)),
        }
    }
}

impl Drop for Acquire<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.bulkhead.give_up(ticket);
        }
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").field("waiting", &self.ticket.is_some()).finish_non_exhaustive()
    }
}

pin_project! {
    /// A future that runs with a permit of a bulkhead. Made by
    /// [`ResilienceExt::limited_by`](crate::ResilienceExt::limited_by).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct Limited<'a, F> {
        // Fields drop in this order: the future ends before its permit is released.
        #[pin]
        future: Option<F>,
        place: Place<'a>,
    }
}

enum Place<'a> {
    Wanted { acquire: Acquire<'a> },
    Held { _permit: Permit<'a> },
    Left,
}

impl<'a, F> Limited<'a, F> {
    #[inline]
    pub(crate) const fn new(future: F, bulkhead: &'a Bulkhead) -> Self {
        Self { future: Some(future), place: Place::Wanted { acquire: bulkhead.acquire() } }
    }
}

impl<F, T, E> Future for Limited<'_, F>
where
    F: Future<Output = Result<T, E>>,
    E: From<Full>,
{
    type Output = Result<T, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Place::Wanted { acquire } = this.place {
            match ready!(Pin::new(acquire).poll(cx)) {
                Ok(permit) => *this.place = Place::Held { _permit: permit },
                Err(full) => {
                    this.future.set(None);
                    *this.place = Place::Left;
                    return Poll::Ready(Err(full.into()));
                }
            }
        }
        let future = this.future.as_mut().as_pin_mut();
        let output = ready!(future.expect("`Limited` polled after completion").poll(cx));
        // Dropped now and not with `self`, because a finished future may be kept for long.
        this.future.set(None);
        *this.place = Place::Left;
        Poll::Ready(output)
    }
}

impl<F> fmt::Debug for Limited<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.place {
            Place::Wanted { .. } => "waiting",
            Place::Held { .. } => "running",
            Place::Left => "done",
        };
        f.debug_struct("Limited").field("state", &state).finish_non_exhaustive()
    }
}
