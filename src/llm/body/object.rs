//! An error object: its codes, its words, its waits, and the error object inside it.

use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::super::{codes, headers, text, wait};
use super::{CODES, DEEPEST, Found, MESSAGE};

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
    pub(super) fn value(&mut self, value: &Value, now: SystemTime, depth: usize) {
        match value {
            Value::Object(object) => self.object(object, now, depth),
            Value::Array(items) => items.iter().take(2).for_each(|item| self.value(item, now, depth + 1)),
            Value::String(prose) => self.prose(prose, now, depth),
            _ => {}
        }
    }

    pub(super) fn object(&mut self, object: &Map<String, Value>, now: SystemTime, depth: usize) {
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
                            self.code = Some(text::clip(code, 128));
                        }
                        _ => {}
                    }
                    self.code(code);
                }
                Some(Value::Number(code)) if name == "code" && self.code.is_none() => {
                    self.code = Some(code.to_string());
                }
                _ => {}
            }
        }
    }

    pub(super) fn code(&mut self, code: &str) {
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
}
