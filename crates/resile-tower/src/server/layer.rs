use std::task::{Context, Poll};

use http::Response;
use tower_layer::Layer;
use tower_service::Service;

use super::RefusalFuture;
use crate::BoxError;

/// A layer of a server that answers a refused request by a [`Refusal`](super::Refusal).
///
/// Put it around a layer that refuses, such as an [`UpstreamLayer`](crate::UpstreamLayer) with a bulkhead
/// or a quota. It also answers if the handler returns the refusal of a call that it made, as a
/// [`GaveUp<Boxed>`](resile::GaveUp) somewhere in the chain of its error. Any other error passes
/// through.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// # use std::convert::Infallible;
/// use http::{Request, Response};
/// use resile_tower::UpstreamLayer;
/// use resile_tower::resile::{Bulkhead, Upstream};
/// use resile_tower::server::RefusalLayer;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// /// This server handles one request at a time, and queues none.
/// static SELF: Upstream =
///     Upstream::new("self").with_bulkhead(Bulkhead::new(1).with_queue(0));
///
/// let handler = service_fn(async |_: Request<()>| {
///     Ok::<_, Infallible>(Response::new(String::from("done")))
/// });
/// let service = ServiceBuilder::new()
///     .layer(RefusalLayer::new())
///     .layer(UpstreamLayer::http(&SELF))
///     .service(handler);
/// let busy = SELF.try_admit().unwrap();
/// let refused = service.clone().oneshot(Request::new(())).await.unwrap();
/// assert_eq!(refused.status(), 503);
/// drop(busy);
/// assert_eq!(service.oneshot(Request::new(())).await.unwrap().status(), 200);
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a layer does nothing until it is around a service"]
#[non_exhaustive]
pub struct RefusalLayer;

impl RefusalLayer {
    /// Makes the layer.
    pub const fn new() -> Self {
        Self
    }
}

impl<S> Layer<S> for RefusalLayer {
    type Service = Refusals<S>;

    fn layer(&self, inner: S) -> Refusals<S> {
        Refusals { inner }
    }
}

/// A service that answers refused requests. Made by [`RefusalLayer`].
#[derive(Clone, Debug)]
pub struct Refusals<S> {
    inner: S,
}

impl<S, Req, B> Service<Req> for Refusals<S>
where
    S: Service<Req, Response = Response<B>, Error: Into<BoxError>>,
    B: Default,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = RefusalFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        RefusalFuture::new(self.inner.call(request))
    }
}
