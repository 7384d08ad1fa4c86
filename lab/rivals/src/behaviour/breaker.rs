//! Traps 6, 7 and 8: results that come late, probes that are dropped, probes that hang. The clock
//! is real.

use std::future::{pending, ready};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::Section;
use super::guard::{Guard, Guarded, Set, guards};
use crate::job::{self, Fault, count};

const SET: Set = Set { wait: Duration::from_millis(20), lease: Duration::from_millis(60) };

pub async fn seen() -> [Section; 3] {
    let (mut late, mut dropped, mut hung) = (Vec::new(), Vec::new(), Vec::new());
    for (name, guard) in guards(SET) {
        late.push((name, stale(guard).await));
    }
    for (name, guard) in guards(SET) {
        dropped.push((name, cancelled(guard).await));
    }
    for (name, guard) in guards(SET) {
        hung.push((name, hangs(guard).await));
    }
    [
        Section {
            title: "6. A stale result",
            tried: "A call begins and hangs. Others fail, and the breaker opens. After its open time a probe begins and hangs. \
                Then the first call succeeds. Of the next ten calls:",
            columns: &["admitted"],
            rows: late,
        },
        Section {
            title: "7. A cancelled probe",
            tried: "The breaker opens. After its open time a probe begins and is dropped unfinished. Of the next ten calls, which \
                do not end, and of ten more after another open time:",
            columns: &["admitted", "later"],
            rows: dropped,
        },
        Section {
            title: "8. A hung probe",
            tried: "The breaker opens. After its open time a hundred calls begin at once and hang. After 100 ms one more call \
                begins and succeeds, and then ten more begin. The open time is 20 ms. If a probe has a lease, it is 60 ms.",
            columns: &["of the hundred, admitted", "the one", "of the last ten, admitted"],
            rows: hung,
        },
    ]
}

/// Makes failing calls until the breaker refuses one.
async fn trip(guard: &Guard) {
    for _ in 0..1000 {
        if guard(Box::pin(ready(Err(Fault::Failed)))).await == Err(Fault::Open) {
            return;
        }
    }
}

/// Polls a call once. Returns the call and whether the breaker admitted it.
fn begun(
    guard: &Guard,
    call: impl Future<Output = Result<u64, Fault>> + Send + 'static,
) -> (Guarded, bool) {
    let before = job::attempts();
    let mut running = guard(Box::pin(async {
        count();
        call.await
    }));
    let _ = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    (running, job::attempts() > before)
}

/// Begins a number of calls that never end. Returns the calls and how many of them were admitted.
fn let_through(guard: &Guard, calls: usize) -> (Vec<Guarded>, usize) {
    let all: Vec<_> = (0..calls).map(|_| begun(guard, pending())).collect();
    let through = all.iter().filter(|(_, through)| *through).count();
    (all.into_iter().map(|(call, _)| call).collect(), through)
}

async fn stale(guard: Guard) -> Vec<String> {
    let (end, ended) = oneshot::channel::<()>();
    let (first, _) = begun(&guard, async {
        let _ = ended.await;
        Ok(1)
    });
    trip(&guard).await;
    sleep(2 * SET.wait).await;
    let (_probe, through) = begun(&guard, pending());
    let _ = end.send(());
    let answered = first.await.is_ok();
    let (_held, next) = let_through(&guard, 10);
    assert!(through && answered, "the probe and the first call are admitted");
    vec![next.to_string()]
}

async fn cancelled(guard: Guard) -> Vec<String> {
    trip(&guard).await;
    sleep(2 * SET.wait).await;
    let (probe, through) = begun(&guard, pending());
    assert!(through, "a probe is admitted");
    drop(probe);
    let (held, next) = let_through(&guard, 10);
    drop(held);
    sleep(2 * SET.wait).await;
    let (_held, later) = let_through(&guard, 10);
    vec![next.to_string(), later.to_string()]
}

async fn hangs(guard: Guard) -> Vec<String> {
    trip(&guard).await;
    sleep(2 * SET.wait).await;
    let (_held, crowd) = let_through(&guard, 100);
    sleep(Duration::from_millis(100)).await;
    let outcome = guard(Box::pin(ready(Ok(1)))).await;
    let one = if outcome.is_ok() { "admitted" } else { "refused" };
    let (_more, last) = let_through(&guard, 10);
    vec![crowd.to_string(), one.to_owned(), last.to_string()]
}
