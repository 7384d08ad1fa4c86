use std::time::SystemTime;

use http::HeaderMap;

use super::body::{BodyShape, PARSED, ParsedBody};
use super::failure::Failure;
use super::kind::{Kind, Phase, Scope};
use super::phrases::PhraseMatch;
use super::rule::Rule;
use super::statuses::Statuses;
use super::tokens::Tokens;
use super::grammar::{Reading, Said};
use super::{codes, grammar, headers, numbers, phrases, text, wait};

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
/// use resile::llm::{Kind, Phase, Reply};
/// use std::time::{Duration, SystemTime};
///
/// let event = r#"{"type":"error","error":{
///     "type":"rate_limit_error","message":"Try again in 11.5s."}}"#;
/// let reply = Reply::new(event.as_bytes()).with_phase(Phase::Preamble);
/// let failure = reply.classify(SystemTime::now());
/// assert_eq!(failure.kind(), Kind::RateLimit);
/// assert_eq!(failure.wait(), Some(Duration::from_millis(11_500)));
/// ```
#[derive(Clone, Copy, Debug)]
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
        self.failure(ParsedBody::read(self.body, now), now)
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
        let found = ParsedBody::read(self.body, now);
        let good = is_status_good && found.shape == BodyShape::Answer && found.finish.is_none();
        (!good).then(|| self.failure(found, now))
    }

    /// Returns the moment from which every moment in the answer is measured.
    fn answered(&self, now: SystemTime) -> SystemTime {
        self.headers.map_or(now, |headers| headers::date(headers, now))
    }

    fn failure(&self, mut found: ParsedBody, now: SystemTime) -> Failure {
        let none = HeaderMap::new();
        let headers = self.headers.unwrap_or(&none);
        let message = found.message.take().unwrap_or_default();
        let status = self.status(&found);
        let asked = headers::asked(headers, now);
        let lower = message.to_ascii_lowercase();
        let said = if asked.is_none() { wait::sentence(&lower, now) } else { None };
        found.google.nothing |= message.contains("uota") && numbers::limit_of_zero(&message);
        let evidence = Evidence {
            status,
            at: self.class(status, &found),
            phase: self.phase,
            headers,
            found: &found,
            message: &message,
            lower: &lower,
        };
        let longest_wait = found.wait.max(found.google.wait).max(said).or(asked);
        let mut conclusion = evidence.conclude(longest_wait);
        if let (Kind::RateLimit, Some(scope)) = (conclusion.kind, headers::window(headers)) {
            let rule = Rule::Header("window");
            conclusion = Conclusion { kind: Kind::QuotaExhausted, scope: Some(scope), rule };
        }
        if conclusion.kind == Kind::RateLimit && longest_wait >= Some(LONG_WAIT) {
            conclusion.kind = Kind::QuotaExhausted;
            conclusion.scope = conclusion.scope.filter(|scope| *scope == Scope::Day).or(Some(Scope::Window));
            conclusion.rule = Rule::LongWait;
        }
        let Conclusion { kind, scope, rule } = conclusion;

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
        if kind != Kind::Cancelled {
            parts.retryable = headers::should_retry(headers).unwrap_or(parts.retryable);
        }
        if !parts.retryable && kind.is_passing() {
            parts.wait = None;
        }
        parts.status = status;
        parts.code = found.code;
        parts.error_type = found.error_type;
        parts.message = Some(message).filter(|message| !message.is_empty());
        failure
    }

    /// Returns the status that counts: the innermost that the answer names. A status in words counts
    /// behind a gateway's status only.
    fn status(&self, found: &ParsedBody) -> Option<u16> {
        let outer = found.status.or(self.status);
        match outer {
            None | Some(..400 | 424 | 500 | 502 | 503) => found.named.or(outer),
            _ => outer,
        }
    }

    fn class(&self, status: Option<u16>, found: &ParsedBody) -> Statuses {
        match (self.phase, Statuses::of(status)) {
            (Phase::Connect, Statuses::NONE) => Statuses::WIRE,
            // A text inside a stream may come from the provider or from the client's own library.
            (Phase::Preamble | Phase::Content, Statuses::NONE) if found.codes.is_empty() => {
                Statuses::NONE.and(Statuses::WIRE)
            }
            (_, class) => class,
        }
    }
}

