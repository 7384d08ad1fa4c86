//! `RetryChannel`: what a generated client of `tonic` gets.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use resile_tower::resile::{Attempt, Breaker, RetryPolicy, StopReason, Upstream};
use resile_tower::resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_tower::resile_clients::grpc;
use resile_tower::tonic_0_14::{RetryChannel, gave_up};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Service, ServiceExt, service_fn};

use super::retries::AT_ONCE;

/// A request as a generated client makes it.
fn request(bytes: &'static str) -> Request<Body> {
    Request::post("/shop.Shop/Order")
        .header("content-type", "application/grpc")
        .body(Body::new(Full::new(Bytes::from_static(bytes.as_bytes()))))
        .unwrap()
}

/// A channel that is unavailable at first, and keeps what arrived: the timeout and the body.
macro_rules! restarting {
    ($got:ident) => {
        service_fn(move |request: Request<Body>| async move {
            let told = request.headers().get("grpc-timeout").cloned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut answer = Response::builder().header("grpc-message", "restarts");
            let mut got = $got.lock().unwrap();
            if got.is_empty() {
                answer = answer.header("grpc-status", "14");
            }
            got.push((told.map(|told| told.to_str().unwrap().to_owned()), body));
            Ok::<_, Infallible>(answer.body(Body::empty()).unwrap())
        })
    };
}

/// One call has all that belongs to it: a body that is kept, the time left, and the end as a source.
#[tokio::test(start_paused = true)]
async fn a_channel_needs_no_further_layer() {
    static SHOP: Upstream = Upstream::new("shop");
    let policy = AT_ONCE.with_attempt_timeout(Duration::from_secs(2));
    let got = &Mutex::new(Vec::new());
    let read = RetryChannel::new(restarting!(got), policy, Idempotent).on(&SHOP);
    assert!(read.oneshot(request("Paris")).await.is_ok());
    let one = (Some("2050m".to_owned()), Bytes::from("Paris"));
    assert_eq!(*got.lock().unwrap(), [one.clone(), one]);

    let got = &Mutex::new(Vec::new());
    let order = RetryChannel::new(restarting!(got), policy, NotIdempotent).on(&SHOP);
    let status = order.oneshot(request("Oslo")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "restarts"));
    let end = gave_up(&status).unwrap();
    assert_eq!((end.upstream(), end.attempts(), end.is_in_doubt()), (Some("shop"), 1, true));
    let line = "shop: gave up after 1 attempt, the request may have been executed and must not be \
                sent again: /shop.Shop/Order: UNAVAILABLE: restarts";
    assert_eq!(format!("{end:#}"), line);
    assert!(gave_up(&Status::unavailable("a trailer")).is_none());
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_body_is_a_setting() {
    for (limit, attempts) in [(4, 1), (5, 2)] {
        let got = &Mutex::new(Vec::new());
        let channel = RetryChannel::new(restarting!(got), AT_ONCE, Idempotent).keeping(limit);
        let outcome = channel.on("shop").oneshot(request("Paris")).await;
        assert_eq!((got.lock().unwrap().len(), outcome.is_ok()), (attempts, limit == 5));
        if let Err(status) = outcome {
            let words = "shop: gave up after 1 attempt, the request cannot be made again";
            assert_eq!(gave_up(&status).unwrap().to_string(), words);
        }
    }
}

/// A channel that never answers, without a closure: its type has a name.
#[derive(Clone, Debug)]
struct Hangs;

impl Service<Request<Body>> for Hangs {
    type Response = Response<Body>;
    type Error = tonic::ConnectError;
    type Future = std::future::Pending<Result<Response<Body>, tonic::ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), tonic::ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        std::future::pending()
    }
}

