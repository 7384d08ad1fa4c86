//! The judge of the answers of gRPC.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use http::{HeaderMap, HeaderValue, Request, Response};
use resile::classify::Cut;
use resile::http::Classifier;
use resile::upstream::Target;
use resile::{RetryPolicy, Verdict};
use resile_clients::Idempotency;
use resile_clients::grpc::{Pushback, code, name};

use crate::foreign::Site;
use crate::http::judge::{judged_answer, judged_error, watch};
use crate::judge::{Judged, SealedJudge, SealedRule, is_failure};
use crate::{BoxError, RetryLayer, UpstreamLayer};

/// Judges the answers of gRPC by their status and the pushback of the server, and errors as
/// [`Http`](crate::http::Http) does.
///
/// A server that fails before its first message sends the status in the headers. Such an answer is
/// judged by [`resile_clients::grpc`]. An answer without a status in its headers is good: the call is
/// committed then, and a status in the trailers is for the caller (gRPC A6). Without both, the status of
/// HTTP counts, such as the 503 of a proxy.
///
/// Each request of gRPC is a `POST`, so nobody but you knows whether it may be executed twice. The layer
/// has a default, and a [`Classifier`] among the extensions of a request replaces it.
#[derive(Clone, Copy, Debug)]
pub struct Grpc {
    idempotency: Idempotency,
}

/// The rule of [`Grpc`] for one request.
#[derive(Clone, Copy, Debug)]
pub struct GrpcRule(Classifier);

impl RetryLayer<Grpc> {
    /// Makes a layer for a channel of gRPC, such as that of `tonic`. [`Grpc`] judges its answers and
    /// errors, so the policy has no classifier.
    ///
    /// A request has a classifier of its own through its extensions, such as a read among orders:
    /// `request.extensions_mut().insert(resile::http::Classifier::idempotent())` on a
    /// `tonic::Request`, whose extensions become those of the request of HTTP. It is the classifier of
    /// `resile::http`, and any other type has no effect.
    ///
    /// `set_timeout` of a request limits each attempt. To limit one whole call, use
    /// [`Deadline::after(limit).scope(call)`](crate::deadline::Deadline::scope).
    ///
    /// `tonic` calls an error that it does not know `UNKNOWN`, such as that of an open breaker. Above
    /// this layer `.map_err(resile_clients::grpc::to_status)` (feature `tonic-0_14` of that crate) makes
    /// it `UNAVAILABLE`, and a cut `DEADLINE_EXCEEDED`.
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
    pub fn grpc(policy: RetryPolicy, idempotency: Idempotency) -> Self {
        Self::of(policy, Grpc { idempotency })
    }
}

impl<X: Target> UpstreamLayer<Grpc, X> {
    /// Makes a layer for a channel of gRPC. [`Grpc`] judges its answers and errors, so a breaker sees a
    /// status in the headers of an answer. A call is one attempt, so its idempotency does not matter.
    pub const fn grpc(target: X) -> Self {
        Self::of(target, Grpc { idempotency: Idempotency::NotIdempotent })
    }
}

impl<B> SealedJudge<Request<B>> for Grpc {
    type Rule = GrpcRule;

    fn rule(&self, request: &Request<B>) -> GrpcRule {
        GrpcRule(match (request.extensions().get::<Classifier>(), self.idempotency) {
            (Some(set), _) => *set,
            (None, Idempotency::Idempotent) => Classifier::idempotent(),
            (None, Idempotency::NotIdempotent) => Classifier::non_idempotent(),
        })
    }

    fn watch(&self, request: &Request<B>, site: Site) {
        watch(request.headers(), site);
    }
}

impl<B, E: Into<BoxError>> SealedRule<Response<B>, E> for GrpcRule {
    fn answer(&self, answer: &Response<B>) -> Option<Judged> {
        let Some(status) = answer.headers().get("grpc-status") else {
            return judged_answer(self.0, answer.status(), answer.headers());
        };
        let status = Status::read(status, answer.headers());
        let pushback = answer.headers().get(Pushback::NAME);
        let pushback = Pushback::read(pushback.map(|value| value.to_str().unwrap_or_default()));
        let idempotency = if self.0.is_idempotent() {
            Idempotency::Idempotent
        } else {
            Idempotency::NotIdempotent
        };
        let verdict = code(status.code?, pushback, idempotency)?;
        is_failure(verdict).then(|| Judged {
            error_type: Some(status.error_type()),
            error: Box::new(status),
            verdict: Some(verdict),
        })
    }

