//! The names of exceptions and the traces of stacks that clients print around a message.

use crate::text;

/// Returns the names of exceptions that a client prints before a message, outermost first, and the
/// message: `litellm.RateLimitError: OpenAIException - no` has two. Of a traceback the last line with
/// an exception counts.
pub(crate) fn before(text: &str) -> (Vec<&str>, &str) {
    let mut rest = after_traceback(text);
    let mut names = Vec::new();
    while let Some((name, after)) = exception(rest) {
        let message = after.trim_start_matches([' ', ':', '-', '\n']);
        let marks = after.get(..after.len() - message.len()).unwrap_or_default();
        // Only a mark or another exception shows that the name is no word of the message.
        if !marks.contains([':', '-']) && !message.is_empty() && exception(message).is_none() {
            break;
        }
        names.push(name);
        rest = message;
    }
    (names, rest)
}

/// Returns the text from the exception at the end of a traceback on.
fn after_traceback(text: &str) -> &str {
    // Most texts are one line, and this test is quicker than a search.
    let is_line = text::next_byte(text.as_bytes(), 0, |byte| byte == b'\n').is_none();
    if is_line || !text.contains("Traceback (most recent call last)") {
        return text.trim_start();
    }
    let starts = text.match_indices('\n').map(|(at, _)| at + 1);
    let lines = starts.filter_map(|at| text.get(at..));
    let mut exceptions = lines.filter(|line| {
        exception(line).is_some_and(|(_, after)| after.is_empty() || after.starts_with([':', '\n']))
    });
    exceptions.next_back().unwrap_or(text)
}

/// Returns the name of an exception at the start of a text and the text after it. A path of names
/// is one too: `google.api_core.exceptions.ResourceExhausted`.
fn exception(text: &str) -> Option<(&str, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '\\' | '$');
    let mut end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    // `Faraday::BadRequestError`
    while let Some(more) =
        text.get(end..)?.strip_prefix("::").filter(|more| more.starts_with(is_part))
    {
        let start = text.len() - more.len();
        end = start + more.find(|c: char| !is_part(c)).unwrap_or(more.len());
    }
    let (name, after) = text.split_at_checked(end).filter(|_| (3..=128).contains(&end))?;
    let last = name.rsplit(['.', ':', '\\', '$']).next()?;
    let is_type = last.starts_with(|c: char| c.is_ascii_uppercase())
        && last.contains(|c: char| c.is_ascii_lowercase());
    let is_error = last.ends_with("Error") || last.ends_with("Exception");
    let is_path =
        last.len() + 2 < name.len() && is_type && !name.starts_with(|c: char| c.is_ascii_digit());
    (is_error || is_path).then_some((name, after))
}

/// Returns whether the name of an exception is the code of a provider: Alibaba's and Tencent's codes
/// are paths that begin with a capital letter, such as `Throttling.RateQuota`.
pub(crate) fn is_code(exception: &str) -> bool {
    let is_error = exception.ends_with("Error") || exception.ends_with("Exception");
    exception.starts_with(|c: char| c.is_ascii_uppercase())
        && exception.contains('.')
        && !exception.contains([':', '\\'])
        && !is_error
}

/// Returns the classes of errors that a text names: `run: ConnectTimeoutError(no)`.
pub(crate) fn classes(text: &str) -> impl Iterator<Item = &str> {
    let head = text.get(..text::floor_char_boundary(text, 1_024)).unwrap_or_default();
    let words = head.split(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_');
    words.filter(|word| word.ends_with("Error") || word.ends_with("Exception"))
}

/// Returns the text before the trace of a stack that a client printed behind it.
pub(crate) fn before_stack(text: &str) -> &str {
    // Most texts have no stack, and this test is quicker than a search. PHP's stacks begin with `#0`.
    if text::next_byte(text.as_bytes(), 0, |byte| matches!(byte, b'\n' | b'#')).is_none() {
        return text;
    }
    // PHP, JavaScript and Java.
    let marks = [" Stack trace:", "\nStack trace:", "\n    at ", "\n\tat "];
    let end = marks.iter().filter_map(|mark| text.find(mark)).min();
    text.get(..end.unwrap_or(text.len())).filter(|before| !before.is_empty()).unwrap_or(text)
}
