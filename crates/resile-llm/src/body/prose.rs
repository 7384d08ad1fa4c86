//! Reads errors outside of whole JSON: words, events and broken JSON.

use std::time::SystemTime;

use serde_json::{Map, Value};

use super::grpc;
use super::named::{is_part, labelled, spelled};
use super::{
    BodyShape, CODES, DEEPEST, MESSAGE, Origin, ParsedBody, READ, is_answer, is_error, is_message,
    loose, lossy,
};
use crate::{exceptions, spoken, text, wait};

/// The largest number of braces of a text from which an object is tried.
const TRIES: usize = 4;

/// Returns the object at the start of `text` and its length. An object that is almost JSON has the
/// length of its brace: what it holds may be an error.
fn first_object(text: &str) -> Option<(Map<String, Value>, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(Value::Object(object))) => Some((object, values.byte_offset())),
        _ => Some((loose::object(text)?, 1)),
    }
}

/// Returns the words before the first answer that a text quotes: the words of an SDK's error that could
/// not read the answer.
fn before_answer(prose: &str) -> &str {
    let braces = prose.match_indices('{').map(|(at, _)| at).take(TRIES);
    let mut rests = braces.filter_map(|at| Some((at, prose.get(at..)?)));
    let is_quoted = |rest: &str| loose::object(rest).is_some_and(|it| is_answer(&it));
    let answer = rests.find(|(_, rest)| is_quoted(rest));
    answer.and_then(|(at, _)| prose.get(..at)).map_or(prose, str::trim_end)
}

impl ParsedBody {
    /// Reads a body of words. In an answer they may be a part of the conversation.
    pub(super) fn spoken(&mut self, prose: &str, now: SystemTime) {
        self.shape = BodyShape::Error;
        self.words = Some(prose.len()).filter(|_| self.origin == Origin::Answer);
        self.prose(prose, now, 0);
    }

    /// Reads words. They may quote another error as JSON.
    pub(super) fn prose(&mut self, prose: &str, now: SystemTime, depth: usize) {
        let prose = exceptions::before_stack(prose);
        if depth == 0 {
            self.printed_proto(prose, now);
            self.named = spoken::likely(prose).or_else(|| grpc::stated(prose));
        }
        // "429 \"words\"" and "Error code: 429 - \"words\"": the words are a whole string of JSON.
        if let Some(inner) = text::after_status(prose) {
            return self.prose(&inner, now, depth.max(1));
        }
        if let Some(grpc) = grpc::read(prose).filter(|_| depth <= DEEPEST) {
            self.named = Some(grpc.status);
            return self.prose(grpc.message, now, depth + 1);
        }
        let prose = before_answer(prose);
        if self.embedded(prose, now, depth) {
            return;
        }
        let prose = self.after_exceptions(prose.trim());
        if !prose.is_empty() {
            if let Some(code) = text::operation_code(prose) {
                self.code(code);
            }
            if prose.contains('_') && prose.chars().all(is_part) {
                self.code(prose);
            }
            labelled(prose).for_each(|code| self.code(code));
            if depth == 0 {
                spelled(prose).for_each(|code| self.code(code));
            }
            self.message = Some(text::clip(prose, MESSAGE));
        }
    }