    fn error(&self, error: E, is_sent: bool) -> Judged {
        judged_error(self.0, error.into(), is_sent)
    }

    fn cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.0.unanswered())
    }
}

/// A status in the headers of an answer.
#[derive(Debug)]
struct Status {
    /// `None` if it is not a number.
    code: Option<i32>,
    /// Without its percent-encoding.
    message: String,
}

impl Status {
    fn read(status: &HeaderValue, headers: &HeaderMap) -> Self {
        let message = headers.get("grpc-message").map(HeaderValue::as_bytes);
        Self {
            code: status.to_str().ok().and_then(|status| status.parse().ok()),
            message: decoded(message.unwrap_or_default()),
        }
    }

    fn error_type(&self) -> Cow<'static, str> {
        match (self.code, self.code.and_then(name)) {
            (_, Some(name)) => Cow::Borrowed(name),
            (Some(code), None) => Cow::Owned(code.to_string()),
            (None, None) => Cow::Borrowed(""),
        }
    }
}

/// Decodes a `grpc-message`, which is percent-encoded UTF-8. An invalid value stays as it arrived, because
/// it must not be discarded. Source: gRPC over HTTP/2, `Status-Message`.
fn decoded(message: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(message.len());
    let mut rest = message;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = encoded(rest).unwrap_or((first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| String::from_utf8_lossy(message).into_owned())
}

/// Returns the byte that the text begins with in encoded form, such as `%20`, and the text behind it.
fn encoded(text: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, after @ ..] = text else { return None };
    Some((digit(*high)? << 4 | digit(*low)?, after))
}

/// Returns the value of a hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.code.and_then(name)) {
            (_, Some(name)) => f.write_str(name)?,
            (Some(code), None) => write!(f, "grpc-status {code}")?,
            (None, None) => f.write_str("no grpc-status")?,
        }
        match &*self.message {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

impl Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_name_of_its_code() {
        for (status, words, word) in [
            ("14", "UNAVAILABLE: down", "UNAVAILABLE"),
            ("99", "grpc-status 99: down", "99"),
            ("odd", "no grpc-status: down", ""),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-message", HeaderValue::from_static("down"));
            let status = Status::read(&HeaderValue::from_static(status), &headers);
            assert_eq!((status.to_string().as_str(), &*status.error_type()), (words, word));
        }
    }

    #[test]
    fn a_message_is_decoded_and_never_lost() {
        for (sent, read) in [
            (&b"the%20server%20restarts"[..], "the server restarts"),
            (b"18%20%C2%B0C in %e6%9d%b1%e4%ba%ac", "18 \u{b0}C in \u{6771}\u{4eac}"),
            (b"100%25", "100%"),
            (b"%2525", "%25"),
            // Not encoded, or not by the rules: as it arrived.
            (b"100%", "100%"),
            (b"50% of %4 and %zz", "50% of %4 and %zz"),
            (b"%+1%-1", "%+1%-1"),
            (b"%ff%20", "%ff%20"),
            ("18 \u{b0}C".as_bytes(), "18 \u{b0}C"),
            (b"\xff%20", "\u{fffd}%20"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-message", HeaderValue::from_bytes(sent).unwrap());
            let status = Status::read(&HeaderValue::from_static("14"), &headers);
            assert_eq!(status.to_string(), format!("UNAVAILABLE: {read}"));
        }
    }

    proptest::proptest! {
        /// What is encoded is read again, and any other value is read too.
        #[test]
        fn each_message_is_read(text in ".{0,20}", bytes: Vec<u8>) {
            let digits = b"0123456789ABCDEF";
            let percent = |byte: u8| [b'%', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
            let sent: Vec<_> = text.bytes().flat_map(percent).collect();
            proptest::prop_assert_eq!(decoded(&sent), text);
            decoded(&bytes);
        }
    }
}
