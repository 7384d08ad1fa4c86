use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::call::{CallState, Ended, GaveUp, Pending, PendingOf, Renewed};
use crate::cancel::Cancel;
use crate::classify::Classify;
use crate::observe::CallKind;
use crate::policy::{AsPolicy, Attempt, RetryPolicy};
use crate::upstream::{NoUpstream, Target, TargetFor};

/// The retry loop in the caller's hands, for operations that borrow `&mut` state.
///
/// [`attempt`](Self::attempt) takes the operation's future, waits until the attempt may begin, holds it to the token and
/// the timeouts, and settles its outcome, good or bad:
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
/// By hand, where the operation must not be cut, [`next`](Self::next) (or, on a thread without a runtime,
/// [`blocking_next`](Self::blocking_next)) waits until the next attempt may begin. Its failure goes to
/// [`failed`](Self::failed) and its success through [`succeeded`](Self::succeeded); an attempt that is followed by
/// neither was dropped, which says nothing of the upstream:
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
    /// Whether its latest attempt succeeded, and that was reported.
    has_succeeded: bool,
    /// The number of the attempt that was last reported to have failed.
    failed: u32,
}

impl<E, P, K: Cancel> Run<E, P, K> {
    /// Starts a run. The total timeout counts from here.
    #[track_caller]
    pub fn new<C>(policy: P, token: K) -> Self
    where
        P: AsPolicy<Policy = RetryPolicy<C>>,
        C: Classify<E>,
    {
        let mut call = CallState::new(CallKind::Run, Renewed::new(policy), token);
        call.note_start();
        Self { call, has_succeeded: false, failed: 0 }
    }

    /// Sends the run to an [`Upstream`](crate::Upstream), which its attempts share with other calls; or gives it a name.
    /// Before the first attempt, and once. The total timeout counts from here.
    pub fn on<Y: TargetFor<E>>(self, target: Y) -> Run<E, P, K, Y> {
        let mut call = self.call.on(target);
        call.note_start();
        Run { call, has_succeeded: false, failed: 0 }
    }
}

impl<E, P, K, X: Target> Run<E, P, K, X> {
    /// Returns how many attempts were begun.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.call.attempts()
    }

    /// Lets the attempts and the growth of the delays count anew from here: for work that goes on for long and has just
    /// made progress.
    pub const fn progressed(&mut self) {
        let attempts = self.call.attempts();
        self.call.policy.renew(attempts);
    }
}

