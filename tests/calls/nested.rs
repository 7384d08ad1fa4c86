//! Retries within retries.
//!
//! The test named `trap_11_…` stands for point 11 of the section "The behaviour" in `COMPARE.md`.

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
async fn trap_11_each_nested_retry_is_reported_once_with_both_call_sites() {
    let calls = AtomicU32::new(0);
    let nested = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::Nested { outer, .. } = event.kind {
            nested.lock().unwrap().push((outer, event.call.unwrap().site));
        }
    };
    let down = |_| async {
        calls.fetch_add(1, Ordering::Relaxed);
        Err::<(), _>("down")
    };
    retry(|_| retry(down, &INNER, Never).on(UPSTREAM.observed_by(&note)), &OUTER, Never)
        .await
        .unwrap_err();

    assert_eq!(calls.load(Ordering::Relaxed), 12, "the attempts of both levels multiply");
    let nested = nested.into_inner().unwrap();
    assert_eq!(nested.len(), 4, "each inner call is reported once, not each of its attempts");
    for (outer, inner) in nested {
        assert!(is_here(outer) && is_here(inner));
        assert!(outer.line() == inner.line() && outer.column() < inner.column());
    }
}

/// One attempt multiplies nothing, on either side.
#[tokio::test(start_paused = true)]
async fn a_policy_with_one_attempt_does_not_multiply() {
    let nested = AtomicU32::new(0);
    let note = |event: &Event<'_>| {
        if let EventKind::Nested { .. } = event.kind {
            nested.fetch_add(1, Ordering::Relaxed);
        }
    };
    let down = |_| async { Err::<(), _>("down") };
    let once = RetryPolicy::none();
    for (outer, inner, found) in [(&OUTER, &once, 0), (&once, &INNER, 0), (&OUTER, &INNER, 4)] {
        let call = |_| retry(down, inner, Never).on(UPSTREAM.observed_by(&note));
        retry(call, outer, Never).await.unwrap_err();
        assert_eq!(nested.swap(0, Ordering::Relaxed), found);
    }
}

fn is_here(site: &Location<'_>) -> bool {
    site.file().ends_with("nested.rs")
}

#[tokio::test(start_paused = true)]
async fn retries_side_by_side_or_in_sequence_are_not_nested() {
    let nested = AtomicU32::new(0);
    let note = |event: &Event<'_>| {
        if let EventKind::Nested { .. } = event.kind {
            nested.fetch_add(1, Ordering::Relaxed);
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
    assert_eq!(nested.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_within_a_retry_is_reported_and_a_panic_leaves_no_nesting_behind() {
    let nested = AtomicU32::new(0);
    let note = |event: &Event<'_>| {
        if let EventKind::Nested { .. } = event.kind {
            nested.fetch_add(1, Ordering::Relaxed);
        }
    };
    let within = || async {
        let mut run = Run::new(&INNER, Never).on(UPSTREAM.observed_by(&note));
        run.attempt(async { Err::<(), _>("down") }).await.map(|_| ()).map_err(|_| "gave up")
    };
    retry(|_| within(), &OUTER, Never).await.unwrap();
    assert_eq!(nested.swap(0, Ordering::Relaxed), 1);

    let panics =
        tokio::spawn(retry(|_| async { panic!("in an attempt") as Result<(), ()> }, &OUTER, Never));
    panics.await.unwrap_err();
    within().await.unwrap();
    assert_eq!(nested.load(Ordering::Relaxed), 0);
}

/// A retry is useful inside a fallback, a hedge or a single call. These calls neither report that
/// they are nested nor count as an outer retry.
#[tokio::test(start_paused = true)]
async fn hedges_fallbacks_and_single_calls_are_not_reported_as_nested() {
    let nested = AtomicU32::new(0);
    let note = |event: &Event<'_>| {
        if let EventKind::Nested { .. } = event.kind {
            nested.fetch_add(1, Ordering::Relaxed);
        }
    };
    let call =
        || retry(|_| async { Err::<(), _>("down") }, &INNER, Never).on(UPSTREAM.observed_by(&note));
    fallback(&[1, 2], |_| call(), FallbackPolicy::new(), Never).await.unwrap_err();
    hedge(|_| call(), HedgePolicy::new(), Never).await.unwrap_err();
    UPSTREAM.call(call(), resile::classify::Always).await.unwrap_err();
    let hedged = |_| {
        hedge(|_| async { Err::<(), _>("down") }, HedgePolicy::new(), Never)
            .on(UPSTREAM.observed_by(&note))
    };
    retry(hedged, &INNER, Never).await.unwrap_err();
    assert_eq!(nested.load(Ordering::Relaxed), 0);

    // A single call between two retries does not hide the nesting.
    let through = |_| async { UPSTREAM.call(call(), resile::classify::Always).await };
    retry(through, OUTER.with_attempts(2), Never).await.unwrap_err();
    assert_eq!(nested.load(Ordering::Relaxed), 2);
}
