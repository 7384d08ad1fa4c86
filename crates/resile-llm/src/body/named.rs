//! Finds machine codes in the words of an error.

use crate::codes;

/// Returns the codes that a text labels: the word after `code:`.
pub(super) fn labelled(text: &str) -> impl Iterator<Item = &str> {
    // Most texts have no label, and this test is quicker than a search.
    let text = if text.contains("code") || text.contains("Code") { text } else { "" };
    let marks = text.match_indices(':').chain(text.match_indices('='));
    marks.filter_map(|(at, mark)| {
        let label = text.get(..at)?.trim_end_matches([' ', '"']);
        if !label.ends_with("code") && !label.ends_with("Code") {
            return None;
        }
        let value = text.get(at + mark.len()..)?.trim_start_matches([' ', '"']);
        // Swift and Rust print an optional code like this.
        let inner = ["Optional(", "Some("].iter().find_map(|name| value.strip_prefix(name));
        let value = inner.map_or(value, |inner| inner.trim_start_matches('"'));
        let code = value.get(..value.find(|c| !is_part(c)).unwrap_or(value.len()))?;
        code.contains(|c: char| c.is_ascii_alphabetic()).then_some(code)
    })
}

/// Returns the codes with underscores in a text that is no part of an object: behind `code`, in
/// parentheses before the message, or a known code of a failure that does not pass.
///
/// The name of a parameter may look like the code of a failure that passes (`request_timeout`), and
/// the request must not be sent again for it.
pub(super) fn spelled(text: &str) -> impl Iterator<Item = &str> {
    let mut end = 0;
    text.match_indices('_').filter_map(move |(at, _)| {
        if at < end {
            return None;
        }
        let before = text.get(..at)?.trim_end_matches(is_part);
        end = text.get(at..)?.find(|c| !is_part(c)).map_or(text.len(), |after| at + after);
        let code = text.get(before.len()..end)?.rsplit('.').find(|part| part.contains('_'))?;
        let is_alone = before.ends_with('(') && text.get(end..)?.starts_with(") ");
        let is_quoted = before.ends_with(['\'', '"', '`']);
        let counts = is_alone
            || before.ends_with("code ") && codes::is_known(code)
            || !is_quoted && codes::is_permanent(code);
        counts.then_some(code)
    })
}

/// Returns whether a character may stand in a code.
pub(super) fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_codes() {
        for (text, want) in [
            ("image error 400: billing_hard_limit_reached", &["billing_hard_limit_reached"][..]),
            ("with code RESOURCE_EXHAUSTED, rate", &["RESOURCE_EXHAUSTED"]),
            ("with code rate_limit_exceeded, rate", &["rate_limit_exceeded"]),
            ("。insufficient_quota。", &["insufficient_quota"]),
            ("run: (unavailable_model) no model", &["unavailable_model"]),
            ("the field max_tokens has no such code", &[]),
            ("unknown argument: request_timeout", &[]),
            ("unknown value: 'insufficient_quota'", &[]),
            ("_", &[]),
        ] {
            assert_eq!(spelled(text).collect::<Vec<_>>(), want, "{text}");
        }
        for (text, want) in [
            (
                "code:UnsupportedOperation.PkgExhausted message:no",
                &["UnsupportedOperation.PkgExhausted"][..],
            ),
            ("errorCode = \"Throttling\"", &["Throttling"]),
            ("code: Optional(\"invalid_api_key\"))", &["invalid_api_key"]),
            ("status code 429: no", &[]),
            ("failed in mode: throttling", &[]),
            ("code:", &[]),
        ] {
            assert_eq!(labelled(text).collect::<Vec<_>>(), want, "{text}");
        }
    }
}
