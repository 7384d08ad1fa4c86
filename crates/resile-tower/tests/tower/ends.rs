//! The end of a call in the answer that its caller gets.

use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use http::{Extensions, Request, Response};
use resile_tower::grpc::answer_to_error;
use resile_tower::resile::error::Boxed;
use resile_tower::resile::http::{Classifier, Failure};
use resile_tower::resile::{GaveUp, StopReason, Upstream, Verdict, retry};
use resile_tower::resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_tower::resile_clients::grpc::{retry_info, to_status};
use resile_tower::{RetryLayer, UpstreamLayer};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tower::util::service_fn;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use super::retries::AT_ONCE;
use super::statuses::Ends;

fn end(extensions: &Extensions) -> Option<&GaveUp<Boxed>> {
    extensions.get::<Arc<GaveUp<Boxed>>>().map(Arc::as_ref)
}

fn post() -> Request<String> {
    Request::post("/orders").body(String::new()).unwrap()
}

/// A service that answers each request with these headers.
macro_rules! answering {
    ($status:expr $(, $name:literal: $value:literal)*) => {
        service_fn(async |_: Request<String>| {
            let answer = Response::builder().status($status)$(.header($name, $value))*;
            Ok::<_, Infallible>(answer.body(()).unwrap())
        })
    };
}

