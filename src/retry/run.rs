use std::fmt;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::engine::{CallState, Finish, Pending, PendingOf, Renewed};
use crate::error::GaveUp;
use crate::error::inherited::Left;
use crate::observe::CallKind;
use crate::policy::{AsPolicy, Attempt, Doubt, RetryPolicy};
use crate::quota::{Limits, Report, Usage};
use crate::upstream::{NoUpstream, Target, TargetFor, Via};

/// A retry loop written by the caller, for operations that borrow `&mut` state.
///
/// [`attempt`](Self::attempt) takes the future of the operation. It waits until the attempt may
/// begin, polls the future under the token and the timeouts, and reports the outcome:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), resile::GaveUp<std::io::Error>> {
/// # use resile::{Never, RetryPolicy, Run};
/// # struct Agent(u32);
/// # impl Agent {
/// #     async fn turn(&mut self) -> std::io::Result<u32> {
/// #         self.0 += 1;
/// #         if self.0 < 3 { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(self.0) }
/// #     }
/// # }
/// # let mut agent = Agent(0);
/// let mut run = Run::new(RetryPolicy::new(), Never);
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
/// Some operations must not be dropped in flight. Drive these by hand: [`next`](Self::next) waits
/// until the next attempt may begin, and [`blocking_next`](Self::blocking_next) does so on a thread
/// without a runtime. Report a failure to [`failed`](Self::failed) and a success to
/// [`succeeded`](Self::succeeded). An attempt without a report counts as dropped, and the upstream
/// learns nothing from it:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), resile::GaveUp<std::io::Error>> {
/// # use resile::{Never, RetryPolicy, Run};
/// # async fn turn() -> std::io::Result<u32> { Ok(3) }
/// let mut run = Run::new(RetryPolicy::new(), Never);
/// let reply = loop {
///     run.next().await?;
///     match turn().await {
///         Ok(reply) => break run.succeeded(reply),
///         Err(error) => run.failed(error)?,
///     }
/// };
/// # assert_eq!(reply, 3);
/// # Ok(())
/// # }
/// ```
#[must_use = "a run does nothing unless attempts are made under it"]
pub struct Run<E, P, K, X: Target = NoUpstream> {
    call: CallState<E, Renewed<P>, K, X>,
    /// True if the latest attempt succeeded and was reported.
    has_succeeded: bool,
    /// The number of the attempt last known to have failed.
    failed: u32,
    /// True while the attempt that [`next`](Self::next) began has no report.
    is_open: bool,
    /// The doubt and the key that a drop of that attempt leaves.
    left: Left,
}

impl<E, P, K: Cancel> Run<E, P, K> {
    /// Starts a run. The total timeout counts from this call.
    #[track_caller]
    pub fn new<C>(policy: P, token: K) -> Self
    where
        P: AsPolicy<Policy = RetryPolicy<C>>,
        C: Classify<E>,
    {
        let mut call = CallState::new(CallKind::Run, Renewed::new(policy), token);
        call.engine.note_start();
        Self { call, has_succeeded: false, failed: 0, is_open: false, left: Left::nothing() }
    }

    /// Makes the run on an [`Upstream`](crate::Upstream) shared with other calls, or names the run.
    ///
    /// Call this once, before the first attempt. The total timeout counts from this call.
    pub fn on<Y: Target, M>(self, target: Y) -> Run<E, P, K, Via<Y, M>>
    where
        Via<Y, M>: TargetFor<E>,
    {
        let mut call = self.call.on(Via::new(target));
        call.engine.note_start();
        Run { call, has_succeeded: false, failed: 0, is_open: false, left: Left::nothing() }
    }
}

impl<E, P, K, X: Target> Run<E, P, K, X> {
    /// Sets the call site that the log prints, in place of the one that made this run.
    ///
    /// It is for a crate that makes the calls of its users, such as a middleware of a client.
    pub const fn called_at(mut self, site: &'static Location<'static>) -> Self {
        self.call.engine.set_site(site);
        self
    }

    /// Returns the number of attempts started.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.call.attempts()
    }

    /// Restarts the count of attempts and the growth of the delays.
    ///
    /// Use this for long work that has just made progress. The numbers of the attempts go on, so the
    /// log adds the attempts made so far to those that the policy allows: after progress in the last of
    /// four attempts the lines say "attempt 4 of 8" and then "attempt 5 of 8".
    pub const fn progressed(&mut self) {
        let attempts = self.call.attempts();
        self.call.policy.renew(attempts);
    }

    /// Forgets the attempt before, because another one is to begin. Without a report the caller dropped it, and nobody
    /// knows what it did.
    fn go_on(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.call.note_effect();
        }
        self.left.clear();
        self.call.go_on();
    }
}

