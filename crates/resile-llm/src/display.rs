//! Writes a failure for people, on one line.

use std::fmt;
use std::time::Duration;

use crate::failure::Failure;
use crate::kind::{Kind, Scope};
use crate::rule::Rule;

/// The largest number of characters to show of a provider's text.
const SHOWN: usize = 240;

/// The largest number of characters to show of the words of a rate limit, which have its numbers.
const NUMBERS: usize = 160;

/// Writes one line, whatever the provider sent. The cause comes first, with an action for most
/// permanent kinds and with the scope of a rate limit. Known LLM token numbers and a known wait follow.
/// The provider's words come next, unless the line already says the same. The provider's name and its
/// code come last. Without a code it is the reason of a bad ending, or else the status.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &*self.0;
        // A failed connection has words of its own, which name the place.
        let is_place =
            facts.message.as_deref().is_some_and(|it| it.starts_with("no connection to "));
        let is_connection = facts.rule == Rule::Transport("connect") && is_place;
        if !is_connection {
            f.write_str(headline(facts.kind, facts.rule))?;
        }
        let tokens = facts.tokens.prompt.zip(facts.tokens.limit);
        let is_reporting = tokens.is_none()
            && !matches!(facts.kind, Kind::Overloaded | Kind::ContextLength | Kind::Cancelled);
        let (words, most) = match facts.message.as_deref().filter(|_| is_reporting) {
            Some(message) if facts.kind == Kind::RateLimit => (before_wait(message), NUMBERS),
            message => (message.unwrap_or_default(), SHOWN),
        };
        // The words of the provider say which of the two it is.
        if words.is_empty() || facts.scope != Some(Scope::Minute) {
            f.write_str(limit(facts.kind, facts.scope))?;
        }
        if let Some((prompt, limit)) = tokens {
            write!(f, ": {prompt} tokens, limit {limit}")?;
        }
        if let Some(wait) = facts.wait {
            let or = if facts.kind == Kind::QuotaExhausted { " or" } else { "," };
            write!(f, "{or} try again in {}", Span(wait))?;
        }
        if !words.is_empty() {
            f.write_str(if is_connection { "" } else { ": " })?;
            one_line(words, most, f)?;
        }
        let name =
            facts.code.as_deref().or(facts.error_type.as_deref()).filter(|name| !name.is_empty());
        let ending = match facts.rule {
            Rule::Finish(reason) => Some(reason),
            _ => None,
        };
        let status = facts.status.map(|status| format!("status {status}"));
        let label = name.or(ending).or(status.as_deref());
        match (facts.provider.as_deref(), label) {
            (Some(provider), Some(label)) => {
                write!(f, " ({provider}: ")?;
                one_line(label, SHOWN, f)?;
                f.write_str(")")
            }
            (Some(provider), None) => write!(f, " ({provider})"),
            (None, Some(label)) => {
                f.write_str(" (")?;
                one_line(label, SHOWN, f)?;
                f.write_str(")")
            }
            (None, None) => Ok(()),
        }
    }
}

/// Returns the beginning of the line.
fn headline(kind: Kind, rule: Rule) -> &'static str {
    match rule {
        Rule::Truncated => "the answer of the provider is truncated",
        Rule::NotStream => "the answer is not a stream, ask for one",
        rule if rule.is_token_limit() => "the token limit cut off the answer, raise the limit",
        // These two are about the prompt, or are the model's own.
        Rule::Finish(reason)
            if kind == Kind::ContentFilter && !matches!(reason, "blockReason" | "refusal") =>
        {
            "the provider's content filter stopped the answer, rephrase the request"
        }
        _ => kind.headline(),
    }
}

/// Returns what a rate limit counts over.
fn limit(kind: Kind, scope: Option<Scope>) -> &'static str {
    match scope.filter(|_| kind == Kind::RateLimit) {
        Some(Scope::Minute) => " (per minute or second)",
        Some(Scope::Day) => " (per day)",
        Some(Scope::Concurrency) => " (requests at the same time)",
        Some(Scope::Window) => " (per window of a plan)",
        None => "",
    }
}

/// Returns the words of a rate limit before those about the wait, which the line has already, and before
/// the addresses of pages.
fn before_wait(message: &str) -> &str {
    const ENDS: [&str; 6] =
        ["please try", "please retry", "try again", "retry after", "visit http", "https://"];
    let lower = message.to_ascii_lowercase();
    let end = ENDS.iter().filter_map(|end| lower.find(end)).min();
    let words = end.and_then(|end| message.get(..end)).unwrap_or(message);
    words.trim_end_matches(|c: char| c.is_whitespace() || ".,:;(".contains(c))
}

/// Writes at most `most` characters of `text` without line breaks and control characters.
fn one_line(text: &str, most: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use fmt::Write;
    let words =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut left = most;
    for (n, word) in words.enumerate() {
        if n > 0 {
            f.write_char(' ')?;
        }
        for c in word.chars() {
            if left == 0 {
                return f.write_char('…');
            }
            f.write_char(c)?;
            left -= 1;
        }
    }
    Ok(())
}

/// A wait, written for people: `644 ms`, `11.1 s`, `9 min 38 s`, `19 h 14 min`, `7 days`.
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0 => write!(f, "{} ms", self.0.as_millis().max(1)),
            1..60 => write!(f, "{} s", (self.0.as_secs_f64() * 10.0).ceil() / 10.0),
            60..3_600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            3_600..172_800 => write!(f, "{} h {} min", seconds / 3_600, seconds / 60 % 60),
            172_800..3_153_600_000 => write!(f, "{} days", seconds / 86_400),
            _ => f.write_str("more than a century"),
        }
    }
}
