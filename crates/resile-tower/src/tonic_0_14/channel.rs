use std::fmt;
use std::task::{Context, Poll};

use http::{Request, Response};
use resile::cancel::Cancel;
use resile::upstream::markers::ByError;
use resile::upstream::{Target, TargetFor, Via};
use resile::{Never, RetryPolicy, Upstream};
use resile_clients::Idempotency;
use resile_clients::grpc::to_status;
use tonic::Status;
use tonic::body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::RetryChannelFuture;
use super::plain::Plain;
use crate::deadline::{TimeLeft, TimeLeftLayer};
use crate::grpc::Grpc;
use crate::http::Kept;
use crate::judge::NoClassifier;
use crate::retry::Retry;
use crate::{BoxError, Failed, RetryLayer};

/// A channel of `tonic` that makes each request again until it succeeds or gives up.
///
/// A generated client takes it in place of the channel, and a struct may hold the client as
/// `WeatherClient<RetryChannel<Channel>>`. The [module](super) lists its parts.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | upstream | none: the log prints the name `service` | [`on`](Self::on) shares the parts of one |
/// | body | 65,536 bytes are kept | nearly all requests are shorter. [`keeping`](Self::keeping) sets the limit |
/// | methods | those of `idempotency` alone | [`with_idempotent`](Self::with_idempotent) lists the reads of a service |
/// | token | none | [`with_token`](Self::with_token) takes that of a shutdown |
///
/// # Requests
///
/// A request may be executed twice if its method is [listed](Self::with_idempotent) or its extensions say
/// so, as for [`Grpc`]. Its `set_timeout` limits each attempt, unless the attempt timeout of the policy is
/// shorter. The attempt is cut at that time and the server is told 50 ms more, rounded down to a millisecond,
/// because a channel ends a call at the time of the header too, and as `CANCELLED`. To limit one whole call, use
/// [`Deadline::after(limit).scope(call)`](crate::deadline::Deadline::scope).
///
/// The server is told so of a method with a stream of answers too, and many servers end the whole stream then: see
/// [`TimeLeftLayer`]. Call such a method by `resile::retry_stream`.
///
/// # Errors
///
/// A status: that of the server, or the one that [`to_status`] makes. It makes one if the call ends without an
/// answer, or if an earlier attempt may have executed an order. [`gave_up`](super::gave_up) returns the end of the
/// call. A status that comes behind the first message of an answer has none, because the call has succeeded then.
///
/// # Cancel safety
///
/// Dropping the future of a call drops the attempt in flight, and gives back what it holds at the upstream.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// # use std::convert::Infallible;
/// # use http::{Request, Response};
/// # use resile_tower::resile::{Budget, RetryPolicy, Upstream};
/// # use resile_tower::resile_clients::Idempotency::NotIdempotent;
/// # use tonic::body::Body;
/// # use tower::{ServiceExt, service_fn};
/// use resile_tower::tonic_0_14::{RetryChannel, gave_up};
///
/// static SHOP: Upstream = Upstream::new("shop").with_budget(Budget::new());
///
/// # let channel = service_fn(async |_: Request<Body>| {
/// #     let answer = Response::builder().header("grpc-status", "14").header("grpc-message", "down");
/// #     Ok::<_, Infallible>(answer.body(Body::empty()).unwrap())
/// # });
/// let channel = RetryChannel::new(channel, RetryPolicy::new(), NotIdempotent).on(&SHOP);
/// // let mut client = ShopClient::new(channel);
/// # let order = Request::post("/shop.Shop/Order").body(Body::empty()).unwrap();
/// # let status = channel.oneshot(order).await.unwrap_err();
/// // let status = client.order(order).await.unwrap_err();
/// assert_eq!((status.code(), status.message()), (tonic::Code::Unavailable, "down"));
/// assert!(gave_up(&status).is_some_and(|end| end.is_in_doubt()));
/// # }
/// ```
#[must_use = "a channel does nothing until a client has it"]
pub struct RetryChannel<S, X = &'static Upstream, K = Never> {
    retry: Retry<TimeLeft<Plain<S>>, Grpc, Kept, X, K>,
}

/// The bytes of a body that are kept by default.
const LIMIT: usize = 65_536;

impl<S> RetryChannel<S, &'static str> {
    /// Makes a channel with retries around `channel`, such as a `tonic::transport::Channel`.
    ///
    /// [`Grpc`] judges answers and errors, so the policy has no classifier. `idempotency` is that of all
    /// requests whose extensions have none.
    #[track_caller]
    pub fn new<C: NoClassifier>(
        channel: S,
        policy: RetryPolicy<C>,
        idempotency: Idempotency,
    ) -> Self {
        let layer = RetryLayer::grpc(policy, idempotency).keeping(LIMIT);
        Self { retry: layer.layer(TimeLeftLayer::new().layer(Plain(channel))) }
    }
}

/// Settings, in any order. Each replaces an earlier value of the same setting.
impl<S, X, K> RetryChannel<S, X, K> {
    /// Sets the upstream of all calls, or its name alone: `&'static Upstream`, `Arc<Upstream>`,
    /// `&'static LazyLock<Upstream>`, or a name.
    pub fn on<Y: Target>(self, target: Y) -> RetryChannel<S, Y, K> {
        RetryChannel { retry: self.retry.with_layer(|layer| layer.on(target)) }
    }

    /// Sets how many bytes of a body are kept for another attempt. A longer one is sent once, and the end
    /// of its call says so: see [`RetryLayer::keeping`].
    pub fn keeping(self, limit: usize) -> Self {
        Self { retry: self.retry.with_layer(|layer| layer.keeping(limit)) }
    }

    /// Sets the methods that may be executed twice, by their paths: `&["/shop.Shop/Stock"]`. The first slash of
    /// a path may be left out. The extensions of a request count before this list, and a path that no request can
    /// have is logged as a warning: see [`RetryLayer::with_idempotent`].
    pub fn with_idempotent(self, paths: &'static [&'static str]) -> Self {
        Self { retry: self.retry.with_layer(|layer| layer.with_idempotent(paths)) }
    }

    /// Sets the token that cancels all calls, such as that of a shutdown.
    pub fn with_token<L: Cancel>(self, token: L) -> RetryChannel<S, X, L> {
        RetryChannel { retry: self.retry.with_layer(|layer| layer.with_token(token)) }
    }
}

impl<S, B, X, K> Service<Request<Body>> for RetryChannel<S, X, K>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>> + Clone,
    X: Target + Clone,
    K: Cancel + Clone,
    Via<X, ByError>: TargetFor<Failed<Response<B>>>,
{
    type Response = Response<B>;
    type Error = Status;
    type Future = RetryChannelFuture<S, X, K>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.retry.poll_ready(cx).map_err(to_status)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        RetryChannelFuture::new(self.retry.call(request))
    }
}

impl<S: Clone, X: Clone, K: Clone> Clone for RetryChannel<S, X, K> {
    /// A clone is not ready.
    fn clone(&self) -> Self {
        Self { retry: self.retry.clone() }
    }
}

impl<S: fmt::Debug, X, K> fmt::Debug for RetryChannel<S, X, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryChannel").field("retry", &self.retry).finish_non_exhaustive()
    }
}