    /// Reads the names of exceptions before the words of an error, and returns the words.
    fn after_exceptions<'t>(&mut self, prose: &'t str) -> &'t str {
        // Behind a status in angle brackets, Alibaba writes a code: `<400> InternalError.Algo: …`.
        let after_status = prose.strip_prefix('<').and_then(|rest| rest.split_once("> "));
        let start = after_status.filter(|(status, _)| status.len() <= 8).map_or(prose, |it| it.1);
        let (names, words) = exceptions::before(start);
        for name in names {
            if exceptions::is_code(name) {
                self.code(name);
            } else if self.classes.len() < CODES {
                self.classes.push(name.to_owned());
            }
        }
        // `org.example.AiException: 404`
        let status = words.parse().ok().filter(|status| (400..600).contains(status));
        self.named =
            status.filter(|_| words.len() == 3 && words.len() < prose.len()).or(self.named);
        if words.is_empty() { prose } else { words }
    }

    /// Reads the details that Google's clients print behind a message: `retry_delay { seconds: 19 }`.
    fn printed_proto(&mut self, prose: &str, now: SystemTime) {
        // Most texts have no braces, and this test is quicker than a search.
        if text::next_byte(prose.as_bytes(), 0, |byte| byte == b'{').is_none() {
            return;
        }
        if let Some((_, delay)) = prose.split_once("retry_delay {") {
            let digits =
                delay.trim_start().strip_prefix("seconds:").unwrap_or_default().trim_start();
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            let seconds = digits.get(..end).unwrap_or_default().to_owned();
            let wait = wait::field("retry_delay", &Value::String(seconds), now);
            self.google.wait = self.google.wait.max(wait);
        }
        for (at, label) in prose.match_indices("quota_id: \"").take(8) {
            let quota = prose.get(at + label.len()..).and_then(|rest| rest.split('"').next());
            self.google.note("quotaId", quota.unwrap_or_default());
        }
    }

    /// Reads an error object from one of the first braces of a text on. Returns whether there was
    /// an error. Other objects in a text are quoted content, and so is one that lies too deep.
    pub(super) fn embedded(&mut self, prose: &str, now: SystemTime, depth: usize) -> bool {
        if depth >= DEEPEST {
            return false;
        }
        let mut from = 0;
        for _ in 0..TRIES {
            let rest = prose.get(from..).unwrap_or_default();
            let Some(start) = rest.find('{').map(|start| from + start) else { return false };
            let inner = prose.get(start..).unwrap_or_default();
            let Some((object, length)) = first_object(inner) else {
                from = start + 1;
                continue;
            };
            from = start + length;
            if is_error(&object) || is_message(&object) {
                let head = prose.get(..start).unwrap_or_default();
                let head = self.after_exceptions(head);
                self.named = spoken::likely(head).or(self.named);
                let before = self.message.take();
                self.object(&object, now, depth + 1);
                // The error may have had no message.
                if self.message.is_none() && start > 0 {
                    self.message = Some(text::clip(head.trim(), MESSAGE));
                }
                self.message = self.message.take().or(before);
                return true;
            }
        }
        false
    }

    /// Reads lines of JSON up to the first error. Returns whether there are several values and
    /// nothing else.
    pub(super) fn lines(&mut self, body: &[u8], now: SystemTime) -> bool {
        let values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
        let Ok(values) = values.collect::<Result<Vec<_>, _>>() else { return false };
        if values.len() < 2 {
            return false;
        }
        for value in &values {
            self.answer(value, now);
            if self.shape == BodyShape::Error {
                break;
            }
        }
        true
    }

    /// Reads JSON that does not parse. Returns false for an answer, whose fields hold the words of a
    /// conversation and are not read.
    pub(super) fn almost(&mut self, body: &str, now: SystemTime) -> bool {
        // A whole string of JSON that is cut off reads like its words.
        let start = body.find('{').unwrap_or(body.len());
        let object = loose::object(body.get(start..).unwrap_or_default());
        match object {
            Some(object) if is_error(&object) => {
                self.shape = BodyShape::Error;
                self.object(&object, now, 0);
            }
            Some(_) if self.origin == Origin::Answer => return false,
            Some(object) if self.origin == Origin::Text && is_answer(&object) => return false,
            Some(_) => self.broken(body, now),
            None => {
                self.words = Some(body.len()).filter(|_| self.origin == Origin::Answer);
                self.broken(body, now);
            }
        }
        true
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
                    Err(_) if text::mentions_error(&data) => {
                        self.almost(&data, now);
                    }
                    Err(_) => {}
                }
            } else if !data.is_empty() {
                self.spoken(&data, now);
            }
            if self.shape == BodyShape::Error {
                return;
            }
        }
    }
}
