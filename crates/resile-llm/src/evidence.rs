//! The decision about a failure.

use std::ops::Range;
use std::time::Duration;

use http::HeaderMap;

use crate::body::{BodyShape, ParsedBody};
use crate::codes::CodeMatch;
use crate::explain::Reason;
use crate::grammar::{Reading, Said};
use crate::kind::{Kind, Phase, Scope};
use crate::phrases::PhraseMatch;
use crate::rule::Rule;
use crate::statuses::Statuses;
use crate::{codes, generic, grammar, headers, numbers, phrases, text, vocabulary};

/// A limit that is reset after such a wait or a longer one is a quota and not a rate.
const LONG_WAIT: Duration = Duration::from_secs(3_600);

/// All inputs of the decision.
pub(crate) struct Evidence<'c> {
    pub(crate) status: Option<u16>,
    pub(crate) at: Statuses,
    pub(crate) phase: Phase,
    /// The failure came without a status and without a code: it is only a text.
    pub(crate) is_text: bool,
    pub(crate) headers: &'c HeaderMap,
    pub(crate) found: &'c ParsedBody,
    pub(crate) message: &'c str,
    /// The message in lower case and with blanks for underscores. Its length in bytes is the same.
    pub(crate) lower: &'c str,
    /// The wait that a sentence of the message asks for.
    pub(crate) said: Option<Duration>,
}

pub(crate) struct Conclusion {
    pub(crate) kind: Kind,
    pub(crate) scope: Option<Scope>,
    pub(crate) rule: Rule,
}

/// The meaning of the words of a message.
#[derive(Clone, Copy)]
struct Words {
    kind: Kind,
    scope: Option<Scope>,
    rule: Rule,
    /// The words say more than a code for a rate limit does.
    overrules_rate: bool,
    /// The words only name a status.
    names_status: bool,
}

impl Words {
    fn is_minute(&self) -> bool {
        self.kind == Kind::RateLimit && self.scope == Some(Scope::Minute)
    }
}

impl From<Said> for Words {
    fn from(said: Said) -> Self {
        let overrules_rate = said.kind == Kind::QuotaExhausted;
        Self {
            kind: said.kind,
            scope: said.scope,
            rule: Rule::Grammar(said.rule),
            overrules_rate,
            names_status: false,
        }
    }
}

impl From<PhraseMatch> for Words {
    fn from(phrase: PhraseMatch) -> Self {
        let overrules_rate = phrase.overrules_rate() && phrase.name != "quota exceeded";
        Self {
            kind: phrase.kind,
            scope: phrase.scope,
            rule: Rule::Phrase(phrase.name),
            overrules_rate,
            names_status: phrase.names_status,
        }
    }
}

