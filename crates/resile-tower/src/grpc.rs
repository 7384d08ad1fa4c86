//! The judge of the answers of gRPC.

#[cfg(feature = "tonic-0_14")]
mod answer;
#[cfg(feature = "tonic-0_14")]
mod lent;
mod listed;
mod no_status;
mod retry_info;
mod status;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use resile::classify::Cut;
use resile::error::Boxed;
use resile::http::Classifier;
use resile::upstream::Target;
use resile::{GaveUp, RetryPolicy, Verdict};
use resile_clients::Idempotency;
use resile_clients::grpc::{Pushback, code, with_retry_info};

#[cfg(feature = "tonic-0_14")]
pub use self::answer::answer_to_error;
use self::no_status::NoStatus;
use self::retry_info::retry_info;
use self::status::{OK, Status};
use crate::below::call_below;
use crate::deadline::take_limit;
use crate::foreign::Site;
use crate::http::judge::{classifier_set, judged_answer, judged_error, watch};
use crate::http::place::Place;
use crate::judge::{Judged, NoClassifier, SealedJudge, SealedRule};
use crate::{BoxError, RetryLayer, UpstreamLayer};

/// Judges the answers of gRPC by their status and by the wait that the server asks for. The wait is that of
/// the pushback, or else that of `google.rpc.RetryInfo` in `grpc-status-details-bin`.
///
/// A server that fails before its first message sends the status in the headers. Such an answer is
/// judged by [`resile_clients::grpc`]. Each status that is not `OK` is a failure, so a call that ends with
/// `NOT_FOUND` has not succeeded: it ends as [`Fatal`](resile::StopReason::Fatal), and pays nothing into
/// the budget. The breaker counts it as an answer of a healthy server. An unknown code counts as
/// `UNKNOWN`.
///
/// An answer without a status in its headers is good: the call is committed then, and a status in the
/// trailers is for the caller (gRPC A6). An answer that has no status in its headers and is not a 200 comes
/// from a proxy, and is a failure too. [`Http`](crate::http::Http) judges it, with its `Retry-After`. What is
/// no failure there, such as a 404, has the verdict of the code that gRPC has for it: `UNIMPLEMENTED`.
///
/// With the feature `tonic-0_14` an error of the service has the verdict of the status that `tonic` makes of
/// it, as around a call of the generated client: see `resile_clients::grpc::status`. Without that feature,
/// and for a service that was not ready, it has the verdict of [`Http`](crate::http::Http).
///
/// The `error.type` of a failure is the name of a code, also after an error: with the feature `tonic-0_14`
/// the one that `tonic` has for the error, and without it `UNAVAILABLE` if the request was never sent and
/// `UNKNOWN` otherwise. That of the answer of a proxy is its status of HTTP, such as `503`, and its words are
/// `no grpc-status: 503 Service Unavailable`.
///
/// A call that ends with an answer which is a failure leaves its [end](crate::judge) in the extensions of
/// the answer.
///
/// The words of a failure begin with the path of the request, such as `/weather.Weather/Get`. So do those
/// of an attempt that was cut. Those of an error of the transport have the name of its code next, as a status has
/// it: `/weather.Weather/Get: UNAVAILABLE: tcp connect error: Connection refused (os error 111)`.
///
/// Each request of gRPC is a `POST`, so nobody but you knows whether it may be executed twice. The layer
/// has a default and a [list](RetryLayer::with_idempotent) of methods, and the extensions of a request
/// replace both. They may have an [`Idempotency`], or a classifier: that of `resile-clients` or that of [`resile::http`](Classifier).
#[derive(Clone, Copy, Debug)]
pub struct Grpc {
    idempotency: Idempotency,
    /// The paths of methods that may be executed twice.
    twice: &'static [&'static str],
}

/// The rule of [`Grpc`] for one request.
#[derive(Clone, Debug)]
pub struct GrpcRule {
    classifier: Classifier,
    place: Place,
}

impl RetryLayer<Grpc> {
    /// Makes a layer for a channel of gRPC. [`Grpc`] judges its answers and errors, so the policy has no
    /// classifier. For a channel of `tonic` take `tonic_0_14::RetryChannel` (feature `tonic-0_14`), which has
    /// this layer and the others that belong to it.
    ///
    /// A request has an idempotency of its own through its extensions, such as a read among orders:
    /// `request.extensions_mut().insert(Idempotency::Idempotent)` on a `tonic::Request`, whose extensions
    /// become those of the request of HTTP. A `Classifier` of `resile-clients` or of `resile::http` has
    /// the same effect, and any other type has none. With several of them that of `resile::http` counts,
    /// and then that of `resile-clients`.
    ///
    /// `set_timeout` of a request limits each attempt, unless the attempt timeout of the policy is shorter.
    /// The layer cuts the attempt at that time and makes the header 50 ms longer, because `tonic` ends a call
    /// at the time of the header too, and as `CANCELLED`. To limit one whole call, use
    /// [`Deadline::after(limit).scope(call)`](crate::deadline::Deadline::scope).
    ///
    /// `tonic` calls an error that it does not know `UNKNOWN`, such as that of an open breaker. Above
    /// this layer `.map_err(resile_clients::grpc::to_status)` (feature `tonic-0_14`) makes it
    /// `UNAVAILABLE`, and a cut `DEADLINE_EXCEEDED`. The source of the status is then the [`GaveUp`], and
    /// with `.map_result(grpc::answer_to_error)` between the two it is so after an answer of the server.
    ///
    /// The body of such a request is not `Clone`, so [`keeping`](Self::keeping) belongs to it. A channel
    /// that takes one type of body gets it by `map_request` below this layer:
    ///
    /// ```
    /// use resile_tower::RetryLayer;
    /// use resile_tower::http::KeptBody;
    /// use resile_tower::resile::RetryPolicy;
    /// use resile_tower::resile_clients::Idempotency;
    /// use tower::ServiceBuilder;
    ///
    /// let layers = ServiceBuilder::new()
    ///     .layer(RetryLayer::grpc(RetryPolicy::new(), Idempotency::Idempotent).keeping(65_536));
    /// // .map_request(|request: http::Request<KeptBody<_>>| request.map(tonic::body::Body::new))
    /// // .service(channel)
    /// # let _ = layers;
    /// # let _ = None::<KeptBody<String>>;
    /// ```
    #[track_caller]
    pub fn grpc<C: NoClassifier>(policy: RetryPolicy<C>, idempotency: Idempotency) -> Self {
        Self::of(policy, Grpc { idempotency, twice: &[] })
    }
}

