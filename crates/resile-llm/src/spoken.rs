//! Statuses in words: "status code 503", "429 Too Many Requests", "[502]".

use http::StatusCode;

use crate::text;

/// The number of bytes in which a status counts. Libraries name it first.
const HEAD: usize = 512;

/// Names before a status, in lower case.
const NAMES: [&str; 12] = [
    "status code",
    "status_code",
    "statuscode",
    "status",
    "http",
    "http/1.0",
    "http/1.1",
    "http/2",
    "http/2.0",
    "http/3",
    "status client error",
    "status server error",
];

/// Names before a status in the words of a failure. Elsewhere these are names of other numbers too.
const LIKELY_NAMES: [&str; 13] = [
    "api error",
    "code",
    "error",
    "error code",
    "exception",
    "failed with",
    "got",
    "http error",
    "received",
    "response",
    "response code",
    "returned",
    "upstream",
];

/// Words behind a status in the words of a failure: what gRPC and HTTP call it.
const LIKELY_REASONS: [&str; 20] = [
    "aborted",
    "client error",
    "deadline",
    "error",
    "gateway time",
    "internal",
    "invalid argument",
    "invalid_argument",
    "not found",
    "not_found",
    "overloaded",
    "permission denied",
    "permission_denied",
    "request entity too large",
    "resource exhausted",
    "resource_exhausted",
    "server error",
    "status code",
    "unavailable",
    "unprocessable",
];

/// Units behind a number that is no status.
const UNITS: [&str; 9] = ["byte", "char", "item", "kb", "kib", "line", "ms", "second", "token"];

/// More units. They count for a number that nothing calls a status.
const AMOUNTS: [&str; 18] = [
    "attempt", "call", "credit", "day", "file", "gb", "hour", "image", "mb", "message", "minute",
    "page", "requests", "row", "rpm", "time", "tpm", "word",
];

/// Characters between a name and the status.
const MARKS: [char; 8] = [' ', ':', '=', '(', '[', '\'', '"', '`'];

/// A number between 400 and 599 that is no part of an identifier, an address, a version or a
/// fraction.
struct Number<'t> {
    value: u16,
    before: &'t str,
    rest: &'t str,
}

/// Returns the status of a refusal that any words name before their first brace, and the words
/// after it.
pub(crate) fn stated(words: &str) -> Option<(u16, &str)> {
    let head = words.get(..text::floor_char_boundary(words, HEAD))?;
    let head = head.split('{').next()?;
    numbers(words, head.len()).find_map(|number| {
        let rest = match number.after_reason() {
            // The address of the request is nothing that the provider said.
            Some(rest) if rest.starts_with(") for url (") => "",
            Some(rest) => rest,
            None if number.is_named() => number.rest,
            None => return None,
        };
        Some((number.value, rest))
    })
}

/// Returns the status that the words of a failure name. More forms count than in other words:
/// "Response 503: …", "403 status code (no body)", "[429] …", "Error: 502 - …".
pub(crate) fn likely(words: &str) -> Option<u16> {
    numbers(words, HEAD).find(Number::is_likely).map(|number| number.value)
}

/// Returns the numbers that may be a status in the first `most` bytes.
fn numbers(words: &str, most: usize) -> impl Iterator<Item = Number<'_>> {
    let head = words.get(..text::floor_char_boundary(words, most)).unwrap_or_default();
    let bytes = head.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = text::next_byte(bytes, at, |byte| byte.is_ascii_digit())?;
            let digits =
                bytes.get(start..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
            at = start + digits;
            let value = head.get(start..at)?.parse().ok().filter(|_| digits == 3);
            let Some(value) = value.filter(|value| (400..600).contains(value)) else { continue };
            let number = Number { value, before: head.get(..start)?, rest: words.get(at..)? };
            if number.stands_alone() {
                return Some(number);
            }
        }
    })
}

impl<'t> Number<'t> {
    fn stands_alone(&self) -> bool {
        let begins = |c: char| c.is_whitespace() || "('\"[=:`<".contains(c);
        let mut rest = self.rest.chars();
        let (next, second) = (rest.next(), rest.next());
        let ends = match next {
            Some('.' | ':' | '-') => !second.is_some_and(char::is_alphanumeric),
            Some(',') => !second.is_some_and(|c| c.is_ascii_digit()),
            Some(c) => !c.is_alphanumeric() && !"_/%".contains(c),
            None => true,
        };
        (self.before.is_empty() || self.before.ends_with(begins)) && ends
    }

