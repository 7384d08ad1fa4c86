//! The meaning of the words of a message.

use std::ops::Range;
use std::time::Duration;

use super::{Evidence, LONG_WAIT};
use crate::grammar::{Reading, Said};
use crate::kind::{Kind, Scope};
use crate::phrases::PhraseMatch;
use crate::rule::Rule;
use crate::statuses::Statuses;
use crate::{grammar, phrases, text, vocabulary};

/// A limit per minute, in the words of the grammar.
const MINUTE: Said =
    Said { kind: Kind::RateLimit, scope: Some(Scope::Minute), rule: "a limit per minute" };

/// The meaning of the words of a message.
#[derive(Clone, Copy)]
pub(super) struct Words {
    pub(super) kind: Kind,
    pub(super) scope: Option<Scope>,
    pub(super) rule: Rule,
    /// The words say more than a code for a rate limit does.
    pub(super) overrules_rate: bool,
    /// The words only name a status.
    pub(super) names_status: bool,
}

impl Words {
    pub(super) fn is_minute(&self) -> bool {
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
    /// Returns what the message means. The quotations of a text without a status are read if there is
    /// nothing else: they hold an error more often than a prompt.
    pub(super) fn words(&self, asked: Option<Duration>) -> Option<Words> {
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
                if phrase.kind == Kind::InvalidRequest
                    && matches!(said.kind, Kind::InvalidOutput | Kind::ContentFilter) =>
            {
                Some(Words::from(said))
            }
            // A limit in bytes is not the length of a context, though it limits a prompt.
            (None, Some(phrase), Some(said))
                if phrase.kind == Kind::ContextLength && said.kind == Kind::TooLarge =>
            {
                Some(Words::from(said))
            }
            // A reason phrase of HTTP says less than a statement.
            (None, Some(phrase), Some(said)) if phrase.names_status => Some(Words::from(said)),
            (None, Some(mut phrase), _) => {
                if phrase.kind == Kind::RateLimit && read.is_minute {
                    phrase.scope = phrase.scope.or(Some(Scope::Minute));
                }
                Some(Words::from(phrase))
            }
            (None, None, other) => other.map(Words::from),
        }
    }

    /// Returns whether the other evidence overrules a phrase with two meanings.
    fn vetoes(&self, phrase: &PhraseMatch, asked: Option<Duration>, read: &Reading) -> bool {
        // A limit per minute explains why many callers wait.
        if phrase.kind == Kind::Overloaded && read.is_minute && self.at == Statuses::RATE {
            return !phrase.denies_limit();
        }
        // A gateway's words about a failure behind it say less than the type of this failure.
        if phrase.kind == Kind::Server && self.at == Statuses::BAD {
            return self.found.codes.iter().any(|code| code == "invalid_request_error");
        }
        // Google uses these words for a minute's quota too, but then with a wait or
        // `RESOURCE_EXHAUSTED`.
        phrase.is_bare_quota()
            && (asked.is_some()
                || self.lower.contains("quota exceeded for ")
                || self.found.codes.iter().any(|code| code == "RESOURCE_EXHAUSTED"))
    }
}
