//! A contender: one way to do a job.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

pub type Calls = Pin<Box<dyn Future<Output = u64>>>;

pub struct Contender {
    pub name: &'static str,
    /// Makes a number of calls one after the other. Returns the sum of their answers.
    pub calls: Box<dyn Fn(u64) -> Calls + Send + Sync>,
    /// The size of the future of one call.
    pub bytes: usize,
    /// The answer of each call. `attempts` is the number of its attempts.
    pub answer: u64,
    pub attempts: u64,
    /// True if the contender does less than the job.
    pub less: bool,
}

impl Contender {
    /// Sets another answer than 1 and another number of attempts than the row's.
    pub fn expecting(mut self, answer: u64, attempts: u64) -> Self {
        (self.answer, self.attempts) = (answer, attempts);
        self
    }

    /// Marks a contender that does less than the job. It cannot wait, cuts no attempt, has no
    /// budget, or counts calls where the row has a window of time.
    pub fn doing_less(mut self) -> Self {
        self.less = true;
        self
    }
}

/// `contender!(attempts, "name", [let x = …;] => future)`: each call makes and awaits the future,
/// and all calls are in one async block. The statements in brackets run once for the block.
#[macro_export]
macro_rules! contender {
    ($attempts:expr, $name:expr, [$(let $p:pat = $init:expr;)*] => $call:expr) => {
        $crate::contender::Contender {
            name: $name,
            bytes: {
                $(let $p = $init;)*
                size_of_val(&$call)
            },
            calls: Box::new(move |n| {
                $(let $p = $init;)*
                Box::pin(async move {
                    let mut sum = 0;
                    for _ in 0..n {
                        sum += std::hint::black_box($crate::job::Answer::answer($call.await));
                    }
                    sum
                })
            }),
            answer: 1,
            attempts: $attempts,
            less: false,
        }
    };
}

/// Polls to the end on this thread, without the cost of a runtime.
pub fn spin(mut calls: Calls) -> u64 {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(sum) = calls.as_mut().poll(&mut cx) {
            return sum;
        }
    }
}
