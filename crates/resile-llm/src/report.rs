//! Failures in the errors of other libraries: in a chain of sources, and in the words of an error.

use std::error::Error;
use std::fmt::{self, Write};

use crate::body::{Origin, ParsedBody};
use crate::failure::Failure;
use crate::known::Known;
use crate::reply::Reply;
use crate::rule::Rule;
use crate::{spoken, text};
use resile::http::headers::now;

/// The number of bytes to read of an error's words.
const READ: usize = 32 * 1024;

impl Failure {
    /// Creates a failure from the first known error in a chain of sources. Returns `None` without a
    /// known error: no opinion.
    ///
    /// The known errors are a `Failure`, an [`Elapsed`](resile::timeout::Elapsed), an [`io::Error`](std::io::Error) and an
    /// error of `reqwest` (feature `reqwest`). The words of the errors are not read: see
    /// [`find_in_text`](Self::find_in_text).
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_llm::{Failure, Kind};
    ///
    /// let refused = Failure::from_text(401, "Incorrect API key provided");
    /// let error = anyhow::Error::new(refused).context("while asking");
    /// let found = Failure::find_in_error(error.as_ref()).unwrap();
    /// assert_eq!(found.kind(), Kind::Auth);
    ///
    /// let error = anyhow::anyhow!("no such prompt");
    /// assert!(Failure::find_in_error(error.as_ref()).is_none());
    /// ```
    #[must_use]
    pub fn find_in_error(error: &(dyn Error + 'static)) -> Option<Self> {
        match Known::first(error)? {
            Known::Failure(failure) => Some(failure.clone()),
            Known::Elapsed(elapsed) => Some(elapsed.into()),
            Known::Transport(found) => Some(Self::found_in(error, found)),
        }
    }

    /// Creates a failure from the words of an error. Returns `None` unless the words name the
    /// status of a refusal, or hold an error object with a status or a known code.
    ///
    /// A status counts beside its reason ("429 Too Many Requests"), behind a name ("status code
    /// 503", "HTTP 502"), and only in the first 512 bytes. No other number is a status: words have
    /// ports, sizes and line numbers too. Without a status no words count, only codes. Of long
    /// words 32 KiB are read.
    ///
    /// # When not
    ///
    /// If the error keeps the status, the headers or the body, read them with
    /// [`Reply`](crate::Reply). Words rarely hold a `Retry-After`. They may also quote an answer
    /// that this call did not get, and a retry would then repeat a call that must not be repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_llm::{Failure, Kind};
    ///
    /// let words = r#"429 Too Many Requests: {"error":{"code":"insufficient_quota"}}"#;
    /// let failure = Failure::find_in_text(words).unwrap();
    /// assert_eq!(failure.kind(), Kind::QuotaExhausted);
    ///
    /// let words = "rate limit: cannot read 429 bytes from 127.0.0.1:503";
    /// assert!(Failure::find_in_text(words).is_none());
    /// ```
    #[must_use]
    pub fn find_in_text(words: &str) -> Option<Self> {
        let words = words.get(..text::floor_char_boundary(words, READ))?;
        if let Some((status, rest)) = spoken::stated(words) {
            let code = code(rest).map(|code| {
                let error = serde_json::json!({ "error": { "code": code, "message": rest } });
                error.to_string()
            });
            let body = code.as_deref().unwrap_or(rest);
            return Some(Self::from_text(status, body));
        }
        let object = words.get(words.find('{')?..)?;
        let now = now();
        let failure = Reply::new(object.as_bytes()).classify(now);
        let is_coded = match failure.rule() {
            Rule::Code(code) => code != "unknown",
            Rule::Google(_) => true,
            _ => ParsedBody::read(object.as_bytes(), now, Origin::Refusal).status.is_some(),
        };
        is_coded.then_some(failure)
    }
}

/// Returns the failure that the words of the first error in a chain of sources mean.
pub(crate) fn find_in_words(error: &(dyn Error + 'static)) -> Option<Failure> {
    let mut next = Some(error);
    while let Some(error) = next {
        let mut words = Clipped(String::new());
        // The words are whole, or they are cut at their limit. Both can be read.
        let _ = write!(words, "{error}");
        if let Some(failure) = Failure::find_in_text(&words.0) {
            return Some(failure);
        }
        next = error.source();
    }
    None
}

/// The first [`READ`] bytes of what is written. A request in an error's words may be much longer.
struct Clipped(String);

impl Write for Clipped {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let left = READ.saturating_sub(self.0.len());
        let end = text::floor_char_boundary(part, left);
        self.0.push_str(part.get(..end).unwrap_or_default());
        if end < part.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Returns the code in words that end like those of `async-openai`: "… (code: x)".
fn code(words: &str) -> Option<&str> {
    let (_, code) = words.trim_end().strip_suffix(')')?.rsplit_once("(code: ")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (!code.is_empty() && code.chars().all(is_name)).then_some(code)
}