impl<E, P, C, K, X> Run<E, P, K, X>
where
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Makes one attempt: waits until it may begin, polls `operation` and reports its outcome.
    ///
    /// `operation` is polled under the token and the timeouts. `Some` is the success and ends the
    /// run. After `None`, call this again, and the next attempt first waits for the delay.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future in flight drops `operation`. The upstream learns nothing from the
    /// attempt, and a breaker's probe is free at once. Dropping the future while it waits leaves
    /// the queue, but the delay continues to run. In both cases the run may go on, and the next
    /// attempt then counts as a retry and is paid for as a retry. Dropping the run gives back the
    /// budget token of a retry that has not started. If its last attempt was dropped in flight, the
    /// observer gets [`EventKind::Dropped`](crate::observe::EventKind::Dropped).
    ///
    /// # Panics
    ///
    /// Panics if polled after completion.
    pub fn attempt<Fut, T>(
        &mut self,
        operation: Fut,
    ) -> impl Future<Output = Result<Option<T>, GaveUp<E>>>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        AttemptFuture {
            run: self,
            phase: Phase::Unstarted,
            operation: Some(operation),
            pending: Pending::none(),
        }
    }

    /// Waits until the next attempt may begin: for the delay, the cooldown and its admission.
    ///
    /// The attempt that follows is not cut: the timeouts and the token end the run between attempts
    /// only. Use [`attempt`](Self::attempt) for an operation that may be dropped.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue, but the delay continues to run and the run may go on.
    pub async fn next(&mut self) -> Result<Attempt, GaveUp<E>> {
        self.has_succeeded = false;
        self.go_on();
        let mut wait = pin!(NextAttempt { run: self, is_done: false, pending: Pending::none() });
        poll_fn(|cx| wait.as_mut().poll(cx)).await
    }

    /// Blocks the thread until the next attempt may begin or the token is cancelled.
    ///
    /// This is [`next`](Self::next) for a thread without a runtime. On a thread of a tokio runtime
    /// it blocks all tasks of that thread. With a paused tokio clock it never returns, because that
    /// clock advances only while the thread is idle, so give the upstream a
    /// [`ManualTimer`](crate::time::ManualTimer) in such a test.
    ///
    /// The attempt that follows is not cut, so the operation needs a timeout of its own. In a future
    /// use [`attempt`](Self::attempt).
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run.
    ///
    /// # Examples
    ///
    /// ```
    /// # use resile::time::ManualTimer;
    /// # use resile::{Never, RetryPolicy, Run, Upstream};
    /// # let mut calls = 0;
    /// # let mut read = || { calls += 1; if calls < 3 { Err("busy") } else { Ok("data") } };
    /// # let disk = Upstream::new("disk").with_timer(ManualTimer::new());
    /// let mut run = Run::new(RetryPolicy::new(), Never).on(&disk);
    /// let data = loop {
    ///     run.blocking_next()?;
    ///     match read() {
    ///         Ok(data) => break run.succeeded(data),
    ///         Err(error) => run.failed(error)?,
    ///     }
    /// };
    /// # assert_eq!(data, "data");
    /// # Ok::<(), resile::GaveUp<&str>>(())
    /// ```
    pub fn blocking_next(&mut self) -> Result<Attempt, GaveUp<E>> {
        self.has_succeeded = false;
        self.go_on();
        let begun = self.call.block_between(0);
        self.opens(begun.is_ok());
        begun
    }

    /// Reports that the attempt failed. An attempt made without [`next`](Self::next) counts too.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run. After `Ok` another attempt may be made.
    pub fn failed(&mut self, error: E) -> Result<(), GaveUp<E>> {
        if self.failed == self.call.attempts() {
            self.call.count_unadmitted();
        }
        self.failed = self.call.attempts();
        self.opens(false);
        self.call.note_error(error);
        self.call.finish_failed(0, Finish::Error).map(|_| ())
    }

    /// Notes whether an attempt without a report is in flight.
    fn opens(&mut self, is_open: bool) {
        self.is_open = is_open;
        self.left.set(if is_open { self.call.asked_leaves() } else { (Doubt::No, false) });
    }

    /// Reports the usage of the current attempt to the quota. For attempts that were begun with
    /// [`next`](Self::next): within [`attempt`](Self::attempt) use
    /// [`quota::record`](crate::quota::record).
    pub fn record(&mut self, usage: Usage) {
        self.call.charge(0, &Report { usage: Some(usage), limits: None });
    }

    /// Reports the limits of an answer to the quota, as [`record`](Self::record) does the usage.
    pub fn learn(&mut self, limits: Limits) {
        self.call.charge(0, &Report { usage: None, limits: Some(limits) });
    }

    /// Reports that the attempt succeeded, unless [`attempt`](Self::attempt) did. Returns `value`.
    #[must_use = "this is the result of the run"]
    pub fn succeeded<T>(mut self, value: T) -> T {
        self.left.clear();
        if !self.has_succeeded {
            let attempts = self.call.attempts();
            self.call.succeeded_at(0, attempts, None);
        }
        value
    }
}

