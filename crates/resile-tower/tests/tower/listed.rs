//! The warning that a list has a path which no request can have.

use std::convert::Infallible;

use http::{Request, Response};
use resile_tower::RetryLayer;
use resile_tower::resile_clients::Idempotency::NotIdempotent;
use resile_tower::tonic_0_14::RetryChannel;
use tonic::body::Body;
use tower::service_fn;

use super::foreign::told;
use super::retries::AT_ONCE;

#[test]
fn a_path_that_no_request_can_have_is_told_once() {
    told();
    for _ in 0..2 {
        let fine =
            service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
        let channel = RetryChannel::new(fine, AT_ONCE, NotIdempotent);
        let _ = channel.with_idempotent(&["Price", "/shop.Shop/Stock", "/shop.Shop/*"]);
        let _ = RetryLayer::grpc(AT_ONCE, NotIdempotent).with_idempotent(&["/shop.Shop/Price"]);
    }
    let told = told();
    let [told] = &told[..] else { panic!("{told:?}") };
    let words = "with_idempotent lists \"Price\", \"/shop.Shop/*\", but no request has such a path: \
                 write /package.Service/Method";
    assert!(
        told.contains(words) && told.contains("layer=") && told.contains("listed.rs:"),
        "{told}"
    );
}
