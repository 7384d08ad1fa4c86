//! Writes a failure for people, on one line.

use std::fmt;

use crate::failure::{Failure, FailureParts};
use crate::kind::{Kind, Scope};
use crate::rule::Rule;

/// The largest number of characters to show of a provider's text.
const SHOWN: usize = 240;

/// The largest number of characters to show of the words of a rate limit, which have its numbers.
const NUMBERS: usize = 160;

/// Writes one line, whatever the provider sent. The cause comes first, with an action for most
/// permanent kinds and with the scope of a rate limit. Known LLM token numbers and a known wait follow. The
/// alternate form (`{:#}`) omits the wait, because a log line and the alternate form of a
/// [`GaveUp`](resile::GaveUp) print it themselves. The provider's words come next, unless the line already says
/// the same. The provider's name and its code come last. Without a code it is the reason of a bad ending, or else the status.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &*self.0;
        // A failed connection has words of its own, which name the place.
        let is_place =
            facts.message.as_deref().is_some_and(|it| it.starts_with("no connection to "));
        let is_connection = facts.rule == Rule::Transport("connect") && is_place;
        if !is_connection {
            f.write_str(headline(facts))?;
        }
        let tokens = facts.tokens.prompt.zip(facts.tokens.limit);
        let is_reporting = tokens.is_none() && facts.kind != Kind::Cancelled;
        let message = facts.message.as_deref().filter(|_| is_reporting).unwrap_or_default();
        let (words, most) = match facts.kind {
            Kind::RateLimit => (before_wait(message), NUMBERS),
            Kind::Overloaded => (of_overload(message, facts.wait.is_some()), SHOWN),
            _ => (message, SHOWN),
        };
        // The words of the provider say which of the two it is.
        if words.is_empty() || facts.scope != Some(Scope::Minute) {
            f.write_str(limit(facts.kind, facts.scope))?;
        }
        if let Some((prompt, limit)) = tokens {
            write!(f, ": {prompt} tokens, limit {limit}")?;
        }
        // A line of the log and the `{:#}` of a `GaveUp` have the wait of the verdict before these words.
        if let Some(wait) = facts.wait.filter(|_| !f.alternate()) {
            let or = if facts.kind == Kind::QuotaExhausted { " or" } else { "," };
            write!(f, "{or} try again in {wait:.1?}")?;
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
fn headline(facts: &FailureParts) -> &'static str {
    let kind = facts.kind;
    match facts.rule {
        Rule::Truncated => "the answer of the provider is truncated",
        Rule::NotStream => "the answer is not a stream, correct the request to ask for one",
        rule if rule.is_token_limit() => {
            "the token limit cut off the answer, correct the request: raise the limit"
        }
        // These two are about the prompt, or are the model's own.
        Rule::Finish(reason)
            if kind == Kind::ContentFilter && !matches!(reason, "blockReason" | "refusal") =>
        {
            "the provider's content filter stopped the answer, rephrase the request"
        }
        // The answer to a stream with an `idle_timeout` has begun.
        Rule::Transport("elapsed")
            if facts.message.as_deref().is_some_and(|it| it.starts_with("no item ")) =>
        {
            "the provider fell silent"
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

/// Returns the words of a rate limit before those about the wait, which is told already, and before
/// the addresses of pages.
fn before_wait(message: &str) -> &str {
    const ENDS: [&str; 6] =
        ["please try", "please retry", "try again", "retry after", "visit http", "https://"];
    let lower = message.to_ascii_lowercase();
    let end = ENDS.iter().filter_map(|end| lower.find(end)).min();
    let words = end.and_then(|end| message.get(..end)).unwrap_or(message);
    words.trim_end_matches(|c: char| c.is_whitespace() || ".,:;(".contains(c))
}

/// Returns what the words of an overload say beyond the beginning of the line and the wait, if that is known.
fn of_overload(message: &str, is_wait_known: bool) -> &str {
    let words = if is_wait_known { before_wait(message) } else { message };
    let is_bare = |word: &&str| words.trim().trim_end_matches('.').eq_ignore_ascii_case(word);
    if ["overloaded", "overloaded_error"].iter().any(is_bare) { "" } else { words }
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
