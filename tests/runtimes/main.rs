//! The laws that hold on each runtime: tokio with one thread and with several, and none.
//! `lab/runtimes` runs them on another one.

mod laws;
mod thread_timer;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use resile::time::{ThreadTimer, TokioTimer};

/// Polls a future on this thread, without a runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn tokio_with_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(laws::all(TokioTimer::new()));
}

#[test]
fn tokio_with_one_thread_and_a_paused_clock() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(laws::all(TokioTimer::new()));
}

#[test]
fn tokio_with_several_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(laws::all(TokioTimer::new()));
}

#[test]
fn a_thread_without_a_runtime() {
    block_on(laws::all(ThreadTimer::new()));
}

#[test]
fn the_timer_of_the_standard_library_on_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(laws::all(ThreadTimer::new()));
}
