//! Finds the innermost error in a body and reads its facts.

mod grpc;
mod loose;
mod named;
mod object;
mod prose;

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use crate::google::Google;
use crate::{finish, text, wait};

/// The facts in a body.
#[derive(Debug, Default)]
pub(crate) struct ParsedBody {
    origin: Origin,
    pub(crate) shape: BodyShape,
    /// The JSON stops before its end.
    pub(crate) cut: bool,
    /// Where an answer stops being JSON. It stands for the words, which are those of a conversation.
    pub(crate) fault: Option<String>,
    /// The number of bytes of an answer that is words and not JSON.
    pub(crate) words: Option<usize>,
    /// The innermost status that the body names.
    pub(crate) status: Option<u16>,
    /// The status that the body names if it is a text.
    pub(crate) named: Option<u16>,
    /// At most `CODES` machine codes from the outermost object to the innermost.
    pub(crate) codes: Vec<String>,
    pub(crate) code: Option<String>,
    pub(crate) error_type: Option<String>,
    pub(crate) message: Option<String>,
    /// The names of exceptions that a client printed before a text, outermost first.
    pub(crate) classes: Vec<String>,
    /// The number of objects of errors, also of those in a text.
    pub(crate) objects: usize,
    pub(crate) google: Google,
    /// The longest wait in a field.
    pub(crate) wait: Option<Duration>,
    pub(crate) prompt: Option<u64>,
    pub(crate) limit: Option<u64>,
    /// The ending that a good answer names.
    pub(crate) finish: Option<finish::Finish>,
    /// The stream had its last event.
    pub(crate) ended: bool,
}

/// What is known of a body before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The text of an error, or the body of an answer whose status is not known.
    #[default]
    Text,
    /// An answer with a good status. What is no error in it are the words of a conversation.
    Answer,
    /// An answer with a bad status, so a mere message is an error.
    Refusal,
}

/// The form of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BodyShape {
    /// An empty or unreadable body.
    #[default]
    Nothing,
    /// A whole answer in JSON without an error.
    Answer,
    /// An error object or text that can only be an error.
    Error,
}

/// The largest number of objects around an error.
const DEEPEST: usize = 8;

/// The largest number of codes to keep.
const CODES: usize = 12;

/// The number of bytes to keep of a message.
pub(crate) const MESSAGE: usize = 4 * 1024;

/// The largest number of bytes to parse. A larger body is an ordinary answer and no provider's
/// error.
pub(crate) const PARSED: usize = 256 * 1024;

/// The number of bytes to read of a text.
const READ: usize = 32 * 1024;

impl ParsedBody {
    /// Reads `body`. Any bytes are valid.
    pub(crate) fn read(body: &[u8], now: SystemTime, origin: Origin) -> Self {
        let mut found = Self { origin, ..Self::default() };
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
        let small = body.len() <= PARSED;
        match body.first() {
            None => {}
            Some(b'{' | b'[' | b'"') if small => match serde_json::from_slice::<Value>(body) {
                Ok(value) => found.answer(&value, now),
                Err(_) if found.lines(body, now) => {}
                Err(error) => {
                    found.cut = error.is_eof();
                    if !found.almost(&lossy(body), now) {
                        found.fault = Some(fault(body.len(), &error));
                    }
                }
            },
            Some(b'{' | b'[' | b'"') => {
                let is_read = found.almost(&lossy(body), now);
                let fault = || format!("its {} bytes hold no error", body.len());
                found.fault = (!is_read).then(fault);
            }
            Some(b'<') if is_page(body) => {
                found.shape = BodyShape::Error;
                let page = lossy(body);
                found.message = text::html(&page).map(|title| text::clip(&title, MESSAGE));
                let head = page.get(..text::floor_char_boundary(&page, MESSAGE));
                found.wait = wait::sentence(&head.unwrap_or_default().to_ascii_lowercase(), now);
            }
            Some(_) if text::is_events(body) => found.events(body, now),
            Some(_) => {
                found.spoken(&lossy(body), now);
            }
        }
        found
    }