    /// Returns the words after the reason of the status, if they begin with it.
    fn after_reason(&self) -> Option<&'t str> {
        let rest = self.rest.strip_prefix(' ')?;
        let reason = StatusCode::from_u16(self.value).ok()?.canonical_reason();
        // The type `StatusCode` writes this if a status has no reason, like 529.
        let reason = reason.unwrap_or("<unknown status code>");
        let (head, after) = rest.split_at_checked(reason.len())?;
        let is_whole = !after.starts_with(char::is_alphanumeric);
        (head.eq_ignore_ascii_case(reason) && is_whole).then_some(after)
    }

    fn has_unit(&self, units: &[&str]) -> bool {
        let unit = self.rest.trim_start().to_ascii_lowercase();
        units.iter().any(|name| unit.starts_with(name))
    }

    /// Returns the words before the number in lower case, without marks at their end.
    fn label(&self) -> String {
        let from = text::floor_char_boundary(self.before, self.before.len().saturating_sub(32));
        let near = self.before.get(from..).unwrap_or_default();
        let near = near.trim_end_matches(MARKS).to_ascii_lowercase();
        let fillers = [" of", " was", " is", " with"];
        let label = fillers.iter().find_map(|filler| near.strip_suffix(filler));
        label.unwrap_or(&near).to_owned()
    }

    /// Returns whether the words before the number call it a status.
    fn is_named(&self) -> bool {
        let label = self.label();
        if self.has_unit(&UNITS) || label.ends_with("exit status") {
            return false;
        }
        // Python's clients write "Error code: 429 - {…}". Databases number their errors like that
        // too.
        if label.ends_with("error code") {
            return self.rest.starts_with(" - ");
        }
        ends_with_any(&label, &NAMES)
    }

    /// Returns whether the number is a status, given that the words are about a failure.
    fn is_likely(&self) -> bool {
        if self.after_reason().is_some() || self.is_named() {
            return true;
        }
        let label = self.label();
        let has_unit = self.has_unit(&UNITS) || self.has_unit(&AMOUNTS);
        if has_unit || label.ends_with("exit status") {
            return false;
        }
        let rest = self.rest.trim_start_matches([' ', ':', '-', ')', ']', '>', '\'']);
        let near = rest.get(..text::floor_char_boundary(rest, 32)).unwrap_or_default();
        let near = near.to_ascii_lowercase();
        if LIKELY_REASONS.iter().any(|reason| near.starts_with(reason)) {
            return true;
        }
        // A number that begins the message.
        let begins = self.before.trim_matches(['[', '(', '<', ' ']).is_empty();
        let is_bracketed = self.before.ends_with('[') && self.rest.starts_with(']');
        is_bracketed
            || ends_with_any(&label, &LIKELY_NAMES)
            || begins && near.starts_with(|c: char| c == '{' || c.is_alphabetic())
    }
}

/// Returns whether `label` ends with one of the names as a whole word.
fn ends_with_any(label: &str, names: &[&str]) -> bool {
    names.iter().any(|name| {
        let before = label.strip_suffix(name);
        before.is_some_and(|before| !before.ends_with(char::is_alphanumeric))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_status_in_many_forms() {
        for (text, want) in [
            ("Error code: 429 - {'error'", 429),
            ("request failed with status code 503", 503),
            ("502 Bad Gateway", 502),
            ("POST \"/v1\": 403 Forbidden \"no\"", 403),
            ("API error 400: {}", 400),
            ("403 status code (no body)", 403),
            ("400 - Bad Request", 400),
            ("Response 503: no", 503),
            ("HTTP 429 (429)", 429),
            ("got status: 502, no", 502),
            ("<400> No", 400),
            ("[429] slow", 429),
            ("it has a status code of 401 and", 401),
            ("[m/one] [503]: no", 503),
            ("(HTTP 500) no", 500),
            ("resulted in a `429 Too Many Requests` response", 429),
            ("run: Error: 529 {\"type\":1}", 529),
            ("503 UNAVAILABLE. {", 503),
            ("Service request failed.\nStatus: 401 (Unauthorized)", 401),
            ("the server responded with status 404", 404),
            ("Status code 413: request too large", 413),
        ] {
            assert_eq!(likely(text), Some(want), "{text}");
        }
    }

    #[test]
    fn other_numbers_are_no_status() {
        for text in [
            "req_429",
            "https://example.com/429",
            "429",
            "line 429 of it",
            "payload429snippet",
            "status 200",
            "status: 4290",
            "wrote 500 rows",
            "500 requests per day",
            "returned 404 tokens",
            "on port 503",
            "2 of 500 were sent",
        ] {
            assert_eq!(likely(text), None, "{text}");
        }
    }
}
