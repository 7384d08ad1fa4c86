use std::borrow::Cow;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode};
use resile::classify::Cut;
use resile::error::Boxed;
use resile::http::{Classifier, StatusError, learn};
use resile::{GaveUp, Verdict, io};

use crate::BoxError;
use crate::below::{call_below, is_not_sent};
use crate::foreign::{Foreign, Site};
use crate::http::place::Place;
use crate::judge::{Judged, SealedJudge, SealedRule, is_failure};

/// The header of a request that its server executes once, however often it arrives: see
/// draft-ietf-httpapi-idempotency-key-header-07.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Judges answers by their status and `Retry-After`, and errors by the chain of their sources.
///
/// The rule is that of [`resile::http`]: a `GET` is sent again after a 500 and a `POST` is not,
/// because it may have been executed. The first of these that applies says whether a request may be
/// executed twice:
///
/// 1. A [`Classifier`] among the [extensions](http::Extensions) of the request. With the feature `grpc`
///    that of `resile-clients` and its `Idempotency` count too.
/// 2. A header `Idempotency-Key`: then yes.
/// 3. The method: see [`Classifier::for_method`].
///
/// A call that ends with an answer which is a failure leaves its [end](crate::judge) in the extensions of
/// the answer.
///
/// The words of a failure begin with the method and the path of the request, without its query. So do
/// those of an attempt that was cut.
///
/// The limits in the headers of each answer are passed to the [quota](resile::quota) of the upstream.
///
/// # Errors of the service
///
/// | error, or a source of it | verdict |
/// |---|---|
/// | a [`GaveUp`] of a layer below | that of the [call below](GaveUp::verdict) |
/// | surely [never sent](io::never_sent), or the service was not ready | any request is sent again |
/// | an `io::Error` | that of [`resile::io`] |
/// | any other | sent again if it may be executed twice |
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Http;

/// The rule of [`Http`] for one request.
#[derive(Clone, Debug)]
pub struct HttpRule {
    classifier: Classifier,
    place: Place,
}

impl<B> SealedJudge<Request<B>> for Http {
    type Rule = HttpRule;

    fn rule(&self, request: &Request<B>) -> HttpRule {
        HttpRule {
            classifier: classifier_of(request.extensions(), request.method(), request.headers()),
            place: Place::new(request.method(), request.uri()),
        }
    }

    fn watch(&self, request: &Request<B>, site: Site) {
        watch(request.headers(), site);
    }
}

impl<B, E: Into<BoxError>> SealedRule<Response<B>, E> for HttpRule {
    fn answer(&self, answer: &Response<B>) -> Option<Judged> {
        judged_answer(self.classifier, answer.status(), answer.headers())
    }

    fn error(&self, error: E, is_sent: bool) -> Judged {
        judged_error(self.classifier, error.into(), is_sent)
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

/// Warns if a header of the request tells that another library retries it too.
pub(crate) fn watch(headers: &HeaderMap, site: Site) {
    if let Some(foreign) = Foreign::above(headers) {
        foreign.warn(site);
    }
}

/// Returns the classifier that the caller has set for a request.
pub(crate) fn classifier_set(extensions: &Extensions) -> Option<Classifier> {
    let set = extensions.get().copied();
    #[cfg(feature = "grpc")]
    let set = set.or_else(|| {
        let clients = extensions.get().copied().or_else(|| {
            Some(match extensions.get::<resile_clients::Idempotency>()? {
                resile_clients::Idempotency::Idempotent => resile_clients::Classifier::idempotent(),
                resile_clients::Idempotency::NotIdempotent => {
                    resile_clients::Classifier::non_idempotent()
                }
            })
        })?;
        Some(match (clients.unanswered().is_keyed(), clients.is_idempotent()) {
            (true, _) => Classifier::keyed(),
            (false, true) => Classifier::idempotent(),
            (false, false) => Classifier::non_idempotent(),
        })
    });
    set
}

/// Returns the classifier for a request, by its extension, its key or its method.
pub(crate) fn classifier_of(
    extensions: &Extensions,
    method: &Method,
    headers: &HeaderMap,
) -> Classifier {
    match classifier_set(extensions) {
        Some(set) => set,
        None if headers.contains_key(IDEMPOTENCY_KEY) => Classifier::keyed(),
        None => Classifier::for_method(method),
    }
}

/// Returns the failure that an answer is, and teaches the quota its limits.
pub(crate) fn judged_answer(
    classifier: Classifier,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Judged> {
    learn(status, headers);
    let refused = StatusError::check(status, headers).err()?;
    let verdict = classifier.verdict(status, refused.retry_after());
    is_failure(verdict).then(|| {
        let word = Cow::Owned(status.as_str().to_owned());
        Judged::new(refused.into(), Some(verdict), Some(word))
    })
}

/// Judges an error by the chain of its sources.
pub(crate) fn judged_error(classifier: Classifier, error: BoxError, is_sent: bool) -> Judged {
    let (verdict, word) = if let Some(below) = call_below(&*error) {
        (below.verdict(), below.reason().as_str())
    } else if !is_sent || is_not_sent(&*error) || io::never_sent(&*error) {
        (Some(classifier.not_sent()), "connect")
    } else {
        let io = if classifier.is_idempotent() {
            io::Classifier::idempotent()
        } else {
            io::Classifier::non_idempotent()
        };
        (io.verdict(&*error).or(Some(classifier.unanswered())), "no_answer")
    };
    Judged::new(error, verdict, Some(Cow::Borrowed(word)))
}
