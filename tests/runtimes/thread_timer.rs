//! The thread behind `ThreadTimer`.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use resile::time::{ThreadTimer, Timer};
use resile::{Attempt, Backoff, Jitter, Never, RetryPolicy, Run, Upstream, retry};

use super::block_on;

const MS: Duration = Duration::from_millis(1);

/// Returns the number of threads that wake sleeps.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "resile-timer").count()
}

#[cfg(target_os = "linux")]
#[test]
fn one_thread_wakes_all_sleeps() {
    thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                for _ in 0..20 {
                    // Its drop takes it out of the queue again.
                    let mut dropped = Box::pin(ThreadTimer::new().sleep(MS * 2));
                    let mut cx = Context::from_waker(Waker::noop());
                    assert!(dropped.as_mut().poll(&mut cx).is_pending());
                    block_on(ThreadTimer::new().sleep(MS * (number % 3)));
                }
            });
        }
    });
    assert_eq!(threads(), 1);
}

#[test]
fn a_waker_that_panics_leaves_the_others_alone() {
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("this waker panics"));
        }
    }

    let mut sleep = Box::pin(ThreadTimer::new().sleep(MS));
    let waker = Waker::from(Arc::new(Panics));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    block_on(ThreadTimer::new().sleep(MS * 20));
}

#[test]
fn a_blocking_run_waits_its_delays() {
    let timer = ThreadTimer::new();
    let upstream = Upstream::new("station").with_timer(timer);
    let backoff = Backoff::fixed(MS * 5).with_jitter(Jitter::None);
    let began = timer.now();
    let mut run = Run::new(RetryPolicy::new().with_backoff(backoff), Never).on(&upstream);
    while run.blocking_next().is_ok_and(|attempt: Attempt| attempt.number() < 3) {
        run.failed(std::io::Error::from(std::io::ErrorKind::TimedOut)).unwrap();
    }
    let _: () = run.succeeded(());
    assert!(timer.now() >= began + MS * 10);
}

#[test]
fn a_call_on_it_can_be_spawned() {
    static STATION: Upstream<ThreadTimer> = Upstream::new("station").with_timer(ThreadTimer::new());
    let op = |_| std::future::ready(Ok::<_, std::io::Error>(18));
    let call = retry(op, RetryPolicy::new(), Never).on(&STATION);
    assert_eq!(thread::spawn(|| block_on(call)).join().unwrap().unwrap(), 18);
}
