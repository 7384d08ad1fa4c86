use std::task::{Context, Poll};
use std::time::Duration;

use http::header::HeaderName;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::fields::{EXPECTED, is_grpc, read, usable};
use super::serving::Limit;
use super::{Deadline, DeadlineFuture};

/// A layer of a server that takes the deadline of each request from its headers.
///
/// The header is `grpc-timeout`, or a plain one with the milliseconds that the caller waits. Its default
/// name is `x-envoy-expected-rq-timeout-ms`, which Envoy sends to the services behind it. Of two headers
/// the shorter time counts.
///
/// * **The maximum** bounds what a caller may ask for, and it is the limit of a request without a header.
/// * **An unreadable value is ignored**, as if it were absent: it may be that of a proxy, and the request
///   itself is good.
/// * **A request of gRPC** has less time than its header tells: 50 ms and a tenth of the time are kept, at most 100 ms
///   and at most half. A client of this family tells 50 ms more than it waits, and the answer needs time for its way.
///   So a call of the handler ends by itself at the deadline, with its line and its report to the breaker, before
///   the caller resets the stream and the handler is dropped.
/// * **At the deadline** the handler is dropped. The answer is a 504 (Gateway Timeout), or for gRPC the
///   status 4 (`DEADLINE_EXCEEDED`) with a message that names the limit. The body is empty. So is the answer if the handler itself ends with
///   an error then. A request without time left is not handled.
///
/// The [`Deadline`] is among the extensions of the request, and it is [current](Deadline::current) while
/// the handler is polled. The body of the answer is not cut.
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
/// use resile_tower::deadline::{Deadline, DeadlineLayer};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// let handler = service_fn(async |_: Request<()>| {
///     let left = Deadline::current().map(Deadline::left).unwrap_or_default();
///     Ok::<_, Infallible>(Response::new(format!("{left:?}")))
/// });
/// let service = DeadlineLayer::new(Duration::from_secs(30)).layer(handler);
/// let request = Request::get("/").header("grpc-timeout", "250m").body(()).unwrap();
/// assert_eq!(service.oneshot(request).await.unwrap().into_body(), "250ms");
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is around a service"]
pub struct DeadlineLayer {
    maximum: Duration,
    header: HeaderName,
}

impl DeadlineLayer {
    /// Makes a layer with the longest time of a request.
    pub const fn new(maximum: Duration) -> Self {
        Self { maximum, header: EXPECTED }
    }

    /// Sets the name of the plain header. Its value is a whole number of milliseconds.
    pub fn with_header(mut self, header: HeaderName) -> Self {
        self.header = header;
        self
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> DeadlineService<S> {
        DeadlineService { inner, layer: self.clone() }
    }
}

/// A service that ends each request at its deadline. Made by [`DeadlineLayer`].
#[derive(Clone, Debug)]
pub struct DeadlineService<S> {
    inner: S,
    layer: DeadlineLayer,
}

impl<S, B, R> Service<Request<B>> for DeadlineService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = DeadlineFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let DeadlineLayer { maximum, header } = &self.layer;
        let is_grpc = is_grpc(request.headers());
        let told = read(request.headers(), header);
        let usable = told.map(|told| if is_grpc { usable(told) } else { told });
        let usable = usable.filter(|usable| usable < maximum);
        let left = usable.unwrap_or(*maximum);
        let limit = match (usable, told) {
            (Some(usable), Some(told)) => Limit::Caller { told, usable },
            _ => Limit::Server(left),
        };
        let deadline = if told.is_some() { Deadline::after(left) } else { Deadline::untold(left) };
        let limit = is_grpc.then_some(limit);
        if left.is_zero() {
            return DeadlineFuture::new(deadline, limit, None);
        }
        request.extensions_mut().insert(deadline);
        let _current = deadline.enter();
        DeadlineFuture::new(deadline, limit, Some(self.inner.call(request)))
    }
}