impl<E, P, K, X: Target> fmt::Debug for Run<E, P, K, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("attempts", &self.call.attempts()).finish_non_exhaustive()
    }
}

pin_project! {
    /// The wait for the next attempt. Leaves the queue when dropped.
    struct NextAttempt<'r, E, P, K, X>
    where
        K: Cancel,
        X: Target,
    {
        run: &'r mut Run<E, P, K, X>,
        is_done: bool,
        #[pin]
        pending: PendingOf<X, K>,
    }

    impl<E, P, K: Cancel, X: Target> PinnedDrop for NextAttempt<'_, E, P, K, X> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if !*this.is_done {
                this.run.call.leave_queue(0);
            }
        }
    }
}

impl<E, P, C, K, X> NextAttempt<'_, E, P, K, X>
where
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Attempt, GaveUp<E>>> {
        let this = self.project();
        let begun = ready!(this.run.call.poll_between(0, None, this.pending, cx));
        *this.is_done = true;
        this.run.opens(begun.is_ok());
        Poll::Ready(begun)
    }
}

pin_project! {
    /// One attempt of a [`Run`]. Written by hand, because an `async fn` would store the operation
    /// twice: as its argument and at its poll.
    struct AttemptFuture<'r, Fut, E, P, K, X>
    where
        K: Cancel,
        X: Target,
    {
        run: &'r mut Run<E, P, K, X>,
        phase: Phase,
        // `None` once the operation has ended.
        #[pin]
        operation: Option<Fut>,
        #[pin]
        pending: PendingOf<X, K>,
    }

    // The run outlives this future, so dropping the future must give back what the attempt holds.
    impl<Fut, E, P, K: Cancel, X: Target> PinnedDrop for AttemptFuture<'_, Fut, E, P, K, X> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            match this.phase {
                Phase::Polling => {
                    let operation = &mut this.operation;
                    this.run.call.drop_attempt(0, || operation.set(None));
                }
                Phase::Waiting => this.run.call.leave_queue(0),
                Phase::Unstarted | Phase::Done => {}
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Phase {
    Unstarted,
    // Before the attempt may begin.
    Waiting,
    Polling,
    Done,
}

impl<Fut, T, E, P, C, K, X> Future for AttemptFuture<'_, Fut, E, P, K, X>
where
    Fut: Future<Output = Result<T, E>>,
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    type Output = Result<Option<T>, GaveUp<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Phase::Unstarted = this.phase {
            this.run.go_on();
            *this.phase = Phase::Waiting;
        }
        let call = &mut this.run.call;
        if let Phase::Waiting = this.phase {
            let begun = ready!(call.poll_between(0, None, this.pending.as_mut(), cx));
            *this.phase = if begun.is_ok() { Phase::Polling } else { Phase::Done };
            this.run.has_succeeded = false;
            begun?;
        }
        let operation =
            this.operation.as_mut().as_pin_mut().expect("`Run::attempt` polled after completion");
        let outcome = ready!(call.poll_attempt(0, operation, this.pending.as_mut(), cx));
        // Drop the operation before its outcome is reported.
        let is_cut = outcome.as_ref().is_err_and(|finish| finish.is_cut());
        call.dropping(0, is_cut, || this.operation.set(None));
        *this.phase = Phase::Done;
        Poll::Ready(match outcome {
            Ok(value) => {
                let attempts = call.attempts();
                call.succeeded(0, attempts);
                this.run.has_succeeded = true;
                Ok(Some(value))
            }
            Err(finish) => {
                this.run.failed = call.attempts();
                call.finish(0, finish).map(|_| None)
            }
        })
    }
}
