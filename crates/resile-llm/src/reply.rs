use std::time::SystemTime;

use http::HeaderMap;

use crate::body::{BodyShape, Origin, PARSED, ParsedBody};
use crate::evidence::{Conclusion, Evidence};
use crate::explain::{Explanation, Reason};
use crate::failure::Failure;
use crate::kind::{Kind, Phase};
use crate::rule::Rule;
use crate::statuses::Statuses;
use crate::tokens::Tokens;
use crate::usage::usage;
use crate::{headers, numbers, spoken, text, wait};

/// The answer of a failed call, as far as it arrived. It is the input of the classification.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | status | none | a stream's error, or a text, has none |
/// | headers | none | |
/// | phase | [`Phase::Response`] | most failures are whole answers |
///
/// # Examples
///
/// ```
/// use resile_llm::{Kind, Phase, Reply};
/// use std::time::{Duration, SystemTime};
///
/// let event = r#"{"type":"error","error":{
///     "type":"rate_limit_error","message":"Try again in 11.5s."}}"#;
/// let reply = Reply::new(event.as_bytes()).with_phase(Phase::Preamble);
/// let failure = reply.classify(SystemTime::now());
/// assert_eq!(failure.kind(), Kind::RateLimit);
/// assert_eq!(failure.wait(), Some(Duration::from_millis(11_500)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a reply does nothing until it is classified"]
pub struct Reply<'a> {
    status: Option<u16>,
    headers: Option<&'a HeaderMap>,
    body: &'a [u8],
    phase: Phase,
}

impl<'a> Reply<'a> {
    /// Creates a reply from a body of any bytes: JSON, stream events, HTML, text or the words of a
    /// transport's error.
    pub const fn new(body: &'a [u8]) -> Self {
        Self { status: None, headers: None, body, phase: Phase::Response }
    }

    /// Sets the status of the answer.
    pub const fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets the headers of the answer. Moments in the headers and in the body are measured from the
    /// answer's `Date`: see [`classify`](Self::classify).
    pub const fn with_headers(mut self, headers: &'a HeaderMap) -> Self {
        self.headers = Some(headers);
        self
    }

    /// Sets the progress of the exchange.
    pub const fn with_phase(mut self, phase: Phase) -> Self {
        self.phase = phase;
        self
    }

    /// Returns the failure that the reply means at the time `now`. The function is pure and accepts
    /// any bytes. Its time is linear in the first 256 KiB of the body.
    ///
    /// `now` matters only if the provider names a moment and the headers have no `Date`. With a
    /// `Date` every moment in the headers and in the body is measured from the `Date`. A wrong
    /// clock on either side then has no effect. A `Date` is ignored if it is unreadable or before
    /// 1990 or after 2999.
    ///
    /// A `Date` is the moment at which the answer began. If a late event of a stream names a
    /// moment, the wait comes out too long by the time since the `Date`. Leave the headers out for
    /// such an event.
    #[must_use]
    pub fn classify(&self, now: SystemTime) -> Failure {
        let now = self.answered(now);
        self.failure(ParsedBody::read(self.body, now, self.origin()), now)
    }

    /// Returns the same failure as [`classify`](Self::classify) and the reasons for its kind: what
    /// decided, what lost against it and how sure the kind is. It costs some allocations more.
    #[must_use]
    pub fn explain(&self, now: SystemTime) -> Explanation {
        let now = self.answered(now);
        let found = ParsedBody::read(self.body, now, self.origin());
        let (failure, reasons) = self.weigh(found, now, true);
        Explanation::new(failure, reasons)
    }

    /// Returns the failure, or `None` for a good answer with a good ending.
    ///
    /// An answer with a good status may still hold an error object, a content filter's ending or no
    /// content. A body above 256 KiB with a good status is a good answer.
    #[must_use]
    pub fn find(&self, now: SystemTime) -> Option<Failure> {
        let now = self.answered(now);
        let is_status_good = self.status.is_none_or(|status| status < 400);
        if is_status_good && self.body.len() > PARSED {
            return None;
        }
        let found = ParsedBody::read(self.body, now, self.origin());
        let good = is_status_good && found.shape == BodyShape::Answer && found.finish.is_none();
        (!good).then(|| self.failure(found, now))
    }

    /// Returns what the status and the phase tell of the body.
    fn origin(&self) -> Origin {
        match self.status {
            Some(400..) => Origin::Refusal,
            Some(_) => Origin::Answer,
            None if self.phase.is_stream() => Origin::Answer,
            None => Origin::Text,
        }
    }

    /// Returns the moment from which every moment in the answer is measured.
    fn answered(&self, now: SystemTime) -> SystemTime {
        self.headers.map_or(now, |headers| headers::date(headers, now))
    }

    fn failure(&self, found: ParsedBody, now: SystemTime) -> Failure {
        self.weigh(found, now, false).0
    }

