//! Finds machine codes in the words of an error.

use crate::llm::codes;

/// Returns the codes that a text names: the word after `code:`, each whole code of the table that is
/// written with underscores, and a code with underscores in parentheses before the message.
pub(super) fn named(text: &str) -> impl Iterator<Item = &str> {
    let marks = text.match_indices(':').chain(text.match_indices('='));
    let labelled = marks.filter_map(|(at, mark)| {
        let label = text.get(..at)?.trim_end_matches([' ', '"']);
        if !label.ends_with("code") && !label.ends_with("Code") {
            return None;
        }
        let value = text.get(at + mark.len()..)?.trim_start_matches([' ', '"']);
        let code = value.get(..value.find(|c| !is_part(c)).unwrap_or(value.len()))?;
        code.contains(|c: char| c.is_ascii_alphabetic()).then_some(code)
    });
    let mut end = 0;
    let spelled = text.match_indices('_').filter_map(move |(at, _)| {
        if at < end {
            return None;
        }
        let before = text.get(..at)?.trim_end_matches(is_part);
        end = text.get(at..)?.find(|c| !is_part(c)).map_or(text.len(), |after| at + after);
        let code = text.get(before.len()..end)?.rsplit('.').find(|part| part.contains('_'))?;
        let is_alone = before.ends_with('(') && text.get(end..)?.starts_with(") ");
        (is_alone || codes::is_known(code)).then_some(code)
    });
    labelled.chain(spelled)
}

/// Returns whether a character may stand in a code.
fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_codes() {
        for (text, want) in [
            ("image error 400: billing_hard_limit_reached", &["billing_hard_limit_reached"][..]),
            ("status = StatusCode.RESOURCE_EXHAUSTED, rate", &["RESOURCE_EXHAUSTED"]),
            (
                "code:UnsupportedOperation.PkgExhausted message:no",
                &["UnsupportedOperation.PkgExhausted"],
            ),
            ("errorCode = \"Throttling\"", &["Throttling"]),
            ("。rate_limit_exceeded。", &["rate_limit_exceeded"]),
            ("run: (unavailable_model) no model", &["unavailable_model"]),
            ("the field max_tokens has no such code", &[]),
            ("status code 429: no", &[]),
            ("failed in mode: throttling", &[]),
            ("_", &[]),
            ("code:", &[]),
        ] {
            assert_eq!(named(text).collect::<Vec<_>>(), want, "{text}");
        }
    }
}
