//! A scripted service that holds the contract of `tower`: it panics if it is called before it is ready.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tower::Service;

/// The outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Answer(u16),
    Fail,
    /// Succeeds after a while.
    After(Duration),
    Hang,
    /// The service fails to become ready, and gets no request.
    NotReady,
    /// The service is ready at the second poll. The next step follows.
    ReadyLater,
}

/// The error of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Down {
    Call,
    Readiness,
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "down: {self:?}")
    }
}

impl Error for Down {}

/// What all clones of a service share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    steps: VecDeque<Step>,
    /// The requests that the service got.
    pub(crate) requests: Vec<u32>,
    pub(crate) polls_of_readiness: u32,
    /// Futures and readied clones that live.
    pub(crate) alive: i32,
}

/// The service. A clone is not ready.
pub(crate) struct Script {
    seen: Arc<Mutex<Seen>>,
    is_ready: bool,
    has_waited: bool,
}

impl Script {
    /// The last step repeats.
    pub(crate) fn new(steps: &[Step]) -> Self {
        let seen = Seen { steps: steps.iter().copied().collect(), ..Seen::default() };
        Self { seen: Arc::new(Mutex::new(seen)), is_ready: false, has_waited: false }
    }

    /// Returns a copy of what was seen so far.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Shares the state of this service.
    pub(crate) fn watch(&self) -> Self {
        Self { seen: Arc::clone(&self.seen), is_ready: false, has_waited: false }
    }
}

impl Seen {
    fn step(&self) -> Step {
        *self.steps.front().unwrap()
    }

    fn next(&mut self) -> Step {
        if self.steps.len() > 1 { self.steps.pop_front().unwrap() } else { self.step() }
    }
}

impl Clone for Script {
    fn clone(&self) -> Self {
        self.watch()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if self.is_ready {
            self.seen.lock().unwrap().alive -= 1;
        }
    }
}

impl Service<u32> for Script {
    type Response = u16;
    type Error = Down;
    type Future = Playing;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Down>> {
        let has_waited = std::mem::take(&mut self.has_waited);
        let mut seen = self.seen.lock().unwrap();
        seen.polls_of_readiness += 1;
        match seen.step() {
            Step::NotReady => {
                seen.next();
                Poll::Ready(Err(Down::Readiness))
            }
            Step::ReadyLater if !has_waited => {
                cx.waker().wake_by_ref();
                self.has_waited = true;
                Poll::Pending
            }
            step => {
                if step == Step::ReadyLater {
                    seen.next();
                }
                if !self.is_ready {
                    self.is_ready = true;
                    seen.alive += 1;
                }
                Poll::Ready(Ok(()))
            }
        }
    }

    fn call(&mut self, request: u32) -> Playing {
        assert!(std::mem::take(&mut self.is_ready), "called before it was ready");
        let step = {
            let mut seen = self.seen.lock().unwrap();
            seen.requests.push(request);
            seen.next()
        };
        let sleep = match step {
            Step::After(delay) => Some(Box::pin(tokio::time::sleep(delay))),
            _ => None,
        };
        Playing { step, sleep, seen: Arc::clone(&self.seen) }
    }
}

/// A request in flight.
pub(crate) struct Playing {
    step: Step,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
    seen: Arc<Mutex<Seen>>,
}

impl Future for Playing {
    type Output = Result<u16, Down>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match (self.step, &mut self.sleep) {
            (Step::Answer(answer), _) => Poll::Ready(Ok(answer)),
            (Step::After(_), Some(sleep)) => sleep.as_mut().poll(cx).map(|()| Ok(200)),
            (Step::Hang, _) => Poll::Pending,
            _ => Poll::Ready(Err(Down::Call)),
        }
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        self.seen.lock().unwrap().alive -= 1;
    }
}
