//! The end of a call in the answer that its caller gets.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Extensions, Request, Response};
use resile_tower::resile::error::Boxed;
use resile_tower::resile::http::Classifier;
use resile_tower::resile::{GaveUp, StopReason, Upstream, Verdict};
use resile_tower::resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_tower::{RetryLayer, UpstreamLayer};
use tower::util::service_fn;
use tower::{Layer, Service, ServiceExt};

use super::retries::AT_ONCE;

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
    let once = UpstreamLayer::http("store");
    assert_eq!(asked(once.layer(answering!(500)), post()).await, Some((fatal, 1, true)));
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