/// A limit that is reset after such a wait or a longer one is a quota and not a rate.
const LONG_WAIT: std::time::Duration = std::time::Duration::from_secs(3_600);

/// All inputs of the decision.
struct Evidence<'c> {
    status: Option<u16>,
    at: Statuses,
    phase: Phase,
    headers: &'c HeaderMap,
    found: &'c ParsedBody,
    message: &'c str,
    /// The message in lower case with the same length in bytes.
    lower: &'c str,
}

struct Conclusion {
    kind: Kind,
    scope: Option<Scope>,
    rule: Rule,
}

/// What the words of a message mean.
#[derive(Clone, Copy)]
struct Words {
    kind: Kind,
    scope: Option<Scope>,
    rule: Rule,
    /// The words say more than a code for a rate limit does.
    overrules_rate: bool,
}

impl From<Said> for Words {
    fn from(said: Said) -> Self {
        let overrules_rate = said.kind == Kind::QuotaExhausted;
        Self { kind: said.kind, scope: said.scope, rule: Rule::Grammar(said.rule), overrules_rate }
    }
}

impl From<PhraseMatch> for Words {
    fn from(phrase: PhraseMatch) -> Self {
        let overrules_rate = phrase.overrules_rate();
        Self { kind: phrase.kind, scope: phrase.scope, rule: Rule::Phrase(phrase.name), overrules_rate }
    }
}

