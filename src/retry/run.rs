use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::course::Course;
use super::{Event, GaveUp};
use crate::budget::Budget;
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::{Observe, Standard};
use crate::policy::{RetryPolicy, Stop};
use crate::time::{DefaultTimer, Timer};

/// The retry loop in the caller's hands, for operations that borrow `&mut` state.
///
/// [`attempt`](Self::attempt) takes the operation's future, holds it to the token and the deadline, and settles
/// its outcome, good or bad:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), resile::GaveUp<std::io::Error>> {
/// # use resile::{Never, RetryPolicy};
/// # struct Agent(u32);
/// # impl Agent {
/// #     async fn turn(&mut self) -> std::io::Result<u32> {
/// #         self.0 += 1;
/// #         if self.0 < 3 { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(self.0) }
/// #     }
/// # }
/// # let mut agent = Agent(0);
/// let policy = RetryPolicy::new();
/// let mut run = policy.start(Never);
/// let reply = loop {
///     if let Some(reply) = run.attempt(agent.turn()).await? {
///         break reply;
///     }
/// };
/// # assert_eq!(reply, 3);
/// # Ok(())
/// # }
/// ```
///
/// By hand, where the operation must not be cut, each failure goes to [`again`](Self::again) (or, on a thread without
/// a runtime, to [`blocking_again`](Self::blocking_again)) and the success through [`success`](Self::success), which tells the budget and the
/// observer; a run that is dropped without one of these counts as abandoned, which is neither:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), resile::GaveUp<std::io::Error>> {
/// # use resile::{Never, RetryPolicy};
/// # async fn turn() -> std::io::Result<u32> { Ok(3) }
/// let policy = RetryPolicy::new();
/// let mut run = policy.start(Never);
/// let reply = loop {
///     match turn().await {
///         Ok(reply) => break run.success(reply),
///         Err(e) => run.again(e).await?,
///     }
/// };
/// # assert_eq!(reply, 3);
/// # Ok(())
/// # }
/// ```
#[must_use = "a run does nothing unless attempts are made under it"]
pub struct Run<'a, E, C, K, O = Standard, M = DefaultTimer> {
    course: Course<'a, E, C, K, O, M>,
}

impl<C> RetryPolicy<C> {
    /// Starts a [`Run`]: the loop in the caller's hands. The deadline counts from here.
    pub fn start<E, K: Cancel>(&self, token: K) -> Run<'_, E, C, K> {
        let mut course = Course::new(self, token);
        course.note_start();
        Run { course }
    }
}

impl<'a, E, C, K, O, M> Run<'a, E, C, K, O, M> {
    /// Retries are paid from `budget`, and success refills it.
    pub fn with_budget(mut self, budget: &'a Budget) -> Self {
        self.course.tally.set_budget(budget);
        self
    }

    /// `observer` is told what happens, instead of [`Standard`]; for both give `(Standard, observer)`.
    pub fn with_observer<P>(self, observer: P) -> Run<'a, E, C, K, P, M> {
        Run { course: self.course.observed(observer) }
    }

    /// Time is `timer`'s. The deadline counts from here.
    pub fn with_timer<N: Timer>(self, timer: N) -> Run<'a, E, C, K, O, N> {
        let mut course = self.course.timed(timer);
        course.note_start();
        Run { course }
    }

    /// How many attempts were begun.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.course.tally.attempts()
    }
}