/// Without an answer the status says what ended the call.
#[tokio::test(start_paused = true)]
async fn each_end_has_its_status() {
    static DOWN: Upstream = Upstream::new("shop").with_breaker(Breaker::new().with_consecutive(1));
    let second = Duration::from_secs(1);
    let policy = AT_ONCE.with_attempt_timeout(second);
    let token = CancellationToken::new();
    let channel =
        RetryChannel::new(Hangs, policy, NotIdempotent).with_token(token.clone()).on(&DOWN);
    let end = async |channel: &RetryChannel<Hangs, _, _>| {
        let status = channel.clone().oneshot(request("Oslo")).await.unwrap_err();
        let end = gave_up(&status).unwrap();
        (status.code(), end.reason(), end.is_in_doubt())
    };
    assert_eq!(end(&channel).await, (Code::DeadlineExceeded, StopReason::Fatal, true));
    assert_eq!(end(&channel).await, (Code::Unavailable, StopReason::Open, false));
    token.cancel();
    assert_eq!(end(&channel).await, (Code::Cancelled, StopReason::Cancelled, false));
}

/// A struct holds the channel by name, a task owns it, and a generated client takes it.
#[test]
fn the_channel_has_a_name_and_goes_to_other_threads() {
    static SHOP: Upstream = Upstream::new("shop");
    #[derive(Clone)]
    struct App {
        named: RetryChannel<Hangs>,
        shared: RetryChannel<Hangs, Arc<Upstream>>,
    }
    fn is_sent<T: Send + 'static>(_: &T) {}
    fn is_taken<T>(_: &T)
    where
        T: tonic::client::GrpcService<Body, ResponseBody = Body> + Clone + Send + Sync + 'static,
        T::Future: Send,
    {
    }
    let new = || RetryChannel::new(Hangs, RetryPolicy::new(), NotIdempotent);
    let shared = new().on(Arc::new(Upstream::new("shop")));
    let mut app = App { named: new().on(&SHOP), shared }.clone();
    is_taken(&app.named);
    is_taken(&app.shared);
    is_sent(&app.named.call(request("Oslo")));
    assert!(format!("{:?}", app.named).contains("Hangs"));
}

/// A retry says how many attempts were made before it (gRPC A6): those of this channel, and those that a
/// client above it has told.
#[tokio::test(start_paused = true)]
async fn a_retry_tells_the_attempts_before_it() {
    let got = async |kind: &'static str, above: Option<u32>| {
        let got = &Mutex::new(Vec::new());
        let down = service_fn(move |request: Request<Body>| async move {
            let told = request.headers().get("grpc-previous-rpc-attempts");
            got.lock().unwrap().push(told.map(|told| told.to_str().unwrap().to_owned()));
            let answer = Response::builder().header("grpc-status", "14").body(Body::empty());
            Ok::<_, Infallible>(answer.unwrap())
        });
        let mut request = request("Paris");
        request.headers_mut().insert("content-type", kind.parse().unwrap());
        if let Some(above) = above {
            request.headers_mut().insert("grpc-previous-rpc-attempts", above.into());
        }
        let channel = RetryChannel::new(down, AT_ONCE.with_attempts(3), Idempotent);
        assert!(channel.oneshot(request).await.is_err());
        got.lock().unwrap().iter().map(|told| told.clone().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(got("application/grpc", None).await, ["", "1", "2"]);
    assert_eq!(got("application/grpc+proto", Some(2)).await, ["2", "3", "4"]);
    let most = u32::MAX.to_string();
    assert_eq!(got("application/grpc", Some(u32::MAX)).await, vec![most; 3]);
    assert_eq!(got("application/json", None).await, [""; 3]);
}

/// Both ways to retry tell the server the same of an attempt.
#[tokio::test(start_paused = true)]
async fn a_channel_tells_what_a_prepared_request_tells() {
    let left = Duration::from_secs(2);
    let got = &Mutex::new(Vec::new());
    let policy = AT_ONCE.with_total_timeout(left);
    let read = RetryChannel::new(restarting!(got), policy, Idempotent);
    assert!(read.oneshot(request("Paris")).await.is_ok());
    let layer = got.lock().unwrap()[1].0.clone().unwrap();

    let mut prepared = tonic::Request::new(());
    grpc::prepare(&mut prepared, Attempt::new(2).with_remaining(Some(left)));
    let around = prepared.metadata().get("grpc-timeout").unwrap().to_str().unwrap();
    assert_eq!((around, &*layer), ("2050000u", "2050m"));
}
