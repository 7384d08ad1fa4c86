//! The decision about a failure.

mod reasons;
mod words;

use std::time::Duration;

use http::HeaderMap;

use crate::body::{BodyShape, ParsedBody};
use crate::codes::CodeMatch;
use crate::kind::{Kind, Phase, Scope};
use crate::rule::Rule;
use crate::statuses::Statuses;
use crate::{codes, generic, headers, numbers};

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

    /// Returns the strongest code of the body and the headers.
    fn code(&self) -> Option<codes::CodeMatch> {
        let body = self.found.codes.iter().map(String::as_str);
        body.chain(headers::codes(self.headers))
            .filter_map(|code| codes::look_up(code, self.at))
            .min_by_key(|said| said.rank)
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
            // A gateway's 500 may name a limit of the provider behind it.
            let class = || {
                let is_limit = |kind| matches!(kind, Kind::RateLimit | Kind::QuotaExhausted);
                let mut classes = self.classes().filter_map(|class| self.named(class));
                classes.find(|(kind, _)| is_limit(*kind)).map(|(kind, rule)| of(kind, rule))
            };
            let better = match status {
                400 => server(),
                500 => class(),
                _ => None,
            };
            return better.unwrap_or_else(|| of(by_status(status), Rule::Status(status)));
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
