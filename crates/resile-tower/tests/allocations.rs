//! A layer allocates nothing for a request that succeeds at once. This test is its own binary, because
//! the counter is the allocator of the whole program.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::measure;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use resile_tower::deadline::{DeadlineLayer, TimeLeftLayer};
use resile_tower::resile::classify::Always;
use resile_tower::resile::{
    Backoff, Breaker, Budget, Bulkhead, Cooldown, RetryPolicy, Upstream, Verdict,
};
use resile_tower::server::RefusalLayer;
use resile_tower::{RetryLayer, UpstreamLayer};
use tower::{Layer, Service};

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(4)
    .with_backoff(Backoff::none())
    .with_attempt_timeout(Duration::from_secs(9))
    .with_total_timeout(Duration::from_secs(60));

static STORE: Upstream = Upstream::new("store")
    .with_budget(Budget::new().with_deposit(9.0))
    .with_breaker(Breaker::new().without_consecutive().without_failure_rate())
    .with_cooldown(Cooldown::new())
    .with_bulkhead(Bulkhead::new(9));

/// A service without allocations of its own. It fails for each number but every n-th one.
#[derive(Clone)]
struct Bare {
    every: u32,
    calls: &'static AtomicU32,
}

impl Service<u32> for Bare {
    type Response = u32;
    type Error = Infallible;
    type Future = Ready<Result<u32, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u32) -> Self::Future {
        let calls = self.calls.fetch_add(1, Relaxed) + 1;
        ready(Ok(if calls % self.every == 0 { number } else { 0 }))
    }
}

impl<B> Service<Request<B>> for Bare {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        drop(black_box(request));
        ready(Ok(Response::new(())))
    }
}

static CALLS: AtomicU32 = AtomicU32::new(0);

fn good() -> Bare {
    Bare { every: 1, calls: &CALLS }
}

/// Makes one request and polls it to its end.
fn ask<S: Service<Req>, Req>(service: &mut S, request: Req) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready());
    let mut call = pin!(service.call(request));
    loop {
        if let Poll::Ready(outcome) = call.as_mut().poll(&mut cx) {
            return outcome.is_ok();
        }
    }
}

/// Counts the allocations of the second request.
fn allocations<S: Service<Req>, Req>(mut service: S, request: impl Fn() -> Req) -> u64 {
    assert!(ask(&mut service, request()));
    let (first, mut count) = (request(), None);
    let mut first = Some(first);
    let info = measure(|| {
        count = first.take().map(|request| ask(&mut service, request));
    });
    assert_eq!(count, Some(true));
    info.count_total
}

#[test]
fn a_request_that_succeeds_at_once_allocates_nothing() {
    let number = || 7_u32;
    assert_eq!(allocations(good(), number), 0, "the bare service");
    let retry = RetryLayer::new(POLICY);
    assert_eq!(allocations(retry.layer(good()), number), 0, "a retry");
    assert_eq!(allocations(retry.clone().on(&STORE).layer(good()), number), 0, "on an upstream");
    let judging = retry.judging(|_: &u32| None);
    assert_eq!(allocations(judging.layer(good()), number), 0, "with a judge");
    let through = UpstreamLayer::new(&STORE, Always).with_total_timeout(Duration::from_secs(9));
    assert_eq!(allocations(through.layer(good()), number), 0, "one attempt");
}

#[test]
fn a_request_of_http_allocates_what_its_head_needs() {
    let plain = || Request::new(Bytes::from_static(b"body"));
    let layer = RetryLayer::http(POLICY).on(&STORE);
    assert_eq!(allocations(layer.layer(good()), plain), 0);
    assert_eq!(allocations(UpstreamLayer::http(&STORE).layer(good()), plain), 0);
    assert_eq!(allocations(RefusalLayer::new().layer(good()), plain), 0);
    // The clone of a map of headers.
    let with_headers = || Request::builder().header("accept", "*/*").body(()).unwrap();
    let cloned = measure(|| drop(black_box(black_box(&with_headers()).clone()))).count_total
        - measure(|| drop(black_box(with_headers()))).count_total;
    assert_eq!(allocations(layer.layer(good()), with_headers), cloned);
    // The first clone of a path that was made from text.
    let with_path = || Request::post("/orders").body(()).unwrap();
    let cloned = measure(|| drop(black_box(black_box(&with_path()).clone()))).count_total
        - measure(|| drop(black_box(with_path()))).count_total;
    assert_eq!(allocations(layer.layer(good()), with_path), cloned);
    assert_eq!(allocations(UpstreamLayer::http(&STORE).layer(good()), with_path), cloned);
    // The body that is shared by the attempts.
    let kept = layer.keeping(9);
    let body = || Request::new(Full::<Bytes>::from("body"));
    assert_eq!(allocations(kept.layer(good()), body), 1);
}

#[test]
fn a_deadline_allocates_what_its_headers_need() {
    let server = DeadlineLayer::new(Duration::from_secs(9)).layer(good());
    // The map of extensions, its table and the box of the deadline.
    assert!(allocations(server, || Request::new(())) <= 3);
    let client = TimeLeftLayer::new().layer(good());
    assert_eq!(allocations(client, || Request::new(())), 0, "without a deadline");
}

/// An error is boxed, and so are the words on an answer. These have no fields, so their box is empty.
#[test]
fn three_answers_that_fail_allocate_nothing() {
    static FAILING: AtomicU32 = AtomicU32::new(0);
    let every_fourth = Bare { every: 4, calls: &FAILING };
    let layer = RetryLayer::new(POLICY).on(&STORE);
    let layer = layer.judging(|answer: &u32| (*answer == 0).then(Verdict::transient));
    assert_eq!(allocations(layer.layer(every_fourth), || 7_u32), 0);
}