impl<E, P, C, K, X> Run<E, P, K, X>
where
    P: AsPolicy<Policy = RetryPolicy<C>>,
    C: Classify<E>,
    K: Cancel,
    X: TargetFor<E>,
{
    /// Makes one attempt: waits until it may begin, polls `operation` under the token and the timeouts, and settles its
    /// outcome. `Some` is the success, and the end; after `None` call it again with the next attempt, which then waits
    /// out the delay.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run.
    ///
    /// # Cancel safety
    ///
    /// Dropped in flight, it drops `operation` and says nothing of the upstream: a probe's place is free at once. Dropped
    /// while it waits, it leaves the line; the delay goes on. The run may go on in both cases: the next attempt counts and
    /// is paid for as the retry that it is. A budget token whose retry has not begun goes back with the run.
    ///
    /// # Panics
    ///
    /// If polled after completion.
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

    /// Pending until the next attempt may begin: the delay, a hold, the line, and its admission.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits, it leaves the line; the delay goes on, and the run may go on.
    pub async fn next(&mut self) -> Result<Attempt, GaveUp<E>> {
        if self.call.attempts() == 0 {
            self.call.note_nesting();
        }
        self.has_succeeded = false;
        let mut wait =
            pin!(NextAttempt { call: &mut self.call, is_done: false, pending: Pending::none() });
        poll_fn(|cx| wait.as_mut().poll(cx)).await
    }

    /// The twin of [`next`](Self::next) for a thread without a runtime: blocks it until the next attempt may begin, or
    /// until the token is cancelled.
    ///
    /// Within a tokio runtime it blocks all that this thread would poll, and where the runtime's clock is paused it
    /// never returns: that clock moves on only when the thread that is blocked has nothing to do. In such a test give
    /// the upstream a [`ManualTimer`](crate::ManualTimer).
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run.
    ///
    /// # Examples
    ///
    /// ```
    /// # use resile::{ManualTimer, Never, RetryPolicy, Run, Upstream};
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
        if self.call.attempts() == 0 {
            self.call.note_nesting();
        }
        self.has_succeeded = false;
        self.call.block_between(0)
    }

    /// Reports that the attempt failed. One that was made without a [`next`](Self::next) counts all the same.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] ends the run. `Ok`: another attempt may be made.
    pub fn failed(&mut self, error: E) -> Result<(), GaveUp<E>> {
        if self.failed == self.call.attempts() {
            self.call.count_unseen();
        }
        self.failed = self.call.attempts();
        self.call.note_error(error);
        self.call.failed(0, Ended::Error).map(|_| ())
    }

    /// Reports that the attempt succeeded, unless [`attempt`](Self::attempt) did, and hands `value` through.
    #[must_use = "this is the value that the run was for"]
    pub fn succeeded<T>(mut self, value: T) -> T {
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
    /// The wait for the next attempt. Dropped, it leaves the line.
    struct NextAttempt<'r, E, P, K, X>
    where
        K: Cancel,
        X: Target,
    {
        call: &'r mut CallState<E, Renewed<P>, K, X>,
        is_done: bool,
        #[pin]
        pending: PendingOf<X, K>,
    }

    impl<E, P, K: Cancel, X: Target> PinnedDrop for NextAttempt<'_, E, P, K, X> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if !*this.is_done {
                this.call.leave_queue(0);
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
        let begun = ready!(this.call.poll_between(0, this.pending, cx));
        *this.is_done = true;
        Poll::Ready(begun)
    }
}

pin_project! {
    /// One attempt of a [`Run`]. By hand, as an `async fn` would hold the operation twice: as its argument and where it is
    /// polled.
    struct AttemptFuture<'r, Fut, E, P, K, X>
    where
        K: Cancel,
        X: Target,
    {
        run: &'r mut Run<E, P, K, X>,
        phase: Phase,
        // `None` once it has ended.
        #[pin]
        operation: Option<Fut>,
        #[pin]
        pending: PendingOf<X, K>,
    }

    // The run outlives it: what an attempt holds at an upstream must not wait for the run to end.
    impl<Fut, E, P, K: Cancel, X: Target> PinnedDrop for AttemptFuture<'_, Fut, E, P, K, X> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            match this.phase {
                Phase::Polling => {
                    this.operation.set(None);
                    this.run.call.drop_attempt(0);
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
    // Until the attempt may begin.
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
        let call = &mut this.run.call;
        if let Phase::Unstarted = this.phase {
            if call.attempts() == 0 {
                call.note_nesting();
            }
            *this.phase = Phase::Waiting;
        }
        if let Phase::Waiting = this.phase {
            let begun = ready!(call.poll_between(0, this.pending.as_mut(), cx));
            *this.phase = if begun.is_ok() { Phase::Polling } else { Phase::Done };
            this.run.has_succeeded = false;
            begun?;
        }
        let operation =
            this.operation.as_mut().as_pin_mut().expect("`Run::attempt` polled after completion");
        let outcome = ready!(call.poll_attempt(0, operation, this.pending.as_mut(), cx));
        // The operation is dropped before anybody hears of its outcome.
        this.operation.set(None);
        *this.phase = Phase::Done;
        Poll::Ready(match outcome {
            Ok(value) => {
                let attempts = call.attempts();
                call.succeeded(0, attempts);
                this.run.has_succeeded = true;
                Ok(Some(value))
            }
            Err(ended) => call.ended(0, ended).map(|_| None),
        })
    }
}