/// Returns reason, attempts and doubt of the call of a request.
async fn asked<S>(service: S, request: Request<String>) -> Option<(StopReason, u32, bool)>
where
    S: Service<Request<String>, Response = Response<()>, Error = GaveUp<Boxed>>,
{
    let answer = service.oneshot(request).await.unwrap();
    end(answer.extensions()).map(|end| (end.reason(), end.attempts(), end.is_in_doubt()))
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_http_has_the_end_of_its_call() {
    let layer = RetryLayer::http(AT_ONCE);
    let (fatal, attempts) = (StopReason::Fatal, StopReason::Attempts);
    assert_eq!(asked(layer.layer(answering!(500)), post()).await, Some((fatal, 1, true)));
    let mut read = post();
    read.extensions_mut().insert(Classifier::idempotent());
    assert_eq!(asked(layer.layer(answering!(500)), read).await, Some((attempts, 4, false)));
    // A good answer, and one that is no failure.
    assert_eq!(asked(layer.layer(answering!(200)), post()).await, None);
    assert_eq!(asked(layer.layer(answering!(404)), post()).await, None);
    let judging = layer.judging(|_: &Response<()>| Some(Verdict::transient().not_again()));
    assert_eq!(asked(judging.layer(answering!(200)), post()).await, Some((fatal, 1, true)));
    // The verdict of a function does not say that the request is a read, but the judge below it does.
    let get = || Request::get("/orders").body(String::new()).unwrap();
    assert_eq!(asked(judging.layer(answering!(500)), get()).await, Some((fatal, 1, false)));
    assert_eq!(asked(judging.layer(answering!(200)), get()).await, Some((fatal, 1, false)));
    for (idempotency, is_in_doubt) in [(Idempotent, false), (NotIdempotent, true)] {
        let judging = RetryLayer::grpc(AT_ONCE, idempotency)
            .judging(|_: &Response<()>| Some(Verdict::transient().not_again()))
            .judging(|_: &Response<()>| None);
        let ended = asked(judging.layer(answering!(200, "grpc-status": "14")), post()).await;
        assert_eq!(ended, Some((fatal, 1, is_in_doubt)));
    }
    let once = UpstreamLayer::http("store");
    assert_eq!(asked(once.layer(answering!(500)), post()).await, Some((fatal, 1, true)));
}

/// A service may have the error of `resile::http`. It knows itself that nothing was sent, and its cause may
/// hold the end of a call below, which nobody repeats.
/// The caller gets the answer of an upstream that works as a success, so its call is one.
#[tokio::test(start_paused = true)]
async fn a_final_answer_of_http_has_no_end_and_no_line() {
    static ENDS: Ends = Ends::new();
    static SHOP: Upstream = Upstream::new("shop").with_observer(&ENDS);
    for (status, is_told) in [(404, false), (501, false), (511, true), (503, true)] {
        let client = service_fn(move |_: Request<String>| async move {
            Ok::<_, Infallible>(Response::builder().status(status).body(()).unwrap())
        });
        let service = RetryLayer::http(AT_ONCE).on(&SHOP).layer(client);
        let get = Request::get("/orders").body(String::new()).unwrap();
        let answer = service.oneshot(get).await.unwrap();
        assert_eq!(end(answer.extensions()).is_some(), is_told, "{status}");
        assert_eq!(!ENDS.take().is_empty(), is_told, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_http_is_judged_with_its_cause() {
    let layer = RetryLayer::http(AT_ONCE);
    let unsent = service_fn(async |_: Request<String>| {
        Err::<Response<()>, _>(Failure::not_sent("the connector is too slow"))
    });
    let gave_up = layer.layer(unsent).oneshot(post()).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Attempts, 4));

    let cancelled = service_fn(async |_: Request<String>| {
        let token = CancellationToken::new();
        let below = retry(
            async |_| {
                token.cancel();
                Err::<Response<()>, _>(io::Error::from(io::ErrorKind::ConnectionRefused))
            },
            AT_ONCE,
            &token,
        );
        below.await.map_err(|gave_up| Failure::unanswered(gave_up.into_boxed()))
    });
    let gave_up = layer.layer(cancelled).oneshot(post()).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
}

/// The status of the server stays whole, and the end of the call is its source.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_call_reaches_a_client_of_tonic() {
    let layers = ServiceBuilder::new()
        .map_err(to_status)
        .map_result(answer_to_error)
        .layer(RetryLayer::grpc(AT_ONCE, NotIdempotent));
    let down = answering!(
        200, "grpc-status": "14", "grpc-message": "18%20%C2%B0C",
        "grpc-status-details-bin": "CA4", "x-trace": "7"
    );
    let status = layers.clone().service(down).oneshot(post()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "18 \u{b0}C"));
    assert_eq!((status.details(), status.metadata().len()), (&[8, 14][..], 1));
    assert_eq!(status.metadata().get("x-trace").unwrap(), "7");
    let of = |status: &Status| {
        let gave_up = status.source().unwrap().downcast_ref::<GaveUp<Boxed>>().unwrap();
        (gave_up.reason(), gave_up.attempts(), gave_up.is_in_doubt())
    };
    assert_eq!(of(&status), (StopReason::Fatal, 1, true));
    // `tonic` itself would panic.
    let garbled = answering!(200, "grpc-status": "14", "grpc-status-details-bin": "?");
    let status = layers.clone().service(garbled).oneshot(post()).await.unwrap_err();
    assert!(status.details().is_empty() && of(&status).2);
    // A proxy answers.
    for (code, name) in [(503, Code::Unavailable), (500, Code::Unknown)] {
        let proxy = answering!(code);
        let status = layers.clone().service(proxy).oneshot(post()).await.unwrap_err();
        assert_eq!((status.code(), of(&status).2), (name, true));
        assert!(status.message().contains(&code.to_string()), "{status}");
    }
    // An answer that forbids a repetition is an end too.
    let missing = answering!(200, "grpc-status": "5", "grpc-message": "no such order");
    let status = layers.clone().service(missing).oneshot(post()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::NotFound, "no such order"));
    assert_eq!(of(&status), (StopReason::Fatal, 1, false));
    // Nothing to add.
    let good = answering!(200, "grpc-status": "0");
    assert!(layers.clone().service(good).oneshot(post()).await.is_ok());
    // No answer.
    let refused = service_fn(async |_: Request<String>| {
        Err::<Response<()>, _>(io::Error::from(io::ErrorKind::ConnectionRefused))
    });
    let status = layers.service(refused).oneshot(post()).await.unwrap_err();
    let words =
        "service: gave up after 4 attempts, without effect: /orders: UNKNOWN: connection refused";
    assert_eq!(status.message(), words);
    assert_eq!(of(&status), (StopReason::Attempts, 4, false));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_grpc_has_the_end_of_its_call() {
    static STORE: Upstream = Upstream::new("store");
    let down = answering!(200, "grpc-status": "14", "grpc-message": "down");
    let order = RetryLayer::grpc(AT_ONCE, NotIdempotent).on(&STORE).layer(down);
    assert_eq!(asked(order.clone(), post()).await, Some((StopReason::Fatal, 1, true)));
    let read = RetryLayer::grpc(AT_ONCE, Idempotent).layer(down);
    assert_eq!(asked(read, post()).await, Some((StopReason::Attempts, 4, false)));
    let answer = order.oneshot(post()).await.unwrap();
    let end = end(answer.extensions()).unwrap();
    assert_eq!(end.upstream(), Some("store"));
    assert_eq!(end.last().unwrap().to_string(), "UNAVAILABLE: down");
}

