//! Reads errors outside of whole JSON: words, events and broken JSON.

use std::time::SystemTime;

use serde_json::Value;

use super::{BodyShape, DEEPEST, MESSAGE, PARSED, ParsedBody, READ, is_error, lossy};
use crate::llm::{numbers, text, wait};

impl ParsedBody {
    /// Reads words. They may quote another error as JSON.
    pub(super) fn prose(&mut self, prose: &str, now: SystemTime, depth: usize) {
        if depth == 0 {
            self.named = numbers::status(prose);
        }
        if depth <= DEEPEST && self.embedded(prose, now, depth) {
            return;
        }
        let printed = text::is_repr(prose).then(|| {
            text::field_of_repr(prose, "message").or_else(|| text::field_of_repr(prose, "detail"))
        });
        let printed = printed.flatten();
        if printed.is_some() {
            let codes = ["code", "type", "status"]
                .into_iter()
                .filter_map(|name| text::field_of_repr(prose, name));
            codes.for_each(|code| self.code(code));
        }
        let prose = printed.unwrap_or(prose).trim();
        if !prose.is_empty() {
            self.message = Some(text::clip(prose, MESSAGE));
        }
    }

    /// Reads an error in JSON from the first brace of a text on. Returns whether there was an
    /// error. Other JSON in a text is quoted content.
    pub(super) fn embedded(&mut self, prose: &str, now: SystemTime, depth: usize) -> bool {
        let Some(start) = prose.find('{') else { return false };
        let inner = prose.get(start..).unwrap_or_default();
        if depth > DEEPEST || inner.len() > PARSED || !inner.contains('"') {
            return false;
        }
        let first = serde_json::Deserializer::from_str(inner).into_iter::<Value>().next();
        match first {
            Some(Ok(Value::Object(object))) if is_error(&object) => {
                self.object(&object, now, depth + 1);
                // The error may have had no message.
                if self.message.is_none() && start > 0 {
                    self.message =
                        prose.get(..start).map(|before| text::clip(before.trim(), MESSAGE));
                }
                true
            }
            _ => false,
        }
    }

    /// Reads the recognizable fields of JSON that does not parse.
    pub(super) fn broken(&mut self, body: &str, now: SystemTime) {
        let head = body.get(..text::floor_char_boundary(body, READ)).unwrap_or_default();
        for name in ["code", "status", "type", "reason", "__type"] {
            for value in text::fields(head, name).take(4) {
                self.shape = BodyShape::Error;
                if let Some(status) =
                    value.parse().ok().filter(|status| (400..600).contains(status))
                {
                    self.status = Some(status);
                } else {
                    self.code(&value);
                }
            }
        }
        for name in
            ["retryDelay", "quotaResetDelay", "retry_after", "resets_in_seconds", "resets_at"]
        {
            for value in text::fields(head, name).take(4) {
                self.wait = self.wait.max(wait::field(name, &Value::String(value), now));
            }
        }
        for name in ["quotaId", "reason"] {
            text::fields(head, name).take(8).for_each(|value| self.google.note(name, &value));
        }
        let message = ["message", "msg", "detail", "error"]
            .iter()
            .find_map(|name| text::fields(head, name).last());
        self.code = self.codes.first().cloned();
        if let Some(message) = message {
            self.shape = BodyShape::Error;
            self.prose(&message, now, DEEPEST);
        } else if self.shape != BodyShape::Error {
            self.message = Some(text::clip(head, MESSAGE));
        }
    }

    /// Reads the events of a stream up to the first error or the end.
    pub(super) fn events(&mut self, body: &[u8], now: SystemTime) {
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
                self.shape = BodyShape::Error;
                self.prose(&data, now, 0);
            }
            if self.shape == BodyShape::Error {
                return;
            }
        }
    }
}