impl<R, X, K> RetryLayer<Grpc, R, X, K> {
    /// Sets the methods that may be executed twice, by their paths: `&["/shop.Shop/Stock"]`. A second call
    /// replaces the first one.
    ///
    /// The extensions of a request count before this list. The first slash of a path may be left out. A path
    /// that no request has does nothing. One without a service or a method, such as `Price` or `/shop.Shop/*`,
    /// is logged as a warning. Nobody can know that another one has a letter in the wrong case: then the line of
    /// the call says `must not be sent again: /shop.Shop/Stock` with the path to list.
    pub fn with_idempotent(mut self, paths: &'static [&'static str]) -> Self {
        listed::watch(paths, self.site);
        self.judge.twice = paths;
        self
    }
}

impl<X: Target> UpstreamLayer<Grpc, X> {
    /// Makes a layer for a channel of gRPC. [`Grpc`] judges its answers and errors, so a breaker sees a
    /// status in the headers of an answer. A call is one attempt, so its idempotency does not matter.
    #[track_caller]
    pub const fn grpc(target: X) -> Self {
        Self::of(target, Grpc { idempotency: Idempotency::NotIdempotent, twice: &[] })
    }
}

impl<B> SealedJudge<Request<B>> for Grpc {
    type Rule = GrpcRule;

    fn rule(&self, request: &Request<B>) -> GrpcRule {
        let is_listed = || listed::has(self.twice, request.uri().path());
        let classifier = match (classifier_set(request.extensions()), self.idempotency) {
            (Some(set), _) => set,
            (None, Idempotency::Idempotent) => Classifier::idempotent(),
            (None, Idempotency::NotIdempotent) if is_listed() => Classifier::idempotent(),
            (None, Idempotency::NotIdempotent) => Classifier::non_idempotent(),
        };
        GrpcRule { classifier, place: Place::path(request.uri()) }
    }

    fn limit(&self, request: &mut Request<B>) -> Option<Duration> {
        take_limit(request.headers_mut())
    }

    fn watch(&self, request: &Request<B>, site: Site) {
        watch(request.headers(), site);
    }
}

impl<B, E: Into<BoxError>> SealedRule<Response<B>, E> for GrpcRule {
    fn answer(&self, answer: &Response<B>) -> Option<Judged> {
        match answer.headers().get("grpc-status") {
            Some(status) => self.judged_status(status, answer.headers()),
            None => self.judged_http(answer.status(), answer.headers()),
        }
    }

    fn error(&self, error: E, is_sent: bool) -> Judged {
        let error: BoxError = error.into();
        if call_below(&*error).is_some() {
            return judged_error(self.classifier, error, is_sent);
        }
        transport::judged(error, is_sent, self.classifier, self.idempotency())
    }

    fn cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.classifier.unanswered())
    }

    fn place(&self) -> Option<String> {
        Some(self.place.to_string())
    }

    fn note(answer: &mut Response<B>, gave_up: GaveUp<Boxed>) {
        answer.extensions_mut().insert(Arc::new(gave_up));
    }
}

impl GrpcRule {
    const fn idempotency(&self) -> Idempotency {
        if self.classifier.is_idempotent() {
            Idempotency::Idempotent
        } else {
            Idempotency::NotIdempotent
        }
    }

    /// Returns the failure that a status is, also if it says that the server works: around the call of a
    /// generated client each of them is an error too. `None` is OK.
    fn judged_status(&self, status: &HeaderValue, headers: &HeaderMap) -> Option<Judged> {
        let status = Status::read(status, headers);
        let idempotency = self.idempotency();
        let number = status.number();
        if number == OK {
            return None;
        }
        let verdict = match (status.pushback, retry_info(headers)) {
            (Pushback::None, Some(delay)) => with_retry_info(number, delay, idempotency),
            (pushback, _) => code(number, pushback, idempotency),
        };
        let word = status.error_type();
        Some(Judged::new(Box::new(status), verdict, Some(word.into())))
    }

    /// Returns the failure that an answer without a status is. The rule of HTTP reads its `Retry-After`, and
    /// knows that a 429 was not executed. What is no failure there has the verdict of its code.
    fn judged_http(&self, status: StatusCode, headers: &HeaderMap) -> Option<Judged> {
        let judged = judged_answer(self.classifier, status, headers);
        if judged.is_none() && status == StatusCode::OK {
            return None;
        }
        let failure = NoStatus(status);
        let by_code = || code(failure.code(), Pushback::None, self.idempotency());
        let verdict = judged.map_or_else(by_code, |judged| judged.verdict);
        Some(Judged::new(failure.into(), verdict, Some(status.as_str().to_owned().into())))
    }
}