    /// Reads a whole JSON value: an error or an answer with or without an ending.
    pub(crate) fn answer(&mut self, value: &Value, now: SystemTime) {
        match value {
            Value::String(prose) => self.spoken(prose, now),
            Value::Array(items) => items.iter().take(4).for_each(|item| self.answer(item, now)),
            Value::Object(object)
                if is_error(object) || self.origin == Origin::Refusal && is_message(object) =>
            {
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

/// Returns whether an object is an error or an envelope of one.
fn is_error(object: &Map<String, Value>) -> bool {
    let has = |name: &str| finish::error_in(object, name).is_some();
    let is = |name: &str, value: &str| object.get(name).and_then(Value::as_str) == Some(value);
    if has("error") || has("errors") || has("fault") || is("type", "error") || is("object", "error")
    {
        return true;
    }
    let is_set = |name: &str, value: bool| object.get(name) == Some(&Value::Bool(value));
    if is_set("is_error", true) || is_set("isError", true) || is_set("success", false) {
        return true;
    }
    if object.keys().any(|name| name.ends_with("Exception") || name == "$fault")
        || is("status", "error")
    {
        return true;
    }
    let nested = |name: &str| object.get(name).and_then(Value::as_object);
    if ["response", "Response"].iter().filter_map(|name| nested(name)).any(|response| {
        ["error", "Error"].iter().any(|name| finish::error_in(response, name).is_some())
    }) {
        return true;
    }
    // These providers answer with a status object, and its code is good in a good answer.
    let codes = ["code", "status_code", "Code"];
    let of_status = ["base_resp", "header", "status"].iter().filter_map(|name| nested(name));
    if of_status
        .clone()
        .any(|status| codes.iter().filter_map(|name| status.get(*name)).any(|code| !is_good(code)))
    {
        return true;
    }
    let names = ["error_code", "error_msg", "error_message", "errorCode", "errorMessage"];
    if names.iter().filter_map(|name| object.get(*name)).any(|value| !is_good(value)) {
        return true;
    }
    // A bare error has no envelope. An answer has its content beside these fields.
    let answer = ["choices", "candidates", "content", "output", "data", "id", "usage", "delta"]
        .iter()
        .any(|name| object.get(*name).is_some_and(|value| !value.is_null()));
    // Anthropic's first event and Ollama's answers have the message of the model.
    let answer = answer
        || nested("message").is_some_and(|message| {
            ["role", "content", "usage"].iter().any(|name| message.contains_key(*name))
        });
    // A client's own object around the error: `originalError`, `lastError`.
    let is_around = |(name, value): (&String, &Value)| name.ends_with("Error") && !value.is_null();
    !answer
        && (object.iter().any(is_around)
            || [
                "message",
                "Message",
                "detail",
                "msg",
                "code",
                "errmsg",
                "__type",
                "status_code",
                "title",
            ]
            .iter()
            .any(|name| has(name)))
}

/// Returns whether an object is an answer of a model, whole or not.
fn is_answer(object: &Map<String, Value>) -> bool {
    let has = |name: &str| object.get(name).is_some_and(|value| !value.is_null());
    let is_of_model = |message: &Map<String, Value>| {
        message.contains_key("role") || message.contains_key("content")
    };
    ["choices", "candidates", "content", "output", "delta"].iter().any(|name| has(name))
        || object.get("message").and_then(Value::as_object).is_some_and(is_of_model)
        || has("model") && object.get("response").is_some_and(Value::is_string)
}

/// Returns where JSON that does not parse has its fault, without a part of it.
fn fault(bytes: usize, error: &serde_json::Error) -> String {
    if error.is_eof() {
        format!("its JSON ends after {bytes} bytes: {error}")
    } else {
        format!("its JSON of {bytes} bytes is broken: {error}")
    }
}

/// Returns whether an object is little more than a message. A good answer may look the same.
fn is_message(object: &Map<String, Value>) -> bool {
    let is_text = |name: &str| object.get(name).is_some_and(Value::is_string);
    object.len() <= 3 && (is_text("message") || is_text("error_message"))
}

/// Returns whether the value of a code or a message stands for no error: null, nothing, 0 or 2xx.
fn is_good(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.as_i64().is_some_and(|code| code == 0 || (200..300).contains(&code))
        }
        Value::String(text) => {
            text.is_empty()
                || text.parse::<u32>().is_ok_and(|code| code == 0 || text.starts_with('2'))
        }
        _ => true,
    }
}

/// Returns whether a text begins like a page and not like a status (`<400> …`) or a printed error of
/// gRPC.
fn is_page(body: &[u8]) -> bool {
    let head = body.get(..64.min(body.len())).unwrap_or_default();
    !head.get(1).is_some_and(u8::is_ascii_digit) && !head.windows(8).any(|part| part == b"RpcError")
}

fn lossy(body: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(body.get(..READ.min(body.len())).unwrap_or_default())
}