impl Evidence<'_> {
    /// Returns the conclusion of the first rule with an opinion. The [module page](super) has the
    /// order.
    fn conclude(&self, asked: Option<std::time::Duration>) -> Conclusion {
        let code = self.code();
        let google = self.found.google.classify(self.at);
        // An unambiguous code needs no words.
        let open = google.is_some()
            || code.is_none_or(|code| {
                code.yields_to_words || matches!(code.kind, Kind::RateLimit | Kind::Server)
            });
        let quoted = if open { text::quoted(self.message) } else { Vec::new() };
        let read = if open && !self.message.is_empty() {
            // A 429 quotes the names of limits and no prompt.
            let quoted = if self.at == Statuses::RATE { &[][..] } else { &quoted };
            grammar::read(self.lower, quoted, self.at)
        } else {
            Reading::default()
        };
        let words = || {
            let veto = |phrase: &PhraseMatch| self.vetoes(phrase, asked, &read);
            phrases::look_up(self.lower, &quoted, self.at, veto)
        };
        let phrase = if open && !self.message.is_empty() { words() } else { None };
        // A phrase that denies a limit of the caller's own is about this very limit.
        let quota = read.quota.filter(|_| phrase.is_none_or(|phrase| !phrase.denies_limit()));
        let phrase = match (quota, phrase, read.other) {
            (Some(said), ..) => Some(Words::from(said)),
            // At no status, the words about a bad request are the weakest.
            (None, Some(phrase), Some(said))
                if phrase.kind == Kind::InvalidRequest && said.kind == Kind::InvalidOutput =>
            {
                Some(Words::from(said))
            }
            (None, Some(phrase), _) => Some(Words::from(phrase)),
            (None, None, other) => other.map(Words::from),
        };
        let of = |kind, scope, rule| Conclusion { kind, scope, rule };

        // Google's details name the exhausted limit. Its codes do not.
        if let Some((kind, scope, rule)) = google {
            return of(kind, scope.or(phrase.and_then(|phrase| phrase.scope)), rule);
        }
        let limit = code.is_none_or(|code| {
            matches!(code.kind, Kind::RateLimit | Kind::TooLarge) || code.yields_to_words
        });
        if limit
            && numbers::requested(self.lower).is_some_and(|(limit, requested)| requested > limit)
        {
            return of(Kind::TooLarge, None, Rule::Arithmetic);
        }
        if let Some(code) = code {
            // If the code and the words agree on the kind, the words may add the scope.
            let scope =
                phrase.filter(|phrase| phrase.kind == code.kind).and_then(|phrase| phrase.scope);
            match phrase {
                Some(phrase) if code.yields_to_words => {
                    return of(phrase.kind, phrase.scope, phrase.rule);
                }
                Some(phrase) if code.kind == Kind::RateLimit && phrase.overrules_rate => {
                    return of(phrase.kind, phrase.scope, phrase.rule);
                }
                // A failed model may have failed by what it wrote.
                Some(phrase)
                    if code.kind == Kind::Server && phrase.kind == Kind::InvalidOutput =>
                {
                    return of(phrase.kind, phrase.scope, phrase.rule);
                }
                _ if !code.yields_to_words
                    || self.at.meets(Statuses::NONE.and(Statuses::WIRE)) =>
                {
                    return of(code.kind, code.scope.or(scope), code.rule);
                }
                _ => {}
            }
        }
        if let Some(phrase) = phrase {
            return of(phrase.kind, phrase.scope, phrase.rule);
        }
        if let Some(code) = code {
            return of(code.kind, code.scope, code.rule);
        }
        self.conclude_from_status()
    }

    /// Returns the strongest code of the body and the headers.
    fn code(&self) -> Option<codes::CodeMatch> {
        let body = self.found.codes.iter().map(String::as_str);
        body.chain(headers::codes(self.headers))
            .filter_map(|code| codes::look_up(code, self.at))
            .min_by_key(|said| said.rank)
    }

    /// Returns whether the other evidence overrules a phrase with two meanings.
    fn vetoes(
        &self,
        phrase: &PhraseMatch,
        asked: Option<std::time::Duration>,
        read: &Reading,
    ) -> bool {
        // A limit per minute explains why many callers wait.
        if phrase.kind == Kind::Overloaded && read.is_minute && self.at == Statuses::RATE {
            return !phrase.denies_limit();
        }
        // Google uses these words for a minute's quota too, but then with a wait or
        // `RESOURCE_EXHAUSTED`.
        if phrase.kind == Kind::QuotaExhausted && phrase.name == "exceeded your current quota" {
            return asked.is_some()
                || self.found.codes.iter().any(|code| code == "RESOURCE_EXHAUSTED");
        }
        // At a rate limit, words about a length refer to the limit.
        phrase.kind == Kind::ContextLength
            && self.at == Statuses::RATE
            && phrase.name.starts_with("too many")
    }

    /// Concludes from the status, a generic code, the ending or the phase.
    fn conclude_from_status(&self) -> Conclusion {
        let of = |kind, rule| Conclusion { kind, scope: None, rule };
        if let Some(status) = self.status.filter(|status| *status >= 400) {
            return of(by_status(status), Rule::Status(status));
        }
        if let Some((kind, rule)) = self.found.class.as_deref().and_then(|c| codes::class(c, self.at)) {
            return of(kind, rule);
        }
        let error = self.found.shape == BodyShape::Error;
        let generic = || self.found.codes.iter().rev().find_map(|code| codes::generic(code));
        if let Some((kind, rule)) = error.then(generic).flatten() {
            return of(kind, rule);
        }
        if let Some(finish) = self.found.finish {
            return of(finish.kind, Rule::Finish(finish.name));
        }
        match self.phase {
            Phase::Connect => of(Kind::Network, Rule::Transport("unknown")),
            _ if self.found.cut => of(Kind::Network, Rule::Truncated),
            Phase::Preamble | Phase::Content if !error && !self.found.ended => {
                of(Kind::Network, Rule::Truncated)
            }
            _ if error && (self.phase.is_stream() || self.status.is_some()) => {
                of(Kind::Server, Rule::InBand)
            }
            _ if self.message.is_empty()
                && self.found.shape != BodyShape::Answer
                && self.status.is_some_and(|status| (200..300).contains(&status)) =>
            {
                of(Kind::InvalidOutput, Rule::Empty)
            }
            _ => of(Kind::Unknown, Rule::Nothing),
        }
    }
}

/// Returns the kind that a status alone implies.
fn by_status(status: u16) -> Kind {
    match status {
        401 | 407 => Kind::Auth,
        402 => Kind::QuotaExhausted,
        403 | 451 => Kind::Permission,
        404 | 410 => Kind::NotFound,
        408 | 504 | 522 | 524 => Kind::Timeout,
        409 => Kind::Conflict,
        413 | 431 => Kind::TooLarge,
        429 => Kind::RateLimit,
        // Groq sends 498 for "flex capacity exceeded".
        498 | 503 | 529 => Kind::Overloaded,
        // Amazon sends 424 for a failed model. A gateway sends 499 after giving up on its upstream.
        424 | 425 | 499 => Kind::Server,
        501 | 505 | 400..500 => Kind::InvalidRequest,
        500..600 => Kind::Server,
        _ => Kind::Unknown,
    }
}
