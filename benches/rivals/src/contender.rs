//! One way to do a job.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

pub type Calls = Pin<Box<dyn Future<Output = u64>>>;

pub struct Contender {
    pub name: &'static str,
    /// That many calls, one after the other; the sum of their answers.
    pub calls: Box<dyn Fn(u64) -> Calls + Send + Sync>,
    /// Size of the future of one call.
    pub bytes: usize,
    /// What each call answers, and in how many attempts.
    pub answer: u64,
    pub attempts: u64,
    /// Whether it does less than the job.
    pub less: bool,
}

impl Contender {
    /// With another answer than 1, or another number of attempts than the row's.
    pub fn expecting(mut self, answer: u64, attempts: u64) -> Self {
        (self.answer, self.attempts) = (answer, attempts);
        self
    }

    /// It cannot wait, cuts no attempt, has no budget, or counts calls where the row has a window of time.
    pub fn doing_less(mut self) -> Self {
        self.less = true;
        self
    }
}

/// `contender!(attempts, "name", [let x = …;] => future)`: the future is made and awaited by each call, all calls in one
/// async block; what stands before it is made once for the block.
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

/// Polls to the end on this thread, without a runtime's cost in the way.
pub fn spin(mut calls: Calls) -> u64 {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(sum) = calls.as_mut().poll(&mut cx) {
            return sum;
        }
    }
}
