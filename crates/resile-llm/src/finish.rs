//! The endings that good answers name.

use serde_json::{Map, Value};

use crate::kind::Kind;

/// An ending that is a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
}

/// The end that an answer or a stream event states.
#[derive(Debug, Default)]
pub(crate) struct Ending<'v> {
    pub(crate) finish: Option<Finish>,
    /// An error inside one of several answers.
    pub(crate) error: Option<&'v Value>,
    /// The answer or the stream has ended.
    pub(crate) ended: bool,
}

/// The name of the ending of an answer without items.
pub(crate) const EMPTY: &str = "empty";

/// The name of the ending of a model that refuses, as a reason of Anthropic's finish and as a field of OpenAI's.
const REFUSAL: &str = "refusal";

/// The type of an event with such words.
pub(crate) const REFUSAL_DELTA: &str = "response.refusal.delta";

const REASONS: &[(&str, Kind)] = &[
    ("content_filter", Kind::ContentFilter),
    ("content_filtered", Kind::ContentFilter),
    (REFUSAL, Kind::ContentFilter),
    ("guardrail_intervened", Kind::ContentFilter),
    ("safety", Kind::ContentFilter),
    ("recitation", Kind::ContentFilter),
    ("blocklist", Kind::ContentFilter),
    ("prohibited_content", Kind::ContentFilter),
    ("spii", Kind::ContentFilter),
    ("image_safety", Kind::ContentFilter),
    ("image_prohibited_content", Kind::ContentFilter),
    ("image_recitation", Kind::ContentFilter),
    ("model_armor", Kind::ContentFilter),
    ("sensitive", Kind::ContentFilter),
    ("error_toxic", Kind::ContentFilter),
    ("model_context_window_exceeded", Kind::ContextLength),
    ("insufficient_system_resource", Kind::Overloaded),
    ("malformed_function_call", Kind::InvalidOutput),
    ("malformed_model_output", Kind::InvalidOutput),
    ("malformed_tool_use", Kind::InvalidOutput),
    ("unexpected_tool_call", Kind::InvalidOutput),
    ("too_many_tool_calls", Kind::InvalidOutput),
    ("malformed_response", Kind::InvalidOutput),
    ("no_image", Kind::InvalidOutput),
    ("other", Kind::InvalidOutput),
    ("length", Kind::InvalidOutput),
    ("max_tokens", Kind::InvalidOutput),
    ("max_output_tokens", Kind::InvalidOutput),
    ("error_limit", Kind::InvalidOutput),
    ("incomplete", Kind::InvalidOutput),
    ("error", Kind::Server),
    ("network_error", Kind::Server),
];

/// The types of last events.
const TERMINAL: [&str; 6] = [
    "message_stop",
    "response.completed",
    "response.failed",
    "response.incomplete",
    "message-end",
    "stream-end",
];

/// Returns whether an event of this type is the last one.
#[cfg(feature = "stream")]
pub(crate) fn is_terminal(kind: &str) -> bool {
    TERMINAL.contains(&kind)
}

/// Returns the ending that `answer` names.
pub(crate) fn of(answer: &Map<String, Value>) -> Ending<'_> {
    let mut ending = Ending::default();
    if let Some(kind) = answer.get("type").and_then(Value::as_str) {
        ending.ended = TERMINAL.contains(&kind);
    }
    // This is Ollama's last event.
    ending.ended |= answer.get("done") == Some(&Value::Bool(true));
    // The last event of a stream may have no output, because earlier events had it.
    let is = |name: &str, text: &str| answer.get(name).and_then(Value::as_str) == Some(text);
    let output = answer.get("output").and_then(Value::as_array);
    if is("object", "response") && is("status", "completed") && output.is_some_and(Vec::is_empty) {
        ending.note(EMPTY, Kind::InvalidOutput);
    }
    let response = answer.get("response").and_then(Value::as_object);
    for object in [Some(answer), response].into_iter().flatten() {
        ending.one(object);
        for list in ["choices", "candidates"] {
            let items = object.get(list).and_then(Value::as_array);
            // An answer without items is empty. An event without items has only the usage, or Azure's
            // verdict on the prompt.
            if items.is_some_and(Vec::is_empty)
                && !is_event(object)
                && object.get("promptFeedback").is_none()
            {
                ending.note(EMPTY, Kind::InvalidOutput);
            }
            items
                .into_iter()
                .flatten()
                .take(16)
                .filter_map(Value::as_object)
                .for_each(|item| ending.one(item));
        }
        if let Some(Value::Object(delta)) = object.get("delta") {
            ending.one(delta);
        }
    }
    ending
}

/// Returns the error in a field. In a good answer the field is null, false or absent.
pub(crate) fn error_in<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    object.get(name).filter(|error| !matches!(error, Value::Null | Value::Bool(false)))
}

fn is_event(object: &Map<String, Value>) -> bool {
    object.get("object").and_then(Value::as_str).is_some_and(|object| object.ends_with("chunk"))
        || ["usage", "prompt_filter_results"].iter().any(|name| object.contains_key(*name))
}

/// Returns whether a part of an answer or of a stream has the words with which the model refuses. OpenAI sends
/// them in place of the content, and the reason of its finish is that of a good answer.
fn refuses(object: &Map<String, Value>) -> bool {
    let is_said = |value: Option<&Value>| {
        value.and_then(Value::as_str).is_some_and(|words| !words.is_empty())
    };
    if object.get("type").and_then(Value::as_str) == Some(REFUSAL_DELTA) {
        return is_said(object.get("delta"));
    }
    let within = |name: &str| is_said(object.get(name).and_then(|part| part.get(REFUSAL)));
    let output = object.get("output").and_then(Value::as_array);
    let mut blocks =
        output.into_iter().flatten().filter_map(|item| item.get("content")?.as_array()).flatten();
    is_said(object.get(REFUSAL))
        || within("message")
        || within("delta")
        || blocks.any(|it| is_said(it.get(REFUSAL)))
}

impl<'v> Ending<'v> {
    fn one(&mut self, object: &'v Map<String, Value>) {
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        self.error = error_in(object, "error").or(self.error);
        for name in
            ["finish_reason", "finishReason", "stop_reason", "stopReason", "native_finish_reason"]
        {
            if let Some(reason) = text(name) {
                self.ended = true;
                self.reason(reason);
            }
        }
        if let Some(reason) = object
            .get("incomplete_details")
            .and_then(|details| details.get("reason"))
            .and_then(Value::as_str)
        {
            self.ended = true;
            self.reason(reason);
        }
        let feedback =
            object.get("promptFeedback").and_then(|feedback| feedback.get("blockReason"));
        if feedback.is_some_and(Value::is_string) {
            self.ended = true;
            self.note("blockReason", Kind::ContentFilter);
        }
        if refuses(object) {
            self.note(REFUSAL, Kind::ContentFilter);
        }
    }

    fn reason(&mut self, reason: &str) {
        if let Some((name, kind)) =
            REASONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(reason))
        {
            self.note(name, *kind);
        }
    }

    fn note(&mut self, name: &'static str, kind: Kind) {
        self.finish.get_or_insert(Finish { kind, name });
    }
}
