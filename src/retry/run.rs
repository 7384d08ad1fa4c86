use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::attempting::Attempting;
use super::course::{Course, Refusal};
use super::links::{Links, Unlinked};
use super::{Event, GaveUp};
use crate::cancel::{Cancel, poll_cancelled};
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
/// a runtime, to [`blocking_again`](Self::blocking_again)) and the success through [`success`](Self::success), which
/// tells the budget and the observer; a run that is dropped without one of these counts as abandoned, which is neither:
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
pub struct Run<'a, E, C, K, O = Standard, M = DefaultTimer, L = Unlinked> {
    pub(super) course: Course<'a, E, C, K, O, M, L>,
    /// Whether an attempt was counted that the caller has yet to make: [`again`](Self::again) returned.
    pub(super) announced: bool,
    /// Whether [`attempt`](Self::attempt) has brought the success.
    pub(super) succeeded: bool,
}

impl<C> RetryPolicy<C> {
    /// Starts a [`Run`]: the loop in the caller's hands. The deadline counts from here.
    #[track_caller]
    pub fn start<E, K: Cancel>(&self, token: K) -> Run<'_, E, C, K> {
        let mut course = Course::new(self, token);
        course.note_start();
        Run { course, announced: false, succeeded: false }
    }
}

impl<E, C, K, O, M, L> Run<'_, E, C, K, O, M, L> {
    /// How many attempts were begun.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.course.tally.attempts()
    }
}

impl<E, C, K, O, M, L> Run<'_, E, C, K, O, M, L>
where
    C: Classify<E>,
    K: Cancel,
    O: for<'e> Observe<Event<'e, E>>,
    M: Timer,
    L: Links,
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
    /// Dropped in flight, it drops `operation`, tells a breaker nothing (a probe's place is free at once), and gives
    /// back a budget token whose retry has not started. The run may go on: the next attempt counts and is paid for as
    /// the retry that it is, and comes without a delay.
    ///
    /// # Panics
    ///
    /// If polled after completion.
    pub fn attempt<Fut, T>(&mut self, operation: Fut) -> impl Future<Output = Result<Option<T>, GaveUp<E>>>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        Attempting::new(self, operation)
    }

    /// Takes the error of an attempt that the caller made, and waits until the next may be made.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits, it gives back the budget token; the run may end, or go on with the next attempt, which
    /// is then paid for when it is made known.
    pub async fn again(&mut self, error: E) -> Result<(), GaveUp<E>> {
        self.begin_unseen();
        self.pause(error).await?;
        while let Some(hold) = self.announce()? {
            let lent = self.course.tally.lend();
            if cancelled_in(self.course.timer.sleep(hold), &self.course.token).await {
                drop(lent);
                return Err(self.course.cut(Stop::Cancelled));
            }
            self.course.tally.restore(lent);
        }
        Ok(())
    }

    /// The twin of [`again`](Self::again) for a thread without a runtime: blocks it for the delay, or until the
    /// token is cancelled.
    ///
    /// Within a tokio runtime it blocks all that this thread would poll, and where the runtime's clock is paused it
    /// never returns: that clock moves on only when the thread that is blocked has nothing to do. In such a test give
    /// the run a [`ManualTimer`](crate::ManualTimer).
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
        self.begin_unseen();
        let delay = self.course.failed(error)?.delay;
        if !delay.is_zero() {
            self.park(delay).map_err(|stop| self.course.cut(stop))?;
        }
        while let Some(hold) = self.announce()? {
            self.park(hold).map_err(|stop| self.course.cut(stop))?;
        }
        Ok(())
    }

    /// Tells the budget and the observer of the success, and hands `value` through.
    ///
    /// The success of an [`attempt`](Self::attempt) they know already, so of that it tells nothing.
    #[must_use = "this is the value that the run was for"]
    pub fn success<T>(mut self, value: T) -> T {
        if !self.succeeded {
            self.begin_unseen();
            self.course.succeeded();
        }
        value
    }

    /// Counts the attempt whose outcome the caller brings, unless it was announced.
    fn begin_unseen(&mut self) {
        if !std::mem::take(&mut self.announced) {
            self.course.begin_unseen();
        }
    }

    /// Lets the next attempt begin, before the caller makes it; or says how long a cooldown holds it.
    fn announce(&mut self) -> Result<Option<Duration>, GaveUp<E>> {
        match self.course.begin_later() {
            Ok(_) => {
                self.announced = true;
                Ok(None)
            }
            Err(Refusal::Hold(delay)) => Ok(Some(delay)),
            Err(refusal) => Err(self.course.cut(refusal)),
        }
    }

    /// Judges `error` and waits out the delay.
    async fn pause(&mut self, error: E) -> Result<(), GaveUp<E>> {
        let next = self.course.failed(error)?;
        let lent = self.course.tally.lend();
        if next.waits() {
            let at = self.course.resumes_at(&next);
            if cancelled_in(self.course.timer.sleep_until(at), &self.course.token).await {
                drop(lent);
                return Err(self.course.cut(Stop::Cancelled));
            }
        }
        if self.course.must_yield() {
            yield_now().await;
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

impl<E, C, K, O, M, L> fmt::Debug for Run<'_, E, C, K, O, M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("attempts", &self.course.tally.attempts()).finish_non_exhaustive()
    }
}

/// Waits for `sleep`; true if the token was cancelled first.
async fn cancelled_in<K: Cancel>(sleep: impl Future<Output = ()>, token: &K) -> bool {
    let mut sleep = pin!(sleep);
    let mut cancelled = pin!(None);
    poll_fn(|cx| match sleep.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(false),
        Poll::Pending => poll_cancelled(token, cancelled.as_mut(), cx).map(|()| true),
    })
    .await
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