impl Evidence<'_> {
    /// Returns the conclusion. If the words of a transport say nothing, they are read like an answer:
    /// clients put answers into their errors.
    pub(crate) fn decide(&self, asked: Option<Duration>) -> Conclusion {
        let conclusion = self.conclude(asked);
        if self.at != Statuses::WIRE || conclusion.rule != Rule::Transport("unknown") {
            return conclusion;
        }
        let answer = Evidence { at: Statuses::NONE, ..*self }.conclude(asked);
        // Other words may be about a host or a file of the client.
        let is_of_provider = matches!(
            answer.kind,
            Kind::RateLimit
                | Kind::QuotaExhausted
                | Kind::Overloaded
                | Kind::Server
                | Kind::ContextLength
                | Kind::ContentFilter
                | Kind::Auth
        );
        if is_of_provider { answer } else { conclusion }
    }

    /// Returns the conclusion of the first rule with an opinion. The [module page](super) has the
    /// order. A rate limit becomes a quota if the headers or the wait show a long window.
    pub(crate) fn conclude(&self, asked: Option<Duration>) -> Conclusion {
        let first = self.first(asked);
        if first.kind != Kind::RateLimit {
            return first;
        }
        let quota =
            |scope, rule| Conclusion { kind: Kind::QuotaExhausted, scope: Some(scope), rule };
        if let Some(scope) = headers::window(self.headers) {
            return quota(scope, Rule::Header("window"));
        }
        if asked >= Some(LONG_WAIT) {
            let is_day = first.scope == Some(Scope::Day);
            return quota(if is_day { Scope::Day } else { Scope::Window }, Rule::LongWait);
        }
        first
    }

    fn first(&self, asked: Option<Duration>) -> Conclusion {
        let code = self.code();
        let google = self.found.google.classify(self.at);
        // An unambiguous code needs no words.
        let open = google.is_some()
            || code.is_none_or(|code| {
                code.yields_to_words
                    || matches!(code.kind, Kind::RateLimit | Kind::Server | Kind::Auth)
                    || is_allowance(&code)
            });
        let phrase = if open && !self.message.is_empty() { self.words(asked) } else { None };
        // A code for an allowance is doubted for the limit of a minute only.
        let is_sure = google.is_none() && code.is_some_and(|code| is_allowance(&code));
        let phrase = phrase.filter(|phrase| !is_sure || phrase.is_minute());
        let of = |kind, scope, rule| Conclusion { kind, scope, rule };

        // Google's details name the exhausted limit. Its codes do not.
        if let Some((kind, scope, rule)) = google {
            return of(kind, scope.or(phrase.and_then(|phrase| phrase.scope)), rule);
        }
        // A prompt that is too long has such numbers too.
        let is_prompt = phrase.is_some_and(|phrase| phrase.kind == Kind::ContextLength);
        let limit = !is_prompt
            && code.is_none_or(|code| {
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
                // Providers have one code for the quotas of a minute and of a month.
                Some(phrase) if is_allowance(&code) && phrase.is_minute() => {
                    return of(phrase.kind, phrase.scope, phrase.rule);
                }
                // Gateways have one code for all that a key may not do.
                Some(phrase)
                    if matches!(code.kind, Kind::RateLimit | Kind::Auth)
                        && phrase.overrules_rate =>
                {
                    return of(phrase.kind, phrase.scope, phrase.rule);
                }
                // A failed model may have failed by what it wrote.
                Some(phrase) if code.kind == Kind::Server && phrase.kind == Kind::InvalidOutput => {
                    return of(phrase.kind, phrase.scope, phrase.rule);
                }
                _ if !code.yields_to_words || self.at.meets(Statuses::NONE.and(Statuses::WIRE)) => {
                    return of(code.kind, code.scope.or(scope), code.rule);
                }
                _ => {}
            }
        }
        // "AccountOverdueError: 403 Forbidden": the class says more than the reason phrase. Both must
        // deny a retry: `InternalServerError: bad request` has the class of a gateway.
        if phrase.is_some_and(|phrase| phrase.names_status && !phrase.kind.is_passing()) {
            let classes = self.found.classes.iter().rev();
            let mut classes = classes.filter_map(|name| self.named(name));
            if let Some((kind, rule)) = classes.find(|(kind, _)| !kind.is_passing()) {
                return of(kind, None, rule);
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

    /// Returns what the message means. The quotations of a text without a status are read if there is
    /// nothing else: they hold an error more often than a prompt.
    fn words(&self, asked: Option<Duration>) -> Option<Words> {
        // A transport quotes an error and no prompt.
        let is_wire = self.at == Statuses::WIRE;
        let quoted = if is_wire { Vec::new() } else { text::quoted(self.message) };
        let words = self.words_outside(&quoted, asked);
        let says_little = match words {
            Some(words) => words.names_status,
            None => self.at.meets(Statuses::NONE),
        };
        if self.is_text && says_little && !quoted.is_empty() {
            return self.words_outside(&[], asked).or(words);
        }
        words
    }

    /// Returns what the message means outside of `quoted`: first a quota, then a phrase, then the
    /// rest of the grammar.
    fn words_outside(&self, quoted: &[Range<usize>], asked: Option<Duration>) -> Option<Words> {
        // A 429 quotes the names of limits and no prompt.
        let unread = if self.at == Statuses::RATE { &[][..] } else { quoted };
        let places = vocabulary::find(self.message, self.lower, quoted, unread);
        let read = grammar::read(self.lower, &places.words, self.at);
        let veto = |phrase: &PhraseMatch| self.vetoes(phrase, asked, &read);
        let phrase = phrases::look_up(&places.phrases, self.at, veto);
        // A phrase that denies a limit of the caller's own is about this very limit.
        let quota = read.quota.filter(|_| phrase.is_none_or(|phrase| !phrase.denies_limit()));
        match (quota, phrase, read.other) {
            // A bucket of a day refills bit by bit if a short wait is enough.
            (Some(said), Some(phrase), _)
                if said.scope == Some(Scope::Day)
                    && phrase.kind == Kind::RateLimit
                    && self.said.is_some_and(|wait| wait < LONG_WAIT) =>
            {
                Some(Words::from(PhraseMatch { scope: said.scope, ..phrase }))
            }
            (Some(said), ..) => Some(Words::from(said)),
            // The stated window says more than words about a quota beside it.
            (None, Some(phrase), _) if read.is_minute && phrase.is_allowance() => {
                Some(Words { overrules_rate: false, ..Words::from(MINUTE) })
            }
            // At no status, the words about a bad request are the weakest.
            (None, Some(phrase), Some(said))
                if phrase.kind == Kind::InvalidRequest && said.kind == Kind::InvalidOutput =>
            {
                Some(Words::from(said))
            }
            (None, Some(mut phrase), _) => {
                if phrase.kind == Kind::RateLimit && read.is_minute {
                    phrase.scope = phrase.scope.or(Some(Scope::Minute));
                }
                Some(Words::from(phrase))
            }
            (None, None, other) => other.map(Words::from),
        }
    }

    /// Returns the strongest code of the body and the headers.
    fn code(&self) -> Option<codes::CodeMatch> {
        let body = self.found.codes.iter().map(String::as_str);
        body.chain(headers::codes(self.headers))
            .filter_map(|code| codes::look_up(code, self.at))
            .min_by_key(|said| said.rank)
    }

    /// Returns whether the other evidence overrules a phrase with two meanings.
    fn vetoes(&self, phrase: &PhraseMatch, asked: Option<Duration>, read: &Reading) -> bool {
        // A limit per minute explains why many callers wait.
        if phrase.kind == Kind::Overloaded && read.is_minute && self.at == Statuses::RATE {
            return !phrase.denies_limit();
        }
        // Google uses these words for a minute's quota too, but then with a wait or
        // `RESOURCE_EXHAUSTED`.
        phrase.is_bare_quota()
            && (asked.is_some()
                || self.lower.contains("quota exceeded for ")
                || self.found.codes.iter().any(|code| code == "RESOURCE_EXHAUSTED"))
    }

    /// Returns the names of exceptions before and in the message, innermost first.
    fn classes(&self) -> impl Iterator<Item = &str> {
        let before = self.found.classes.iter().rev().map(String::as_str);
        before.chain(text::classes(self.message))
    }

    /// Returns what the name of an exception means: `openai.APITimeoutError`.
    fn class(&self, class: &str) -> Option<(Kind, Rule)> {
        let class = class.rsplit(['.', ':', '\\', '$']).next()?;
        let code = || codes::look_up(class, self.at).map(|code| (code.kind, code.rule));
        generic::class(class).or_else(code).or_else(|| self.named(class))
    }

    /// Returns what the words or the code in the name of an exception mean: `JsonDecodeError`. A
    /// generic name means nothing.
    fn named(&self, class: &str) -> Option<(Kind, Rule)> {
        let class = class.rsplit(['.', ':', '\\', '$']).next()?;
        let code = codes::look_up(class, self.at).filter(|code| !code.yields_to_words);
        let words = || {
            let places = vocabulary::find(class, &class.to_ascii_lowercase(), &[], &[]);
            phrases::look_up(&places.phrases, self.at, |phrase| phrase.names_status)
        };
        let words = || words().map(|phrase| (phrase.kind, Rule::Phrase(phrase.name)));
        generic::client(class).or_else(|| code.map(|code| (code.kind, code.rule))).or_else(words)
    }

    /// Returns all evidence, whatever its weight.
    pub(crate) fn reasons(&self) -> Vec<Reason> {
        let of = |kind, rule, text: &str| Reason { kind, rule, text: Some(text.to_owned()), span: None };
        let mut reasons = Vec::new();
        let codes = self.found.codes.iter().map(String::as_str).chain(headers::codes(self.headers));
        for code in codes {
            let known = codes::look_up(code, self.at).map(|said| (said.kind, said.rule));
            reasons.extend(known.or_else(|| generic::code(code)).map(|(kind, rule)| of(kind, rule, code)));
        }
        if let Some((kind, _, rule)) = self.found.google.classify(self.at) {
            reasons.push(Reason { kind, rule, text: None, span: None });
        }
        let within = |kind, rule, span: Range<usize>| {
            let text = self.message.get(span.clone()).filter(|text| !text.is_empty());
            let span = text.map(|_| span);
            Reason { kind, rule, text: text.map(str::to_owned), span }
        };
        let places = vocabulary::find(self.message, self.lower, &[], &[]);
        let phrases = phrases::all(&places.phrases, self.at).into_iter();
        reasons.extend(phrases.map(|(hit, span)| within(hit.kind, Rule::Phrase(hit.name), span)));
        let said = |said: Said, span| reasons.push(within(said.kind, Rule::Grammar(said.rule), span));
        _ = grammar::read_each(self.lower, &places.words, self.at, said);
        if numbers::requested(self.lower).is_some_and(|(limit, requested)| requested > limit) {
            reasons.push(within(Kind::TooLarge, Rule::Arithmetic, 0..0));
        }
        for class in self.classes() {
            reasons.extend(self.class(class).map(|(kind, rule)| of(kind, rule, class)));
        }
        if let Some(finish) = self.found.finish {
            reasons.push(of(finish.kind, Rule::Finish(finish.name), finish.name));
        }
        if let Some(status) = self.status.filter(|status| *status >= 400) {
            reasons.push(within(by_status(status), Rule::Status(status), 0..0));
        }
        reasons
    }

    /// Concludes from the status, a generic code, the ending or the phase.
    fn conclude_from_status(&self) -> Conclusion {
        let of = |kind, rule| Conclusion { kind, scope: None, rule };
        if let Some(status) = self.status.filter(|status| *status >= 400) {
            // A gateway's 400 may be a failure behind it, and the type says so.
            let server = || {
                let mut codes = self.found.codes.iter();
                codes.find_map(|code| generic::server(code)).map(|code| of(Kind::Server, code))
            };
            let server = if status == 400 { server() } else { None };
            return server.unwrap_or_else(|| of(by_status(status), Rule::Status(status)));
        }
        if let Some((kind, rule)) = self.classes().find_map(|class| self.class(class)) {
            return of(kind, rule);
        }
        let error = self.found.shape == BodyShape::Error;
        let generic = || self.found.codes.iter().rev().find_map(|code| generic::code(code));
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

/// A limit per minute, in the words of the grammar.
const MINUTE: Said =
    Said { kind: Kind::RateLimit, scope: Some(Scope::Minute), rule: "a limit per minute" };

/// Returns whether a code is about an allowance of requests or tokens. Providers send such codes for
/// the quota of a minute too.
fn is_allowance(code: &CodeMatch) -> bool {
    let is_named = |name: &str| name.contains("quota") || name.contains("limit");
    code.kind == Kind::QuotaExhausted
        && code.scope.is_none()
        && matches!(code.rule, Rule::Code(name) | Rule::Stem(name) if is_named(name))
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
