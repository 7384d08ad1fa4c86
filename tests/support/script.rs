//! A scripted operation that counts its starts, polls and drops. Also drivers that poll a future
//! without a runtime.

#![allow(dead_code, reason = "each test binary uses some of it")]

use std::error::Error;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resile::Upstream;
use resile::time::{ManualTimer, Timer};
use resile::timeout::Elapsed;

/// The behaviour of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Succeed,
    Fail,
    /// Stays pending for that many polls and wakes itself each time. Then it succeeds if the flag
    /// is true, or fails.
    Pend(u32, bool),
    /// Stays pending for ever.
    Hang,
}

/// The error of the n-th start, counted from 1. An adapter that refuses the call has number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Down(pub u32);

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "down, {}", self.0)
    }
}

impl Error for Down {}

impl From<Elapsed> for Down {
    fn from(_: Elapsed) -> Self {
        Self(0)
    }
}

/// An operation with one step for each start. The last step repeats.
#[derive(Debug)]
pub(crate) struct Script {
    steps: &'static [Step],
    starts: AtomicU32,
    begun: AtomicU32,
    drops: AtomicU32,
    polls: AtomicU32,
}

impl Script {
    pub(crate) fn new(steps: &'static [Step]) -> Self {
        let [starts, begun, drops, polls] = [const { AtomicU32::new(0) }; 4];
        Self { steps, starts, begun, drops, polls }
    }

    pub(crate) fn play(&self) -> Playing<'_> {
        let number = self.starts.fetch_add(1, SeqCst) + 1;
        let at = usize::try_from(number - 1).unwrap().min(self.steps.len() - 1);
        Playing { script: self, number, begun: false, step: self.steps[at] }
    }

    pub(crate) fn starts(&self) -> u32 {
        self.starts.load(SeqCst)
    }

    /// Returns the number of starts that were polled at least once.
    pub(crate) fn begun(&self) -> u32 {
        self.begun.load(SeqCst)
    }

    pub(crate) fn drops(&self) -> u32 {
        self.drops.load(SeqCst)
    }

    pub(crate) fn polls(&self) -> u32 {
        self.polls.load(SeqCst)
    }
}

/// One start of a script. It succeeds with its own number, or fails with [`Down`] of that number.
#[derive(Debug)]
pub(crate) struct Playing<'s> {
    script: &'s Script,
    number: u32,
    begun: bool,
    step: Step,
}

impl Future for Playing<'_> {
    type Output = Result<u32, Down>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.script.polls.fetch_add(1, SeqCst);
        if !std::mem::replace(&mut self.begun, true) {
            self.script.begun.fetch_add(1, SeqCst);
        }
        match self.step {
            Step::Succeed | Step::Pend(0, true) => Poll::Ready(Ok(self.number)),
            Step::Fail | Step::Pend(0, false) => Poll::Ready(Err(Down(self.number))),
            Step::Pend(left, outcome) => {
                self.step = Step::Pend(left - 1, outcome);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Step::Hang => Poll::Pending,
        }
    }
}

impl Drop for Playing<'_> {
    fn drop(&mut self) {
        self.script.drops.fetch_add(1, SeqCst);
    }
}

/// Creates an upstream without parts on this clock.
pub(crate) fn upstream(timer: &ManualTimer) -> Upstream<ManualTimer> {
    Upstream::new("script").with_timer(timer.clone())
}

/// Creates an upstream for one call only.
pub(crate) fn clock(timer: &ManualTimer) -> Arc<Upstream<ManualTimer>> {
    Arc::new(upstream(timer))
}

/// Polls the future once, with a waker that does nothing.
pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls the future until it ends. While a sleep is pending, the clock advances to the earliest
/// wake-up.
pub(crate) fn drive<F: Future>(future: F, timer: &ManualTimer) -> F::Output {
    drive_for(u32::MAX, future, timer).expect("u32::MAX polls are enough")
}

/// Polls like [`drive`], but at most `polls` times.
pub(crate) fn drive_for<F: Future>(
    polls: u32,
    future: F,
    timer: &ManualTimer,
) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return Some(output);
        }
        if let Some(left) = timer.until_next() {
            timer.advance(left);
        }
    }
    None
}

/// Starts a task that advances the clock to the end of the next sleep, whenever a call sleeps.
pub(crate) fn advance_past_sleeps(timer: &ManualTimer) -> tokio::task::JoinHandle<()> {
    let timer = timer.clone();
    tokio::spawn(async move {
        loop {
            match timer.until_next() {
                Some(left) => timer.advance(left),
                None => tokio::task::yield_now().await,
            }
        }
    })
}

/// A clock that counts its readings and its sleeps.
#[derive(Debug, Default)]
pub(crate) struct CountingTimer {
    pub(crate) hands: ManualTimer,
    pub(crate) reads: AtomicU32,
    pub(crate) sleeps: AtomicU32,
}

impl Timer for CountingTimer {
    type Sleep = resile::time::ManualSleep;

    fn now(&self) -> Duration {
        self.reads.fetch_add(1, SeqCst);
        self.hands.now()
    }

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        self.sleeps.fetch_add(1, SeqCst);
        self.hands.sleep(delay)
    }
}
