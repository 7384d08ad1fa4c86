//! A channel that takes bodies which are kept.

use std::task::{Context, Poll};

use http::Request;
use tonic::body::Body;
use tower_service::Service;

use crate::http::KeptBody;

/// A channel that takes one type of body.
#[derive(Clone, Debug)]
pub(super) struct Plain<S>(pub(super) S);

impl<S: Service<Request<Body>>> Service<Request<KeptBody<Body>>> for Plain<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<KeptBody<Body>>) -> S::Future {
        self.0.call(request.map(Body::new))
    }
}
