//! Finding the innermost error in a body, and what it says.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::google::Google;
use super::{codes, finish, headers, numbers, text, wait};

/// What a body says of an error.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// An error object was there, or text that can be nothing else.
    pub(super) error: bool,
    /// The body was an answer in JSON, whole, and not an error.
    pub(super) answer: bool,
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

/// How many objects deep an error is looked for.
const DEEPEST: usize = 8;

/// How many codes are kept.
const CODES: usize = 12;

/// How much of a message is kept.
const MESSAGE: usize = 4 * 1024;

/// Larger bodies are not parsed: no provider's error is, and what would be is somebody's answer.
const PARSED: usize = 256 * 1024;

/// How much of a body is read as text.
const READ: usize = 64 * 1024;

const STATUSES: [&str; 10] = [
    "code",
    "status",
    "status_code",
    "statusCode",
    "upstream_status",
    "raw_status_code",
    "http_status",
    "httpStatusCode",
    "http_code",
    "error_code",
];

const NAMES: [&str; 12] = [
    "code",
    "type",
    "status",
    "reason",
    "__type",
    "error_type",
    "errorType",
    "error_code",
    "errorCode",
    "errorcode",
    "name",
    "kind",
];

const MESSAGES: [&str; 14] = [
    "message",
    "Message",
    "msg",
    "error_message",
    "errorMessage",
    "error_description",
    "detail",
    "details",
    "description",
    "status_msg",
    "faultstring",
    "error_msg",
    "reason",
    "title",
];

/// Where the next error object may be, inner ones first.
const INNER: [&str; 16] = [
    "error",
    "errors",
    "innererror",
    "inner_error",
    "detail",
    "body",
    "response",
    "responseBody",
    "data",
    "raw",
    "cause",
    "metadata",
    "base_resp",
    "fault",
    "error_message",
    "$metadata",
];

