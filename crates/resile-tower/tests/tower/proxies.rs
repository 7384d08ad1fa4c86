//! Answers without `grpc-status`: a proxy made them, not the server.

use std::convert::Infallible;

use http::{Request, Response};
use resile_tower::resile::{Breaker, Budget, Health, Upstream};
use resile_tower::resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_tower::tonic_0_14::{RetryChannel, gave_up};
use tonic::Code;
use tonic::body::Body;
use tower::{Service, ServiceExt, service_fn};

use super::retries::AT_ONCE;
use super::statuses::Ends;

fn request() -> Request<Body> {
    Request::post("/shop.Shop/Order").body(Body::empty()).unwrap()
}

/// A channel whose proxy answers with this status of HTTP.
macro_rules! answering {
    ($status:expr) => {{
        let status = $status;
        service_fn(move |_: Request<Body>| async move {
            Ok::<_, Infallible>(Response::builder().status(status).body(Body::empty()).unwrap())
        })
    }};
}

/// The codes are those of `http-grpc-status-mapping.md`.
#[tokio::test(start_paused = true)]
async fn each_answer_that_is_not_200_is_a_failure() {
    use Health::{Failing, Healthy, Throttling};

    static ENDS: Ends = Ends::new();
    static SHOP: Upstream = Upstream::new("shop").with_observer(&ENDS);
    for (status, code, reads, orders, is_in_doubt, health) in [
        (204, Code::Unknown, 4, 1, true, Failing),
        (302, Code::Unknown, 4, 1, true, Failing),
        (400, Code::Internal, 4, 1, true, Failing),
        (401, Code::Unauthenticated, 1, 1, false, Healthy),
        (403, Code::PermissionDenied, 1, 1, false, Healthy),
        (404, Code::Unimplemented, 1, 1, false, Healthy),
        (405, Code::Unknown, 4, 1, true, Failing),
        // These say more by themselves.
        (429, Code::Unavailable, 4, 4, false, Throttling),
        (500, Code::Unknown, 4, 1, true, Failing),
        (501, Code::Unknown, 4, 1, true, Failing),
        (502, Code::Unavailable, 4, 1, true, Failing),
        (503, Code::Unavailable, 4, 1, true, Failing),
        (504, Code::Unavailable, 4, 1, true, Failing),
    ] {
        let read = RetryChannel::new(answering!(status), AT_ONCE, Idempotent).on(&SHOP);
        let read = read.oneshot(request()).await.unwrap_err();
        let end = gave_up(&read).unwrap();
        assert_eq!((read.code(), end.attempts()), (code, reads), "{status}");
        let order = RetryChannel::new(answering!(status), AT_ONCE, NotIdempotent).on(&SHOP);
        let order = order.oneshot(request()).await.unwrap_err();
        let end = gave_up(&order).unwrap();
        assert_eq!((end.attempts(), end.is_in_doubt()), (orders, is_in_doubt), "{status}");
        assert_eq!(end.verdict().unwrap().health(), health, "{status}");
        let ends = ENDS.take();
        assert!(ends.iter().all(|(word, _)| *word == status.to_string()), "{ends:?}");
    }
    // The status of a good answer comes in its trailers.
    let good = RetryChannel::new(answering!(200), AT_ONCE, Idempotent).on(&SHOP);
    assert!(good.oneshot(request()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_path_is_no_success() {
    static ENDS: Ends = Ends::new();
    static SHOP: Upstream = Upstream::new("shop")
        .with_budget(Budget::new().with_deposit(1.0))
        .with_breaker(Breaker::new().with_consecutive(2))
        .with_observer(&ENDS);
    let budget = SHOP.budget().unwrap();
    assert!(budget.withdraw());
    let left = budget.available();
    let mut channel = RetryChannel::new(answering!(404), AT_ONCE, Idempotent).on(&SHOP);
    for _ in 0..3 {
        channel.call(request()).await.unwrap_err();
        let line = "shop: gave up after 1 of 4 attempts, the error is final: \
                    /shop.Shop/Order: no grpc-status: 404 Not Found";
        assert_eq!(ENDS.take(), [("404".to_owned(), line.to_owned())]);
    }
    assert_eq!(budget.available(), left);
}
