//! Text that is not JSON: events, HTML, broken JSON and the quoted parts of a message.

use std::borrow::Cow;
use std::ops::Range;

/// Returns the largest character boundary of `text` at or below `at`.
pub(crate) fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns the place of the first byte at `from` or later that `is` accepts. Chunks without such a
/// byte are skipped at once: compilers turn the test of a chunk into vector instructions.
#[inline]
pub(crate) fn next_byte(bytes: &[u8], from: usize, is: impl Fn(u8) -> bool) -> Option<usize> {
    const CHUNK: usize = 32;
    let rest = bytes.get(from..)?;
    let chunks = rest.chunks(CHUNK);
    let (n, chunk) = chunks
        .enumerate()
        .find(|(_, chunk)| chunk.iter().fold(false, |any, byte| any | is(*byte)))?;
    Some(from + n * CHUNK + chunk.iter().position(|byte| is(*byte))?)
}

/// Returns a text in lower case, with blanks for the underscores before letters. Its length in bytes
/// is the same.
pub(crate) fn plain(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if !lower.contains('_') {
        return lower;
    }
    let mut chars = lower.chars().peekable();
    let mut plain = String::with_capacity(lower.len());
    while let Some(c) = chars.next() {
        let is_blank = c == '_' && chars.peek().is_some_and(char::is_ascii_alphabetic);
        plain.push(if is_blank { ' ' } else { c });
    }
    plain
}

/// Returns the first `most` bytes of `text` or fewer to end at a character boundary.
pub(crate) fn clip(text: &str, most: usize) -> String {
    text.get(..floor_char_boundary(text, most)).unwrap_or_default().to_owned()
}

/// Returns whether the body is server-sent events.
pub(crate) fn is_events(body: &[u8]) -> bool {
    let mut lines =
        body.get(..1_024.min(body.len())).unwrap_or_default().split(|byte| *byte == b'\n');
    lines.any(|line| {
        ["data:", "event:", ": ping"].iter().any(|start| line.starts_with(start.as_bytes()))
    })
}

/// Returns the data of each event.
pub(crate) fn events(body: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut lines = body.lines().peekable();
    std::iter::from_fn(move || {
        let mut data: Option<Cow<'_, str>> = None;
        for line in lines.by_ref() {
            let value =
                line.strip_prefix("data:").map(|value| value.strip_prefix(' ').unwrap_or(value));
            match (value, &mut data) {
                (Some(value), None) => data = Some(Cow::Borrowed(value)),
                (Some(value), Some(data)) => {
                    data.to_mut().push('\n');
                    data.to_mut().push_str(value);
                }
                (None, Some(_)) if line.is_empty() => return data,
                (None, _) => {}
            }
        }
        data
    })
}

/// Returns whether the unparsable data of an event may hold an error.
pub(crate) fn mentions_error(data: &str) -> bool {
    data.contains("\"error\"") || data.contains("rror\":")
}

/// Returns the title of an HTML page or else its first heading.
pub(crate) fn html(page: &str) -> Option<String> {
    let head = page.get(..floor_char_boundary(page, 16 * 1024))?;
    let title = element(head, "<title", "</title").or_else(|| element(head, "<h1", "</h1"))?;
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then_some(title)
}

fn element<'p>(page: &'p str, open: &str, close: &str) -> Option<&'p str> {
    let start = find_ignoring_case(page, open)?;
    let inner = page.get(start..)?.split_once('>')?.1;
    let inner = inner.get(..find_ignoring_case(inner, close)?)?;
    (!inner.contains('<')).then_some(inner)
}

/// Returns the first place of `needle` in any ASCII case. Only the places of `<` are tried because
/// `needle` starts with `<`.
fn find_ignoring_case(text: &str, needle: &str) -> Option<usize> {
    let here = |at: &usize| {
        text.as_bytes()
            .get(*at..*at + needle.len())
            .is_some_and(|part| part.eq_ignore_ascii_case(needle.as_bytes()))
    };
    text.match_indices('<').map(|(at, _)| at).find(here)
}