    /// Returns the failure, and all evidence if it is wanted.
    fn weigh(
        &self,
        mut found: ParsedBody,
        now: SystemTime,
        is_explained: bool,
    ) -> (Failure, Vec<Reason>) {
        let none = HeaderMap::new();
        let headers = self.headers.unwrap_or(&none);
        let message = found.message.take().unwrap_or_default();
        let status = self.status(&found, &message);
        let asked = headers::asked(headers, now);
        let lower = text::plain(&message);
        let said = if asked.is_none() { wait::sentence(&lower, now) } else { None };
        found.google.nothing |= message.contains("uota") && numbers::limit_of_zero(&message);
        let evidence = Evidence {
            status,
            at: self.class(status, &found),
            phase: self.phase,
            is_text: self.status.is_none() && found.codes.is_empty(),
            headers,
            found: &found,
            message: &message,
            lower: &lower,
            said,
        };
        let longest_wait = found.wait.max(found.google.wait).max(said).or(asked);
        let Conclusion { kind, scope, rule } = evidence.decide(longest_wait);
        let reasons = if is_explained { evidence.reasons() } else { Vec::new() };

        let mut failure = Failure::bare(kind, rule, self.phase);
        let parts = &mut *failure.0;
        if kind.is_passing() || kind == Kind::QuotaExhausted {
            let limited = matches!(kind, Kind::RateLimit | Kind::QuotaExhausted);
            // A day's quota does not reset within the seconds that Google names with it.
            let body_counts = !matches!(rule, Rule::Google(_)) || kind == Kind::RateLimit;
            // Inside one body the longest wait counts: Google rounds its `RetryInfo` down, but its
            // sentence is exact.
            let body = found.wait.max(found.google.wait);
            parts.wait = asked
                .or_else(|| {
                    body.is_some().then(|| body.max(said)).flatten().filter(|_| body_counts)
                })
                .or_else(|| headers::reset(headers, now).filter(|_| limited))
                .or(said.filter(|_| body_counts));
        }
        parts.scope = scope.filter(|_| matches!(kind, Kind::RateLimit | Kind::QuotaExhausted));
        parts.tokens = match kind {
            Kind::ContextLength | Kind::TooLarge => {
                let read = match numbers::requested(&lower).filter(|_| rule == Rule::Arithmetic) {
                    Some((limit, prompt)) => Tokens { prompt: Some(prompt), limit: Some(limit) },
                    None => numbers::tokens(&message),
                };
                Tokens { prompt: found.prompt.or(read.prompt), limit: found.limit.or(read.limit) }
            }
            _ => Tokens::default(),
        };
        // A refusal is not charged.
        if self.status.is_none_or(|status| status < 400) {
            parts.usage = usage(self.body).unwrap_or_default();
        }
        let instruction = headers::should_retry(headers);
        if kind != Kind::Cancelled {
            parts.retryable = instruction.unwrap_or(parts.retryable);
        }
        parts.instructed = instruction.is_some() || longest_wait.is_some();
        if !parts.retryable && kind.is_passing() {
            parts.wait = None;
        }
        parts.status = status;
        parts.code = found.code;
        parts.error_type = found.error_type;
        // Words that mean nothing known may be the model's own.
        let is_known = !failure.is_by_status_alone() && rule != Rule::Truncated;
        let words = found.words.filter(|_| found.objects == 0 && !is_known);
        let words =
            words.map(|bytes| format!("it is {bytes} bytes of words and not an answer in JSON"));
        let message = Some(message).filter(|message| !message.is_empty());
        failure.0.message = found.fault.or(words).or(message);
        (failure, reasons)
    }

    /// Returns the status that counts: the innermost that the answer names. A status in words counts
    /// behind a gateway's status only.
    fn status(&self, found: &ParsedBody, message: &str) -> Option<u16> {
        let outer = found.status.or(self.status);
        match outer {
            None | Some(..400 | 424 | 500 | 502 | 503) => {
                // The last words are the innermost.
                spoken::likely(message).or(found.named).or(outer)
            }
            _ => outer,
        }
    }

    fn class(&self, status: Option<u16>, found: &ParsedBody) -> Statuses {
        match (self.phase, Statuses::of(status)) {
            // A client's error that quotes an answer.
            (Phase::Connect, Statuses::NONE) if found.objects > 0 || !found.codes.is_empty() => {
                Statuses::NONE.and(Statuses::WIRE)
            }
            (Phase::Connect, Statuses::NONE) => Statuses::WIRE,
            // A text inside a stream may come from the provider or from the client's own library.
            (Phase::Preamble | Phase::Content, Statuses::NONE) if found.codes.is_empty() => {
                Statuses::NONE.and(Statuses::WIRE)
            }
            (_, class) => class,
        }
    }
}
