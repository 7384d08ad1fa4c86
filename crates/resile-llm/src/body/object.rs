//! Reads an error object: its codes, words and waits and the error object inside it.

use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::{CODES, DEEPEST, MESSAGE, ParsedBody, is_error};
use crate::{codes, headers, text, wait};

/// Returns the rank of a field as the error's words. A smaller rank is better.
fn words(name: &str) -> Option<u8> {
    Some(match name {
        "message" | "Message" => 0,
        "msg" | "error_message" | "errorMessage" | "error_msg" | "status_msg"
        | "status_message" => 1,
        "error_description" | "detail" | "details" | "faultstring" => 2,
        "description" | "reason" | "title" | "result" => 3,
        _ => return None,
    })
}

/// Returns the place of a field in the order of reading nested errors. The last one is innermost.
fn inner(name: &str) -> Option<usize> {
    Some(match name {
        "error" | "errors" | "Error" => 0,
        "innererror" | "inner_error" | "fault" | "base_resp" | "$metadata" => 1,
        "detail" | "error_message" => 2,
        "body" | "responseBody" | "data" => 3,
        "response" | "Response" => 4,
        "cause" => 5,
        "metadata" => 6,
        "raw" => 8,
        _ if name.ends_with("Error") => OTHER,
        _ => return None,
    })
}

/// The place of a nested error in a field of another name.
const OTHER: usize = 7;

/// Returns the status in a field of that name.
fn status(name: &str, value: &Value) -> Option<u16> {
    let is_named = ["code", "Code", "status", "Status"].iter().any(|end| name.ends_with(end));
    if !is_named {
        return None;
    }
    let status = match value {
        Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    status.filter(|status| (400..600).contains(status))
}

/// Returns whether a field of an unknown name holds an error.
fn is_nested(name: &str, value: &Value) -> bool {
    let is_input = ["headers", "request", "input", "param", "usage", "ctx"];
    let object = value.as_object().filter(|_| !is_input.iter().any(|part| name.contains(part)));
    object.is_some_and(is_error)
}

impl ParsedBody {
    pub(super) fn value(&mut self, value: &Value, now: SystemTime, depth: usize) {
        match value {
            Value::Object(object) => self.object(object, now, depth),
            Value::Array(items) => {
                items.iter().take(2).for_each(|item| self.value(item, now, depth + 1));
            }
            Value::String(prose) => self.prose(prose, now, depth),
            _ => {}
        }
    }

    pub(super) fn object(&mut self, object: &Map<String, Value>, now: SystemTime, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        self.objects += 1;
        let mut said: Option<(u8, &str)> = None;
        let mut inside = [None; 9];
        let mut fresh: Option<u16> = None;
        for (name, value) in object {
            let name = name.as_str();
            // A gateway names its own status and the status behind it.
            if let Some(status) = status(name, value) {
                let is_inner = name.contains("upstream") || name.contains("raw");
                fresh = fresh.filter(|_| !is_inner).or(Some(status));
            }
            self.wait = self.wait.max(wait::field(name, value, now));
            // An error may be in a field of any name.
            let place = inner(name).or_else(|| is_nested(name, value).then_some(OTHER));
            if let Some(place) = place.and_then(|place| inside.get_mut(place)) {
                *place = Some((name, value));
            }
            match value {
                Value::String(text) => {
                    self.name(name, text);
                    // `reason` is a code more often than a sentence.
                    let rank = words(name).filter(|_| name != "reason" || text.contains(' '));
                    if let Some(rank) =
                        rank.filter(|rank| said.is_none_or(|(best, _)| *rank < best))
                    {
                        said = Some((rank, text));
                    }
                }
                Value::Number(number) => match name {
                    "code" if self.code.is_none() => self.code = Some(number.to_string()),
                    "n_prompt_tokens" => self.prompt = number.as_u64(),
                    "n_ctx" => self.limit = number.as_u64(),
                    _ => {}
                },
                Value::Array(details) if name == "details" => self.google.details(details, now),
                Value::Object(fields) if matches!(name, "headers" | "response_headers") => {
                    self.headers(fields, now);
                }
                // In Amazon's event streams the name of the member is the exception.
                Value::Object(exception) if name.ends_with("Exception") => {
                    self.code(name);
                    self.object(exception, now, depth + 1);
                }
                _ => {}
            }
        }
        self.status = fresh.or(self.status);
        if let Some((_, words)) = said {
            self.prose(words, now, depth + 1);
        }
        for (name, value) in inside.into_iter().flatten() {
            self.inside(name, value, said.map(|(_, words)| words), now, depth + 1);
        }
    }

    /// Reads a field that may hold another error. `said` are the words of the object around it.
    fn inside(
        &mut self,
        name: &str,
        value: &Value,
        said: Option<&str>,
        now: SystemTime,
        depth: usize,
    ) {
        match value {
            // A validator lists the faults of a request, each with its location.
            Value::Array(items) if items.first().is_some_and(|item| item.get("loc").is_some()) => {
                self.code("validation_error");
                if let Some(Value::String(prose)) = items.first().and_then(|item| item.get("msg")) {
                    self.message = Some(text::clip(prose, MESSAGE));
                }
            }
            Value::Object(_) | Value::Array(_) => self.value(value, now, depth),
            // These strings are searched only for an error in JSON.
            Value::String(prose)
                if matches!(name, "metadata" | "data" | "response" | "body" | "responseBody") =>
            {
                let _: bool = self.embedded(prose, now, depth);
            }
            // These words were already read.
            Value::String(prose) if said == Some(prose.as_str()) => {}
            Value::String(prose) if said.is_none() || name == "raw" => {
                self.prose(prose, now, depth);
            }
            Value::String(prose) => {
                let _: bool = self.embedded(prose, now, depth);
            }
            _ => {}
        }
    }

    /// Records a field that may be a machine code.
    fn name(&mut self, name: &str, code: &str) {
        match name {
            "code" | "Code" | "error_code" | "errorCode" | "errorcode" | "err_code" | "errcode" => {
                self.code = Some(text::clip(code, 128));
            }
            "type" | "error_type" | "errorType" | "error_name" | "errorName" if code != "error" => {
                self.error_type = Some(text::clip(code, 128));
            }
            "status" | "reason" | "__type" if self.code.is_none() => {
                self.code = Some(text::clip(code, 128));
            }
            "status" | "reason" | "__type" | "type" | "error_type" | "errorType" | "error_name"
            | "errorName" | "name" | "kind" => {}
            "param" | "model" | "field" | "message" => return,
            // A code under another name counts only if its whole word is known.
            _ if codes::is_known(code) => {}
            _ => return,
        }
        self.code(code);
    }

    pub(super) fn code(&mut self, code: &str) {
        if let Some(status) = codes::status_in(code) {
            self.status.get_or_insert(status);
        }
        if self.codes.len() < CODES && !code.is_empty() && code.len() <= 128 {
            self.codes.push(code.to_owned());
        }
    }

    /// Reads another answer's headers that a gateway passes on. They may have their own `Date`.
    fn headers(&mut self, fields: &Map<String, Value>, now: SystemTime) {
        let mut map = HeaderMap::new();
        for (name, value) in fields.iter().take(64) {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => continue,
            };
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                map.append(name, value);
            }
        }
        // Amazon's event streams name the exception here.
        if let Some(Value::String(exception)) = fields.get(":exception-type") {
            self.code(exception);
        }
        let now = headers::date(&map, now);
        let wait = headers::asked(&map, now).or_else(|| headers::reset(&map, now));
        self.wait = self.wait.max(wait);
    }
}