impl<E, C, K, O, M> Run<'_, E, C, K, O, M>
where
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
{
    /// Makes one attempt: polls `operation` under the token and the deadline, and settles its outcome. `Some` is
    /// the success, and the end; after `None`, which comes when the delay is over, call it again with the next attempt.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run.
    ///
    /// # Cancel safety
    ///
    /// Dropped in flight, it drops `operation`, and gives back a budget token whose retry has not started.
    pub async fn attempt<Fut, T>(&mut self, operation: Fut) -> Result<Option<T>, GaveUp<E>>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        let begun = match self.course.tally.attempts() {
            0 => self.course.begin_first(),
            _ => self.course.begin_later(),
        };
        if let Err(stop) = begun {
            return Err(self.course.cut(stop));
        }
        let outcome = {
            let mut operation = pin!(operation);
            let mut limit = pin!(None);
            let mut cancelled = pin!(None);
            poll_fn(|cx| {
                if let Poll::Ready(outcome) = operation.as_mut().poll(cx) {
                    return Poll::Ready(Ok(outcome));
                }
                self.course.note_start();
                if limit.is_none() {
                    if let Some(left) = self.course.time_left() {
                        limit.set(Some(self.course.timer.sleep(left)));
                    }
                }
                if poll_slot(cancelled.as_mut(), cx, || self.course.token.cancelled()).is_ready() {
                    return Poll::Ready(Err(Stop::Cancelled));
                }
                match limit.as_mut().as_pin_mut() {
                    Some(limit) => limit.poll(cx).map(|()| Err(Stop::Deadline)),
                    None => Poll::Pending,
                }
            })
            .await
        };
        match outcome {
            Ok(Ok(value)) => {
                self.course.succeeded();
                Ok(Some(value))
            }
            Ok(Err(error)) => self.pause(error).await.map(|()| None),
            Err(stop) => Err(self.course.cut(stop)),
        }
    }

    /// Takes the error of an attempt that the caller made, and waits until the next may be made.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits, it gives back the budget token; the run may go on with the next attempt or end.
    pub async fn again(&mut self, error: E) -> Result<(), GaveUp<E>> {
        self.course.begin_unseen();
        self.pause(error).await?;
        self.course.begin_later().map(|_| ()).map_err(|stop| self.course.cut(stop))
    }

    /// The twin of [`again`](Self::again) for a thread without a runtime: blocks it for the delay, or until the
    /// token is cancelled.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run.
    ///
    /// # Examples
    ///
    /// ```
    /// # use resile::{ManualTimer, Never, RetryPolicy};
    /// # let mut calls = 0;
    /// # let mut read = || { calls += 1; if calls < 3 { Err("busy") } else { Ok("data") } };
    /// let policy = RetryPolicy::new();
    /// let mut run = policy.start(Never);
    /// # let mut run = run.with_timer(ManualTimer::new());
    /// let data = loop {
    ///     match read() {
    ///         Ok(data) => break run.success(data),
    ///         Err(e) => run.blocking_again(e)?,
    ///     }
    /// };
    /// # assert_eq!(data, "data");
    /// # Ok::<(), resile::GaveUp<&str>>(())
    /// ```
    pub fn blocking_again(&mut self, error: E) -> Result<(), GaveUp<E>> {
        self.course.begin_unseen();
        let delay = self.course.failed(error)?.delay;
        if !delay.is_zero() {
            self.park(delay).map_err(|stop| self.course.cut(stop))?;
        }
        self.course.begin_later().map(|_| ()).map_err(|stop| self.course.cut(stop))
    }

    /// Tells the budget and the observer of the success, and hands `value` through.
    #[must_use = "this is the value that the run was for"]
    pub fn success<T>(mut self, value: T) -> T {
        self.course.begin_unseen();
        self.course.succeeded();
        value
    }

    /// Judges `error` and waits out the delay.
    async fn pause(&mut self, error: E) -> Result<(), GaveUp<E>> {
        let delay = self.course.failed(error)?.delay;
        if delay.is_zero() {
            if self.course.must_yield() {
                yield_now().await;
            }
            return Ok(());
        }
        let lent = self.course.tally.lend();
        let cancelled = {
            let mut sleep = pin!(self.course.timer.sleep(delay));
            let mut cancelled = pin!(None);
            poll_fn(|cx| match sleep.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(false),
                Poll::Pending => poll_slot(cancelled.as_mut(), cx, || self.course.token.cancelled()).map(|()| true),
            })
            .await
        };
        if cancelled {
            drop(lent);
            return Err(self.course.cut(Stop::Cancelled));
        }
        self.course.tally.restore(lent);
        Ok(())
    }

    /// Blocks for `delay`, or until the token is cancelled.
    fn park(&self, delay: Duration) -> Result<(), Stop> {
        struct Unpark(std::thread::Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cancelled = pin!(self.course.token.cancelled());
        let until = self.course.timer.now().saturating_add(delay);
        loop {
            if cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                return Err(Stop::Cancelled);
            }
            let left = until.saturating_sub(self.course.timer.now());
            if left.is_zero() {
                return Ok(());
            }
            self.course.timer.park(left);
        }
    }
}

impl<E, C, K, O, M> fmt::Debug for Run<'_, E, C, K, O, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("attempts", &self.course.tally.attempts()).finish_non_exhaustive()
    }
}

/// Polls what is in the slot, making it first where there is nothing yet.
pub(crate) fn poll_slot<F: Future>(
    mut slot: Pin<&mut Option<F>>,
    cx: &mut Context<'_>,
    make: impl FnOnce() -> F,
) -> Poll<F::Output> {
    if slot.is_none() {
        slot.set(Some(make()));
    }
    slot.as_pin_mut().map_or(Poll::Pending, |future| future.poll(cx))
}

async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
