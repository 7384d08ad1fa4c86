//! Retries within retries.

use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use resile::{Backoff, Event, Never, RetryPolicy, retry};

static OUTER: RetryPolicy = RetryPolicy::new().with_attempts(4).with_backoff(Backoff::none());
static INNER: RetryPolicy = RetryPolicy::new().with_attempts(3).with_backoff(Backoff::none());

#[tokio::test(start_paused = true)]
async fn trap_11_nested_retries_are_noticed_once_each_naming_both() {
    let calls = AtomicU32::new(0);
    let told = Mutex::new(vec![]);
    let note = |event: &Event<'_, _>| {
        if let Event::Nested { outer, inner, .. } = event {
            told.lock().unwrap().push((*outer, *inner));
        }
    };
    let down = |_| async {
        calls.fetch_add(1, Ordering::Relaxed);
        Err::<(), _>("down")
    };
    retry(|_| retry(down, &INNER, Never).with_observer(note), &OUTER, Never).await.unwrap_err();

    assert_eq!(calls.load(Ordering::Relaxed), 12, "they multiply");
    let told = told.into_inner().unwrap();
    assert_eq!(told.len(), 4, "once for each inner call, not for each attempt");
    for (outer, inner) in told {
        assert!(is_here(outer) && is_here(inner));
        assert!(outer.line() == inner.line() && outer.column() < inner.column());
    }
}

fn is_here(site: &Location<'_>) -> bool {
    site.file().ends_with("nested.rs")
}

#[tokio::test(start_paused = true)]
async fn retries_beside_and_after_each_other_are_not_nested() {
    let told = AtomicU32::new(0);
    let note = |event: &Event<'_, _>| {
        if let Event::Nested { .. } = event {
            told.fetch_add(1, Ordering::Relaxed);
        }
    };
    let call = || {
        retry(
            |_| async {
                tokio::task::yield_now().await;
                Err::<(), _>("down")
            },
            &INNER,
            Never,
        )
    };
    let (first, second) = tokio::join!(call().with_observer(note), call().with_observer(note));
    assert!(first.is_err() && second.is_err());
    call().with_observer(note).await.unwrap_err();
    assert_eq!(told.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_within_a_retry_is_noticed_and_a_panic_leaves_no_trace() {
    let told = AtomicU32::new(0);
    let note = |event: &Event<'_, _>| {
        if let Event::Nested { .. } = event {
            told.fetch_add(1, Ordering::Relaxed);
        }
    };
    let within = || async {
        let mut run = INNER.start(Never).with_observer(note);
        run.attempt(async { Err::<(), _>("down") }).await.map(|_| ()).map_err(|_| "gave up")
    };
    retry(|_| within(), &RetryPolicy::none(), Never).await.unwrap();
    assert_eq!(told.swap(0, Ordering::Relaxed), 1);

    let panics = tokio::spawn(retry(|_| async { panic!("in an attempt") as Result<(), ()> }, &OUTER, Never));
    panics.await.unwrap_err();
    within().await.unwrap();
    assert_eq!(told.load(Ordering::Relaxed), 0);
}
