use resile::RetryPolicy;
use resile::upstream::Target;

use super::{Http, Kept};
use crate::judge::NoClassifier;
use crate::{RetryLayer, UpstreamLayer};

impl RetryLayer<Http> {
    /// Makes a layer for a service of HTTP. [`Http`] judges its answers and errors, so the policy has
    /// no classifier.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use std::convert::Infallible;
    /// # use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use http::{Request, Response};
    /// use resile_tower::RetryLayer;
    /// use resile_tower::resile::RetryPolicy;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # static CALLS: AtomicU32 = AtomicU32::new(0);
    /// # let client = service_fn(async |_: Request<String>| {
    /// #     let is_first = CALLS.fetch_add(1, Relaxed) == 0;
    /// #     let status = if is_first { 503 } else { 200 };
    /// #     let answer = Response::builder().status(status).header("retry-after", "2");
    /// #     Ok::<_, Infallible>(answer.body(String::new()).unwrap())
    /// # });
    /// let service = RetryLayer::http(RetryPolicy::new()).layer(client);
    /// let request = Request::get("/weather").body(String::new()).unwrap();
    /// // The first answer is a 503 with `Retry-After: 2`.
    /// assert_eq!(service.oneshot(request).await.unwrap().status(), 200);
    /// # }
    /// ```
    #[track_caller]
    pub fn http<C: NoClassifier>(policy: RetryPolicy<C>) -> Self {
        Self::of(policy, Http)
    }
}

impl<J, R, X, K> RetryLayer<J, R, X, K> {
    /// Keeps the body of each request while it is sent, up to `limit` bytes, and sends what was kept
    /// again. The inner service gets an `http::Request` with a [`KeptBody`](super::KeptBody).
    ///
    /// The head of the request is cloned. A body of more than `limit` bytes is passed on as it is, and
    /// what was kept is dropped. Such a request is sent once. The error of its call and the WARN line
    /// say that the request cannot be made again, and the error of its attempt says why. A body that says beforehand that it is longer is not kept at all. The memory of a call is
    /// at most `limit` bytes, and trailers.
    ///
    /// A call that ends while its body is still sent, as that of a stream in both directions, keeps
    /// nothing from then on.
    ///
    /// A retry of gRPC says how many attempts were made before it, in `grpc-previous-rpc-attempts`, with
    /// those that a client above this layer has told.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use std::convert::Infallible;
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use http_body_util::{BodyExt, Full};
    /// use resile_tower::RetryLayer;
    /// use resile_tower::http::KeptBody;
    /// use resile_tower::resile::RetryPolicy;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>; // not `Clone`
    ///
    /// let client = service_fn(async |request: Request<KeptBody<Body>>| {
    ///     let body = request.into_body().collect().await.unwrap().to_bytes();
    ///     Ok::<_, Infallible>(Response::new(body))
    /// });
    /// let service = RetryLayer::http(RetryPolicy::new()).keeping(65_536).layer(client);
    /// let request = Request::put("/city").body(Full::from("Paris").boxed_unsync()).unwrap();
    /// assert_eq!(service.oneshot(request).await.unwrap().into_body(), "Paris");
    /// # }
    /// ```
    pub fn keeping(self, limit: usize) -> RetryLayer<J, Kept, X, K> {
        self.replay(Kept::new(limit))
    }
}

impl<X: Target> UpstreamLayer<Http, X> {
    /// Makes a layer for a service of HTTP. [`Http`] judges its answers and errors.
    #[track_caller]
    pub const fn http(target: X) -> Self {
        Self::of(target, Http)
    }
}
