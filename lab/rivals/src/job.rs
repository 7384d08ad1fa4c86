//! The jobs of the contenders: the same futures and the same error, with counted attempts.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::hint::black_box;
use std::task::Poll;

thread_local! {
    static ATTEMPTS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of attempts that began on this thread since the last [`reset`].
pub fn attempts() -> u64 {
    ATTEMPTS.get()
}

pub fn reset() {
    ATTEMPTS.set(0);
}

/// Counts an attempt. Returns the number of attempts before it.
#[inline]
pub fn count() -> u64 {
    ATTEMPTS.replace(ATTEMPTS.get() + 1)
}

/// The one error of all contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Failed,
    Elapsed,
    Open,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fault")
    }
}

impl std::error::Error for Fault {}

/// The work of a call. The last attempt of a call answers 1.
pub trait Job: Copy + Send + Sync + 'static {
    const NAME: &'static str;
    /// The number of attempts of one call.
    const ATTEMPTS: u64;

    fn attempt(self) -> impl Future<Output = Result<u64, Fault>> + Send + 'static;
}

#[derive(Clone, Copy)]
pub struct Immediate;

impl Job for Immediate {
    const NAME: &'static str = "immediate success";
    const ATTEMPTS: u64 = 1;

    #[inline]
    async fn attempt(self) -> Result<u64, Fault> {
        count();
        Ok(black_box(1))
    }
}

/// A job that is pending at its first poll and then answers.
#[derive(Clone, Copy)]
pub struct PendsOnce;

impl Job for PendsOnce {
    const NAME: &'static str = "pending once";
    const ATTEMPTS: u64 = 1;

    #[inline]
    async fn attempt(self) -> Result<u64, Fault> {
        count();
        let mut polled = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut polled, true) {
                return Poll::Ready(Ok(black_box(1)));
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

/// A job that fails three times and then answers.
#[derive(Clone, Copy)]
pub struct FailsThrice;

impl Job for FailsThrice {
    const NAME: &'static str = "three failures";
    const ATTEMPTS: u64 = 4;

    #[inline]
    async fn attempt(self) -> Result<u64, Fault> {
        if count() % 4 < 3 { Err(black_box(Fault::Failed)) } else { Ok(black_box(1)) }
    }
}

/// Takes the answer out of the return type of a contender.
pub trait Answer {
    fn answer(self) -> u64;
}

impl Answer for u64 {
    #[inline]
    fn answer(self) -> u64 {
        self
    }
}

impl Answer for () {
    #[inline]
    fn answer(self) -> u64 {
        1
    }
}

impl<T: Answer, E> Answer for Result<T, E> {
    #[inline]
    fn answer(self) -> u64 {
        self.map_or(0, Answer::answer)
    }
}

impl<T: Answer> Answer for Option<T> {
    #[inline]
    fn answer(self) -> u64 {
        self.map_or(0, Answer::answer)
    }
}