impl Found {
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
                found.error = true;
                found.message = text::html(&lossy(body)).map(|title| text::clip(&title, MESSAGE));
            }
            Some(_) if text::is_events(body) => found.events(body, now),
            Some(_) => {
                found.error = true;
                found.prose(&lossy(body), now, 0);
            }
        }
        found
    }

    /// A whole JSON value: an error, or an answer that may say how it ended.
    pub(super) fn answer(&mut self, value: &Value, now: SystemTime) {
        match value {
            Value::String(prose) => {
                self.error = true;
                self.prose(prose, now, 0);
            }
            Value::Array(items) => items.iter().take(4).for_each(|item| self.answer(item, now)),
            Value::Object(object) if is_error(object) => {
                self.error = true;
                self.object(object, now, 0);
            }
            Value::Object(object) => {
                self.answer = true;
                let ending = finish::of(object);
                self.ended |= ending.ended;
                if let Some(error) = ending.error {
                    self.error = true;
                    self.value(error, now, 1);
                } else if self.finish.is_none() {
                    self.finish = ending.finish;
                }
            }
            _ => {}
        }
    }

    fn value(&mut self, value: &Value, now: SystemTime, depth: usize) {
        match value {
            Value::Object(object) => self.object(object, now, depth),
            Value::Array(items) => items.iter().take(2).for_each(|item| self.value(item, now, depth + 1)),
            Value::String(prose) => self.prose(prose, now, depth),
            _ => {}
        }
    }

    fn object(&mut self, object: &Map<String, Value>, now: SystemTime, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        self.names(object);
        for name in MESSAGES {
            if let Some(Value::String(prose)) = object.get(name) {
                // `reason` is a code more often than a sentence.
                if name != "reason" || prose.contains(' ') {
                    self.prose(prose, now, depth + 1);
                    break;
                }
            }
        }
        for (name, value) in object {
            self.wait = self.wait.max(wait::field(name, value, now));
            match (name.as_str(), value) {
                ("details", Value::Array(details)) => self.google.details(details, now),
                ("headers" | "response_headers", Value::Object(fields)) => self.headers(fields, now),
                ("n_prompt_tokens", value) => self.prompt = value.as_u64().or(self.prompt),
                ("n_ctx", value) => self.limit = value.as_u64().or(self.limit),
                // An exception in an event stream of Amazon's is the member's name.
                (name, Value::Object(inner)) if name.ends_with("Exception") => {
                    self.code(name);
                    self.object(inner, now, depth + 1);
                }
                _ => {}
            }
        }
        for name in INNER {
            match object.get(name) {
                // The validator's report of what is wrong with a request, each with its place in it.
                Some(Value::Array(items)) if items.first().is_some_and(|item| item.get("loc").is_some()) => {
                    self.code("validation_error");
                    if let Some(Value::String(prose)) = items.first().and_then(|item| item.get("msg")) {
                        self.message = Some(text::clip(prose, MESSAGE));
                    }
                }
                Some(Value::String(prose)) if name == "metadata" || name == "data" || name == "response" => {
                    self.embedded(prose, now, depth + 1);
                }
                Some(Value::String(prose)) if !MESSAGES.contains(&name) || self.message.is_none() => {
                    self.prose(prose, now, depth + 1);
                }
                Some(value @ (Value::Object(_) | Value::Array(_))) => self.value(value, now, depth + 1),
                _ => {}
            }
        }
    }

    fn names(&mut self, object: &Map<String, Value>) {
        let status = |value: &Value| match value {
            Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        for name in STATUSES {
            if let Some(status) = object.get(name).and_then(status).filter(|status| (400..600).contains(status)) {
                self.status = Some(status);
            }
        }
        for name in NAMES {
            match object.get(name) {
                Some(Value::String(code)) => {
                    match name {
                        "code" | "error_code" | "errorCode" => self.code = Some(text::clip(code, 128)),
                        "type" | "error_type" | "errorType" if code != "error" => {
                            self.error_type = Some(text::clip(code, 128));
                        }
                        "status" | "reason" | "__type" if self.code.is_none() => {
                            self.code = Some(text::clip(code, 128))
                        }
                        _ => {}
                    }
                    self.code(code);
                }
                Some(Value::Number(code)) if name == "code" && self.code.is_none() => {
                    self.code = Some(code.to_string())
                }
                _ => {}
            }
        }
    }

    fn code(&mut self, code: &str) {
        if let Some(status) = codes::status_in(code) {
            self.status.get_or_insert(status);
        }
        if self.codes.len() < CODES && !code.is_empty() && code.len() <= 128 {
            self.codes.push(code.to_owned());
        }
    }

    /// The headers of an answer that a gateway passes on inside its own.
    fn headers(&mut self, fields: &Map<String, Value>, now: SystemTime) {
        let mut map = HeaderMap::new();
        for (name, value) in fields.iter().take(64) {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => continue,
            };
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                map.append(name, value);
            }
        }
        let wait = headers::asked(&map, now).or_else(|| headers::reset(&map, now));
        self.wait = self.wait.max(wait);
    }

    /// Words, in which another error may be quoted as JSON.
    fn prose(&mut self, prose: &str, now: SystemTime, depth: usize) {
        if depth == 0 {
            self.named = numbers::status(prose);
        }
        if depth <= DEEPEST && self.embedded(prose, now, depth) {
            return;
        }
        let printed = text::field_of_repr(prose, "message").or_else(|| text::field_of_repr(prose, "detail"));
        if printed.is_some() {
            let codes = ["code", "type", "status"].into_iter().filter_map(|name| text::field_of_repr(prose, name));
            codes.for_each(|code| self.code(code));
        }
        let prose = printed.unwrap_or(prose).trim();
        if !prose.is_empty() {
            self.message = Some(text::clip(prose, MESSAGE));
        }
    }

    /// An error in JSON inside a text: all of it, or from some brace on. Other JSON in a text is somebody's words.
    fn embedded(&mut self, prose: &str, now: SystemTime, depth: usize) -> bool {
        let Some(start) = prose.find('{') else { return false };
        let inner = prose.get(start..).unwrap_or_default();
        if depth > DEEPEST || inner.len() > PARSED || !inner.contains('"') {
            return false;
        }
        let first = serde_json::Deserializer::from_str(inner).into_iter::<Value>().next();
        match first {
            Some(Ok(Value::Object(object))) if is_error(&object) => {
                self.object(&object, now, depth + 1);
                // Nothing in it may have been a message.
                if self.message.is_none() && start > 0 {
                    self.message = prose.get(..start).map(|before| text::clip(before.trim(), MESSAGE));
                }
                true
            }
            _ => false,
        }
    }

    /// JSON that does not parse: its fields, as far as they can be told apart.
    fn broken(&mut self, body: &str, now: SystemTime) {
        let head = body.get(..text::floor(body, READ)).unwrap_or_default();
        for name in ["code", "status", "type", "reason", "__type"] {
            for value in text::fields(head, name).take(4) {
                self.error = true;
                if let Some(status) = value.parse().ok().filter(|status| (400..600).contains(status)) {
                    self.status = Some(status);
                } else {
                    self.code(&value);
                }
            }
        }
        for name in ["retryDelay", "quotaResetDelay", "retry_after", "resets_in_seconds", "resets_at"] {
            for value in text::fields(head, name).take(4) {
                self.wait = self.wait.max(wait::field(name, &Value::String(value), now));
            }
        }
        for name in ["quotaId", "reason"] {
            text::fields(head, name).take(8).for_each(|value| self.google.note(name, &value));
        }
        let message = ["message", "msg", "detail", "error"].iter().find_map(|name| text::fields(head, name).last());
        self.code = self.codes.first().cloned();
        if let Some(message) = message {
            self.error = true;
            self.prose(&message, now, DEEPEST);
        } else if !self.error {
            self.message = Some(text::clip(head, MESSAGE));
        }
    }

    /// The events of a stream: the first that is an error, or how the last one says that it ended.
    fn events(&mut self, body: &[u8], now: SystemTime) {
        let body = lossy(body);
        for data in text::events(&body) {
            if data == "[DONE]" {
                self.ended = true;
            } else if data.starts_with(['{', '[', '"']) {
                match serde_json::from_str::<Value>(&data) {
                    Ok(value) => self.answer(&value, now),
                    Err(_) if text::mentions_error(&data) => self.broken(&data, now),
                    Err(_) => {}
                }
            } else if !data.is_empty() {
                self.error = true;
                self.prose(&data, now, 0);
            }
            if self.error {
                return;
            }
        }
    }
}

/// Whether an object is an error, or an envelope of one: not an answer, whose `error` is null or absent.
fn is_error(object: &Map<String, Value>) -> bool {
    let has = |name: &str| object.get(name).is_some_and(|value| !value.is_null() && *value != Value::Bool(false));
    let is = |name: &str, value: &str| object.get(name).and_then(Value::as_str) == Some(value);
    if has("error") || has("errors") || has("fault") || is("type", "error") || is("object", "error") {
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
