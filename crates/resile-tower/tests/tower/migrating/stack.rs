//! The parts of a stack of tower, beside those that the chapter puts in their place.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use resile_tower::resile::classify::{Always, Cut};
use resile_tower::resile::error::Boxed;
use resile_tower::resile::{Budget, Bulkhead, GaveUp, RetryPolicy, StopReason, Upstream};
use resile_tower::{RetryLayer, UpstreamLayer};
use tokio::task::JoinSet;
use tower::load_shed::error::Overloaded;
use tower::retry::budget::{Budget as _, TpsBudget};
use tower::timeout::error::Elapsed;
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);

/// Makes 30 calls at once to a service that takes a second. Returns how many succeeded. The others were refused.
async fn at_once<F, E>(call: impl Fn() -> F, is_refused: fn(&E) -> bool) -> usize
where
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Send + 'static,
{
    let calls: JoinSet<F::Output> = (0..30).map(|_| call()).collect();
    let ends = calls.join_all().await;
    ends.iter().filter(|end| end.as_ref().map_or_else(|e| !is_refused(e), |()| true)).count()
}

async fn slow((): ()) -> Result<(), Infallible> {
    tokio::time::sleep(SECOND).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_bulkhead_waits_or_refuses_as_a_limit_of_tower_with_the_queue_of_its_row() {
    let limit = ServiceBuilder::new().concurrency_limit(10).service(service_fn(slow));
    assert_eq!(at_once(|| limit.clone().oneshot(()), |_| false).await, 30);
    let sheds = ServiceBuilder::new().load_shed().concurrency_limit(10).service(service_fn(slow));
    let is_overloaded = |error: &BoxError| error.is::<Overloaded>();
    assert_eq!(at_once(|| sheds.clone().oneshot(()), is_overloaded).await, 10);

    for (bulkhead, ok) in [
        (Bulkhead::new(10).with_queue(u32::MAX), 30),
        (Bulkhead::new(10), 20),
        (Bulkhead::new(10).with_queue(0), 10),
    ] {
        let store = Arc::new(Upstream::new("store").with_bulkhead(bulkhead));
        let layer = UpstreamLayer::new(store, Always);
        let call = || layer.layer(service_fn(slow)).oneshot(());
        let seen = at_once(call, |end| end.reason() == StopReason::Full).await;
        assert_eq!(seen, ok);
    }
}

/// Time gives back the retries of a `TpsBudget`, and those of a `Budget` only successes.
#[tokio::test(start_paused = true)]
async fn a_budget_pays_for_as_many_retries_in_an_outage_but_time_gives_none_back() {
    let (theirs, ours) = (TpsBudget::default(), Budget::new().with_capacity(10 * 10));
    let ours = ours.with_deposit(0.2);
    let retries = || {
        let theirs = (0..200).filter(|_| theirs.withdraw()).count();
        (theirs, (0..200).filter(|_| ours.withdraw()).count())
    };
    assert_eq!(retries(), (100, 100));
    tokio::time::advance(SECOND * 11).await;
    assert_eq!(retries(), (100, 0));
    // Each success pays for a fifth of a retry.
    (0..50).for_each(|_| (theirs.deposit(), ours.deposit()).1);
    assert_eq!(retries(), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn a_stack_keeps_its_error_by_map_err_and_tells_a_timeout_by_its_cut() {
    let stuck = service_fn(async |_: Request<String>| {
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(()))
    });
    let request = || Request::get("/stock").body(String::new()).unwrap();
    let old = ServiceBuilder::new().timeout(SECOND).service(stuck);
    let error: BoxError = old.oneshot(request()).await.unwrap_err();
    assert!(error.is::<Elapsed>());

    let policy = RetryPolicy::none().with_attempt_timeout(SECOND);
    let new = ServiceBuilder::new().map_err(BoxError::from).layer(RetryLayer::http(policy));
    let error: BoxError = new.service(stuck).oneshot(request()).await.unwrap_err();
    assert!(!error.is::<Elapsed>());
    let cut = error.downcast_ref::<GaveUp<Boxed>>().and_then(GaveUp::cut);
    assert_eq!(cut, Some(Cut::AttemptTimeout(SECOND)));
}