/// Returns the values of the fields called `name` in text that was meant to be JSON.
pub(crate) fn fields(text: &str, name: &str) -> impl Iterator<Item = String> {
    text.match_indices(name).filter_map(move |(at, _)| {
        let before = text.get(..at)?.chars().next_back()?;
        let rest = text.get(at + name.len()..)?;
        if before != '"' || !rest.starts_with('"') {
            return None;
        }
        let value = rest.get(1..)?.trim_start().strip_prefix(':')?.trim_start();
        if let Some(quoted) = value.strip_prefix('"') {
            return Some(unescaped(quoted));
        }
        let end = value
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_')
            .unwrap_or(value.len());
        value.get(..end).filter(|value| !value.is_empty() && *value != "null").map(str::to_owned)
    })
}

/// Returns the content of a JSON string. `text` starts after the opening quote. The closing quote
/// may be missing.
fn unescaped(text: &str) -> String {
    let mut value = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('n' | 'r' | 't') => value.push(' '),
                Some(c) => value.push(c),
                None => break,
            },
            c => value.push(c),
        }
    }
    value
}

/// Returns the words of a text that is only a status and a string of JSON: `429 "slow down"`.
pub(crate) fn after_status(text: &str) -> Option<String> {
    let start = text.find('"').filter(|start| (3..=24).contains(start))?;
    let (before, string) = text.trim_end().split_at_checked(start)?;
    let is_status =
        before.trim_end_matches([' ', ':', '-']).ends_with(|c: char| c.is_ascii_digit());
    if !is_status {
        return None;
    }
    serde_json::from_str(string).ok()
}

/// Returns the code in the sentence of Amazon's clients: `An error occurred (Code) when calling`.
pub(crate) fn operation_code(text: &str) -> Option<&str> {
    const START: &str = "n error occurred (";
    // Most texts have no such sentence, and this test is quicker than a search.
    if !text.contains(START) {
        return None;
    }
    let (code, rest) = text.split_once(START)?.1.split_once(')')?;
    (rest.starts_with(" when calling") && code.len() <= 64).then_some(code)
}

/// Returns the quoted parts of a message: `'…'`, `"…"`, `{…}`. An apostrophe opens no quotation.
pub(crate) fn quoted(message: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let bytes = message.as_bytes();
    let mut at = 0;
    // If a quote is never closed, later quotes of its kind are not closed either. Not searching for
    // their ends keeps this linear.
    let mut open: [bool; 2] = [true; 2];
    let next = |from: usize| next_byte(bytes, from, |byte| matches!(byte, b'\'' | b'"' | b'{'));
    while let Some((place, &byte)) = next(at).and_then(|place| Some((place, bytes.get(place)?))) {
        at = place;
        let opens =
            at == 0 || bytes.get(at - 1).is_some_and(|before| !before.is_ascii_alphanumeric());
        let end = match byte {
            b'\'' | b'"' if opens && open.get(usize::from(byte == b'"')) == Some(&true) => {
                let end = closing(bytes, at, byte);
                if let Some(open) = open.get_mut(usize::from(byte == b'"')) {
                    *open = end.is_some();
                }
                end
            }
            b'{' => Some(matching(bytes, at)),
            _ => None,
        };
        at += 1;
        if let Some(end) = end {
            // Quotes around the whole message make no quotation.
            if at > 1 || end + 1 < bytes.len() {
                ranges.push(at..end);
            }
            at = end + 1;
        }
    }
    ranges
}

/// Returns the end of the quotation that begins at `start`.
fn closing(bytes: &[u8], start: usize, quote: u8) -> Option<usize> {
    let rest = bytes.get(start + 1..)?;
    let closes = |at: usize| rest.get(at + 1).is_none_or(|after| !after.is_ascii_alphanumeric());
    rest.iter()
        .enumerate()
        .find(|(at, byte)| **byte == quote && closes(*at))
        .map(|(at, _)| start + 1 + at)
}

/// Returns the place of the brace that closes the one at `start` or the end of the text.
fn matching(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    bytes.len()
}
