use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use http::header::HeaderName;
use tower_layer::Layer;
use tower_service::Service;

use super::Deadline;
use super::fields::{EXPECTED, MARGIN, is_grpc, write};

/// A layer of a client that writes what is left until the current [`Deadline`] into a header of each
/// request.
///
/// Put it below a [`RetryLayer`](crate::RetryLayer): then each attempt has what is left for itself. The
/// header is `grpc-timeout` if the content type of the request is that of gRPC, and a plain one with
/// milliseconds otherwise. A shorter time that the request has already stays. Times are rounded down,
/// but to no less than a millisecond. Without a current deadline the request stays as it is.
///
/// A client of gRPC such as `tonic` ends the call itself at `grpc-timeout`, with the status `CANCELLED`.
/// So that header has 50 ms more than what is left, because the attempt timeout should come first: it
/// knows that nothing was answered, and nobody can tell `CANCELLED` from a call that a person has
/// cancelled.
///
/// A server of gRPC that is not one of `tonic` ends a whole stream of answers at this time, and this layer does not
/// know whether a method has one. Call such a method by `resile::retry_stream` without this layer, or by a service
/// whose policy has no timeouts.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// # use std::convert::Infallible;
/// use std::time::Duration;
///
/// use http::{Request, Response};
/// use resile_tower::RetryLayer;
/// use resile_tower::deadline::TimeLeftLayer;
/// use resile_tower::resile::RetryPolicy;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let client = service_fn(async |request: Request<String>| {
///     let told = request.headers()["x-envoy-expected-rq-timeout-ms"].clone();
///     Ok::<_, Infallible>(Response::new(told))
/// });
/// let policy = RetryPolicy::new().with_total_timeout(Duration::from_secs(2));
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::http(policy))
///     .layer(TimeLeftLayer::new())
///     .service(client);
/// let answer = service.oneshot(Request::new(String::new())).await.unwrap();
/// assert_eq!(answer.into_body(), "2000");
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is around a service"]
pub struct TimeLeftLayer {
    header: HeaderName,
}

impl TimeLeftLayer {
    /// Makes a layer with the plain header `x-envoy-expected-rq-timeout-ms`.
    pub const fn new() -> Self {
        Self { header: EXPECTED }
    }

    /// Sets the name of the plain header. Its value is a whole number of milliseconds.
    pub fn with_header(mut self, header: HeaderName) -> Self {
        self.header = header;
        self
    }
}

impl Default for TimeLeftLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for TimeLeftLayer {
    type Service = TimeLeft<S>;

    fn layer(&self, inner: S) -> TimeLeft<S> {
        TimeLeft { inner, header: self.header.clone() }
    }
}

/// A service that tells its upstream what time is left. Made by [`TimeLeftLayer`].
#[derive(Clone, Debug)]
pub struct TimeLeft<S> {
    inner: S,
    header: HeaderName,
}

impl<S, B> Service<Request<B>> for TimeLeft<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(deadline) = Deadline::current() {
            let headers = request.headers_mut();
            let margin = if is_grpc(headers) { MARGIN } else { Duration::ZERO };
            write(headers, &self.header, deadline.left().saturating_add(margin));
        }
        self.inner.call(request)
    }
}