/// A server that ends its own handler answers so, after the handler has worked.
#[tokio::test(start_paused = true)]
async fn a_cancelled_order_is_in_doubt() {
    static ENDS: Ends = Ends::new();
    static SHOP: Upstream = Upstream::new("shop").with_observer(&ENDS);
    let ended = answering!(200, "grpc-status": "1", "grpc-message": "Timeout expired");
    let order = RetryLayer::grpc(AT_ONCE, NotIdempotent).on(&SHOP).layer(ended);
    assert_eq!(asked(order, post()).await, Some((StopReason::Fatal, 1, true)));
    assert_eq!(
        ENDS.take()[0].1,
        "shop: gave up after 1 of 4 attempts, the request may have been executed and must not be \
         sent again: /orders: CANCELLED: Timeout expired",
    );
    let read = RetryLayer::grpc(AT_ONCE, Idempotent).on(&SHOP).layer(ended);
    assert_eq!(asked(read, post()).await, Some((StopReason::Fatal, 1, false)));
}

/// The next service in a chain learns when to come back.
#[tokio::test(start_paused = true)]
async fn a_refusal_whose_wait_is_too_long_keeps_its_status() {
    // `RetryInfo` of 7 s.
    let limited = answering!(
        200, "grpc-status": "8", "grpc-message": "slow%20down", "x-limit": "orders",
        "grpc-status-details-bin": "CAgSCXNsb3cgZG93bhowCih0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUmV0cnlJbmZvEgQKAggH"
    );
    let policy = AT_ONCE.with_total_timeout(Duration::from_secs(3));
    let layers = ServiceBuilder::new()
        .map_err(to_status)
        .map_result(answer_to_error)
        .layer(RetryLayer::grpc(policy, NotIdempotent));
    let status = layers.service(limited).oneshot(post()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "slow down"));
    assert_eq!(retry_info(status.details()), Some(Duration::from_secs(7)));
    assert_eq!(status.metadata().get("x-limit").unwrap(), "orders");
    let gave_up = status.source().unwrap().downcast_ref::<GaveUp<Boxed>>().unwrap();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Deadline, 1));
}

/// The order with a key was executed in the first attempt, and the server tells of the second one alone.
#[tokio::test(start_paused = true)]
async fn a_status_does_not_deny_what_an_earlier_attempt_did() {
    let policy = AT_ONCE.with_attempt_timeout(Duration::from_secs(1));
    for (classifier, code) in
        [(Classifier::keyed(), Code::Unknown), (Classifier::idempotent(), Code::InvalidArgument)]
    {
        let calls = &AtomicU32::new(0);
        let server = service_fn(move |_: Request<String>| async move {
            if calls.fetch_add(1, Relaxed) == 0 {
                std::future::pending::<()>().await;
            }
            let answer = Response::builder().header("grpc-status", "3").header("x-trace", "7");
            Ok::<_, Infallible>(answer.body(()).unwrap())
        });
        let layers = ServiceBuilder::new()
            .map_err(to_status)
            .map_result(answer_to_error)
            .layer(RetryLayer::grpc(policy, NotIdempotent));
        let mut order = post();
        order.extensions_mut().insert(classifier);
        let status = layers.service(server).oneshot(order).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert_eq!(status.metadata().get("x-trace").unwrap(), "7");
        let may_be = status.message().contains(
            "an earlier attempt may have been executed, the request may be sent again with its key: /orders: \
             INVALID_ARGUMENT",
        );
        assert_eq!(may_be, code == Code::Unknown, "{status}");
    }
}
