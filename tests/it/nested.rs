//! Retries within retries.

use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use resile::observe::{Event, EventKind};
use resile::{
    Backoff, FallbackPolicy, HedgePolicy, Never, RetryPolicy, Run, Upstream, fallback, hedge, retry,
};

static UPSTREAM: Upstream = Upstream::new("nested");
static OUTER: RetryPolicy = RetryPolicy::new().with_attempts(4).with_backoff(Backoff::none());
static INNER: RetryPolicy = RetryPolicy::new().with_attempts(3).with_backoff(Backoff::none());

#[tokio::test(start_paused = true)]
async fn trap_11_nested_retries_are_noticed_once_each_naming_both() {
    let calls = AtomicU32::new(0);
    let told = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::Nested { outer, .. } = event.kind {
            told.lock().unwrap().push((outer, event.call.unwrap().site));
        }
    };
    let down = |_| async {
        calls.fetch_add(1, Ordering::Relaxed);
        Err::<(), _>("down")
    };
    retry(|_| retry(down, &INNER, Never).on(UPSTREAM.observed_by(&note)), &OUTER, Never)
        .await
        .unwrap_err();

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
    let note = |event: &Event<'_>| {
        if let EventKind::Nested { .. } = event.kind {
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
    let (first, second) = tokio::join!(
        call().on(UPSTREAM.observed_by(&note)),
        call().on(UPSTREAM.observed_by(&note))
    );
    assert!(first.is_err() && second.is_err());
    call().on(UPSTREAM.observed_by(&note)).await.unwrap_err();
    assert_eq!(told.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_within_a_retry_is_noticed_and_a_panic_leaves_no_trace() {
    let told = AtomicU32::new(0);
    let note = |event: &Event<'_>| {
        if let EventKind::Nested { .. } = event.kind {
            told.fetch_add(1, Ordering::Relaxed);
        }
    };
    let within = || async {
        let mut run = Run::new(&INNER, Never).on(UPSTREAM.observed_by(&note));
        run.attempt(async { Err::<(), _>("down") }).await.map(|_| ()).map_err(|_| "gave up")
    };
    retry(|_| within(), &RetryPolicy::none(), Never).await.unwrap();
    assert_eq!(told.swap(0, Ordering::Relaxed), 1);

    let panics =
        tokio::spawn(retry(|_| async { panic!("in an attempt") as Result<(), ()> }, &OUTER, Never));
    panics.await.unwrap_err();
    within().await.unwrap();
    assert_eq!(told.load(Ordering::Relaxed), 0);
}

/// A retry belongs into a fallback, a hedge and a single call, so these neither say that they are nested nor count as the
/// call that others are nested in.
#[tokio::test(start_paused = true)]
async fn hedges_fallbacks_and_single_calls_do_not_count() {
    let told = AtomicU32::new(0);
    let note = |event: &Event<'_>| {
        if let EventKind::Nested { .. } = event.kind {
            told.fetch_add(1, Ordering::Relaxed);
        }
    };
    let call =
        || retry(|_| async { Err::<(), _>("down") }, &INNER, Never).on(UPSTREAM.observed_by(&note));
    fallback(&[1, 2], |_| call(), FallbackPolicy::new(), Never).await.unwrap_err();
    hedge(|_| call(), HedgePolicy::new(), Never).await.unwrap_err();
    UPSTREAM.call(call(), resile::Always).await.unwrap_err();
    let hedged = |_| {
        hedge(|_| async { Err::<(), _>("down") }, HedgePolicy::new(), Never)
            .on(UPSTREAM.observed_by(&note))
    };
    retry(hedged, &INNER, Never).await.unwrap_err();
    assert_eq!(told.load(Ordering::Relaxed), 0);

    // Between two retries they hide neither.
    let through = |_| async { UPSTREAM.call(call(), resile::Always).await };
    retry(through, RetryPolicy::none(), Never).await.unwrap_err();
    assert_eq!(told.load(Ordering::Relaxed), 1);
}
