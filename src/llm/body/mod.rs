//! Finding the innermost error in a body, and what it says.

mod object;
mod prose;

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::google::Google;
use super::{finish, text};

/// What a body says of an error.
#[derive(Debug, Default)]
pub(super) struct ParsedBody {
    pub(super) shape: BodyShape,
    /// JSON that stops before its end.
    pub(super) cut: bool,
    /// The innermost status that the body names.
    pub(super) status: Option<u16>,
    /// The status that a text names, where the body is one.
    pub(super) named: Option<u16>,
    /// Every machine code on the way, outermost first.
    pub(super) codes: Vec<String>,
    pub(super) code: Option<String>,
    pub(super) error_type: Option<String>,
    pub(super) message: Option<String>,
    pub(super) google: Google,
    /// The longest wait that a field asks for.
    pub(super) wait: Option<Duration>,
    pub(super) prompt: Option<u64>,
    pub(super) limit: Option<u64>,
    /// How a good answer says that it ended.
    pub(super) finish: Option<finish::Finish>,
    /// A stream had its last event.
    pub(super) ended: bool,
}

/// What a body is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BodyShape {
    /// Empty, or nothing that can be made out.
    #[default]
    Nothing,
    /// An answer in JSON, whole, and not an error.
    Answer,
    /// An error object, or text that can be nothing else.
    Error,
}

/// How many objects deep an error is looked for.
const DEEPEST: usize = 8;

/// How many codes are kept.
const CODES: usize = 12;

/// How much of a message is kept.
const MESSAGE: usize = 4 * 1024;

/// Larger bodies are not parsed: no provider's error is, and what would be is somebody's answer.
const PARSED: usize = 256 * 1024;

/// How much of a body is read as text.
const READ: usize = 32 * 1024;

impl ParsedBody {
    /// What `body` says. Any bytes will do.
    pub(super) fn read(body: &[u8], now: SystemTime) -> Self {
        let mut found = Self::default();
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
        let small = body.len() <= PARSED;
        match body.first() {
            None => {}
            Some(b'{' | b'[' | b'"') if small => match serde_json::from_slice::<Value>(body) {
                Ok(value) => found.answer(&value, now),
                Err(error) => {
                    found.cut = error.is_eof();
                    found.broken(&lossy(body), now);
                }
            },
            Some(b'{' | b'[' | b'"') => found.broken(&lossy(body), now),
            Some(b'<') => {
                found.shape = BodyShape::Error;
                found.message = text::html(&lossy(body)).map(|title| text::clip(&title, MESSAGE));
            }
            Some(_) if text::is_events(body) => found.events(body, now),
            Some(_) => {
                found.shape = BodyShape::Error;
                found.prose(&lossy(body), now, 0);
            }
        }
        found
    }

    /// A whole JSON value: an error, or an answer that may say how it ended.
    pub(super) fn answer(&mut self, value: &Value, now: SystemTime) {
        match value {
            Value::String(prose) => {
                self.shape = BodyShape::Error;
                self.prose(prose, now, 0);
            }
            Value::Array(items) => items.iter().take(4).for_each(|item| self.answer(item, now)),
            Value::Object(object) if is_error(object) => {
                self.shape = BodyShape::Error;
                self.object(object, now, 0);
            }
            Value::Object(object) if self.shape != BodyShape::Error => {
                self.shape = BodyShape::Answer;
                let ending = finish::of(object);
                self.ended |= ending.ended;
                if let Some(error) = ending.error {
                    self.shape = BodyShape::Error;
                    self.value(error, now, 1);
                } else if self.finish.is_none() {
                    self.finish = ending.finish;
                }
            }
            _ => {}
        }
    }
}

/// Whether an object is an error, or an envelope of one: not an answer, whose `error` is null or absent.
fn is_error(object: &Map<String, Value>) -> bool {
    let has = |name: &str| {
        object.get(name).is_some_and(|value| !value.is_null() && *value != Value::Bool(false))
    };
    let is = |name: &str, value: &str| object.get(name).and_then(Value::as_str) == Some(value);
    if has("error") || has("errors") || has("fault") || is("type", "error") || is("object", "error")
    {
        return true;
    }
    if object.keys().any(|name| name.ends_with("Exception")) || is("status", "error") {
        return true;
    }
    if let Some(Value::Object(response)) = object.get("response") {
        return response.get("error").is_some_and(|error| !error.is_null());
    }
    if let Some(Value::Object(base)) = object.get("base_resp") {
        return base.get("status_code").and_then(Value::as_i64).is_some_and(|status| status != 0);
    }
    // Bare: an error without an envelope. An answer has its content beside these.
    let answer = ["choices", "candidates", "content", "output", "data", "id", "usage", "delta"]
        .iter()
        .any(|name| object.contains_key(*name));
    !answer
        && [
            "message",
            "Message",
            "detail",
            "msg",
            "code",
            "error_message",
            "errorMessage",
            "__type",
            "status_code",
            "title",
        ]
        .iter()
        .any(|name| has(name))
}

fn lossy(body: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(body.get(..READ.min(body.len())).unwrap_or_default())
}
