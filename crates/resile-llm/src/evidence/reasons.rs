//! All evidence, and the names of exceptions among it.

use std::ops::Range;

use super::{Evidence, by_status};
use crate::explain::Reason;
use crate::grammar::Said;
use crate::kind::Kind;
use crate::rule::Rule;
use crate::{codes, exceptions, generic, grammar, headers, numbers, phrases, vocabulary};

impl Evidence<'_> {
    /// Returns all evidence, whatever its weight.
    pub(crate) fn reasons(&self) -> Vec<Reason> {
        let of = |kind, rule, text: &str| Reason {
            kind,
            rule,
            text: Some(text.to_owned()),
            span: None,
            is_weak: false,
        };
        let weak = |kind, rule, text: &str| Reason { is_weak: true, ..of(kind, rule, text) };
        let mut reasons = Vec::new();
        let codes = self.found.codes.iter().map(String::as_str).chain(headers::codes(self.headers));
        for code in codes {
            let known = codes::look_up(code, self.at).map(|said| of(said.kind, said.rule, code));
            let generic = || generic::code(code).map(|(kind, rule)| weak(kind, rule, code));
            reasons.extend(known.or_else(generic));
        }
        if let Some((kind, _, rule)) = self.found.google.classify(self.at) {
            reasons.push(Reason { kind, rule, text: None, span: None, is_weak: false });
        }
        let within = |kind, rule, span: Range<usize>| {
            let span = whole_word(self.message, span);
            let text = self.message.get(span.clone()).filter(|text| !text.is_empty());
            let span = text.map(|_| span);
            Reason { kind, rule, text: text.map(str::to_owned), span, is_weak: false }
        };
        let places = vocabulary::find(self.message, self.lower, &[], &[]);
        let phrases = phrases::all(&places.phrases, self.at).into_iter();
        reasons.extend(phrases.map(|(hit, span)| within(hit.kind, Rule::Phrase(hit.name), span)));
        // A meaning of several statements together has no place of its own.
        let ends = places.words.first().zip(places.words.iter().map(|place| place.end).max());
        let all = ends.map_or(0..0, |(first, end)| first.start..end);
        let said = |said: Said, span: Range<usize>| {
            let span = if span.is_empty() { all.clone() } else { span };
            reasons.push(within(said.kind, Rule::Grammar(said.rule), span));
        };
        _ = grammar::read_each(self.lower, &places.words, self.at, said);
        if numbers::requested(self.lower).is_some_and(|(limit, requested)| requested > limit) {
            reasons.push(within(Kind::TooLarge, Rule::Arithmetic, 0..0));
        }
        for class in self.classes() {
            reasons.extend(self.class(class).map(|(kind, rule)| weak(kind, rule, class)));
        }
        if let Some(finish) = self.found.finish {
            reasons.push(of(finish.kind, Rule::Finish(finish.name), finish.name));
        }
        if let Some(status) = self.status.filter(|status| *status >= 400) {
            let by_status = within(by_status(status), Rule::Status(status), 0..0);
            reasons.push(Reason { is_weak: true, ..by_status });
        }
        reasons
    }

    /// Returns the names of exceptions before and in the message, innermost first.
    pub(super) fn classes(&self) -> impl Iterator<Item = &str> {
        let before = self.found.classes.iter().rev().map(String::as_str);
        before.chain(exceptions::classes(self.message))
    }

    /// Returns what the name of an exception means: `openai.APITimeoutError`.
    pub(super) fn class(&self, class: &str) -> Option<(Kind, Rule)> {
        let class = class.rsplit(['.', ':', '\\', '$']).next()?;
        let code = || codes::look_up(class, self.at).map(|code| (code.kind, code.rule));
        generic::class(class).or_else(code).or_else(|| self.named(class))
    }

    /// Returns what the words or the code in the name of an exception mean: `JsonDecodeError`. A
    /// generic name means nothing.
    pub(super) fn named(&self, class: &str) -> Option<(Kind, Rule)> {
        let class = class.rsplit(['.', ':', '\\', '$']).next()?;
        let code = codes::look_up(class, self.at).filter(|code| !code.yields_to_words);
        let words = || {
            let places = vocabulary::find(class, &class.to_ascii_lowercase(), &[], &[]);
            phrases::look_up(&places.phrases, self.at, |phrase| phrase.names_status)
        };
        let words = || words().map(|phrase| (phrase.kind, Rule::Phrase(phrase.name)));
        generic::client(class).or_else(|| code.map(|code| (code.kind, code.rule))).or_else(words)
    }
}

/// The most bytes between the end of the words and the end of a bracket that is open in them.
const BRACKET: usize = 40;

/// Returns the span of words that ends with a whole word, and with the bracket that is open in them. Some
/// phrases are the start of a word or of a bracket.
fn whole_word(message: &str, span: Range<usize>) -> Range<usize> {
    let rest = message.as_bytes().get(span.end..).filter(|_| !span.is_empty()).unwrap_or_default();
    let more = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let end = span.end + more;
    let is_open = message.get(span.start..end).and_then(|words| {
        words.rfind(['(', ')']).map(|at| words.as_bytes().get(at) == Some(&b'('))
    });
    let closes = || {
        let at = message.get(end..)?.find(['(', ')']).filter(|at| *at < BRACKET)?;
        (message.as_bytes().get(end + at) == Some(&b')')).then_some(end + at + 1)
    };
    span.start..if is_open == Some(true) { closes().unwrap_or(end) } else { end }
}
