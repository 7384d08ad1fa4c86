use std::fmt;

use serde_json::{Map, Value};

use crate::finish;
use crate::usage::usage;
use resile::quota::Usage;
use resile::stream::Part;

/// An event of a model's stream. Made by [`Events`](crate::Events).
///
/// # Examples
///
/// ```
/// use resile::stream::Part;
/// use resile_llm::Event;
///
/// let role = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
/// let word = r#"{"choices":[{"delta":{"content":"Hello"}}]}"#;
/// let last = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
/// assert_eq!(Event::new("", role).part(), Part::Preamble);
/// assert_eq!(Event::new("", word).part(), Part::Content);
/// assert_eq!(Event::new("", last).part(), Part::Complete);
/// assert_eq!(Event::new("", "[DONE]").part(), Part::End);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    name: String,
    data: String,
    part: Part,
}

impl Event {
    /// Creates an event, for a test or as the marker of
    /// [`Resumption::Restart`](resile::stream::Resumption::Restart). An empty name means no name.
    pub fn new(name: impl Into<String>, data: impl Into<String>) -> Self {
        let (name, data) = (name.into(), data.into());
        let part = part(&name, &data);
        Self { name, data, part }
    }

    /// Returns the field `event`, which is empty if the provider sent none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the field `data`, which is JSON or `[DONE]`. Lines are joined by a line feed.
    #[must_use]
    pub fn data(&self) -> &str {
        &self.data
    }

    /// Returns the part of the stream that the event belongs to, as
    /// [`retry_events`](crate::retry_events()) reads it.
    ///
    /// | part | events |
    /// |---|---|
    /// | `End` | `[DONE]`, `message_stop`, `response.completed`, `message-end`, an event named `done` or `end` |
    /// | `Complete` | an event with a reason of its finish: `finish_reason`, `finishReason`, `stop_reason` |
    /// | `Content` | words, reasoning, calls of tools, audio and images. Also every event of an unknown format, because what was shown must not be repeated |
    /// | `Preamble` | all others: the greeting, a role without words, the start of an empty block, the usage. Also the words with which a model of OpenAI refuses, because they are a failure |
    ///
    /// The formats are those of OpenAI (completions, chat and responses), Anthropic, Gemini and Cohere.
    #[must_use]
    pub fn part(&self) -> Part {
        self.part
    }

    /// Returns the words that the event adds to the answer. The text is empty for an event without
    /// words.
    ///
    /// Reasoning, refusals, calls of tools and audio are not words. [`ToolCalls`](crate::ToolCalls) collects the
    /// calls of tools. A model that refuses ends the stream of [`events`](crate::events()) with a [`ContentFilter`](crate::Kind::ContentFilter) in place of these
    /// events. If the event has several choices, the first one counts. The formats are those of
    /// [`part`](Self::part), and Ollama's.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_llm::Event;
    ///
    /// let openai = r#"{"choices":[{"delta":{"content":"Hello"}}]}"#;
    /// let anthropic = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hello"}}"#;
    /// assert_eq!(Event::new("", openai).text(), "Hello");
    /// assert_eq!(Event::new("content_block_delta", anthropic).text(), "Hello");
    /// assert_eq!(Event::new("", "[DONE]").text(), "");
    /// ```
    #[must_use]
    pub fn text(&self) -> String {
        self.object().as_ref().map(words).unwrap_or_default()
    }

    /// Returns the usage that the event reports, which is empty for most events. Join the usages of a
    /// stream by [`Usage::merged`]: see [`usage`](crate::usage()). Add those of several streams by
    /// [`Usage::plus`].
    pub fn usage(&self) -> Usage {
        usage(self.data.as_bytes()).unwrap_or_default()
    }

    /// Returns the object of the data, if it is one.
    pub(crate) fn object(&self) -> Option<Map<String, Value>> {
        object(&self.data)
    }

    /// Returns whether the event only says that the provider is alive.
    pub(crate) fn is_ping(&self) -> bool {
        const PINGS: [&str; 4] = ["ping", "heartbeat", "keepalive", "keep-alive"];
        let is_ping = |name: &str| PINGS.contains(&name);
        let by_type = || object(&self.data).as_ref().and_then(kind).is_some_and(is_ping);
        // Content is longer. So most events are not parsed again.
        let is_short = self.data.len() < 256;
        self.data.trim().is_empty() || is_ping(&self.name) || is_short && by_type()
    }
}

/// Writes the name, the part and the data, which has the words of the conversation.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("name", &self.name)
            .field("part", &self.part)
            .field("data", &self.data)
            .finish()
    }
}

fn object(data: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(data).ok()
}

pub(crate) fn kind(object: &Map<String, Value>) -> Option<&str> {
    ["type", "event_type"].iter().find_map(|name| object.get(*name)?.as_str())
}

fn part(name: &str, data: &str) -> Part {
    if data.trim() == "[DONE]" || matches!(name, "done" | "end") {
        return Part::End;
    }
    let Some(object) = object(data) else { return Part::Content };
    let kind = kind(&object);
    if kind.is_some_and(finish::is_terminal) || object.get("done") == Some(&Value::Bool(true)) {
        return Part::End;
    }
    if finish::of(&object).ended {
        return Part::Complete;
    }
    if has_content(&object, kind) { Part::Content } else { Part::Preamble }
}

/// Returns the words of the answer in an event.
fn words(object: &Map<String, Value>) -> String {
    let at = |path: &str| object_at(object, path);
    match kind(object) {
        Some("content_block_delta") => joined(at("/delta/text")),
        Some("response.output_text.delta") => joined(at("/delta")),
        Some("content-delta") => joined(at("/delta/message/content")),
        Some(_) => String::new(),
        None => {
            const PLACES: [&str; 5] = [
                "/choices/0/text",
                "/choices/0/message/content",
                "/candidates/0/content/parts",
                "/message/content",
                "/response",
            ];
            // Beside a delta Perplexity sends the whole answer so far.
            if at("/choices/0/delta").is_some_and(Value::is_object) {
                return joined(at("/choices/0/delta/content"));
            }
            PLACES
                .iter()
                .map(|place| joined(at(place)))
                .find(|text| !text.is_empty())
                .unwrap_or_default()
        }
    }
}

/// Returns the items of a list, if the value is one.
pub(crate) fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// Returns the value at a path of names and places.
pub(crate) fn object_at<'v>(object: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    let (name, rest) = path.strip_prefix('/')?.split_once('/').unwrap_or((path.get(1..)?, ""));
    let value = object.get(name)?;
    if rest.is_empty() { Some(value) } else { value.pointer(&format!("/{rest}")) }
}

/// Joins the texts of a value: a string, a block with a text, or a list of blocks.
fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks.iter().map(|block| joined(Some(block))).collect(),
        // Gemini marks its thoughts.
        Some(Value::Object(block)) if block.get("thought") != Some(&Value::Bool(true)) => {
            block.get("text").and_then(Value::as_str).unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}

/// Returns whether an event has something for the consumer.
fn has_content(object: &Map<String, Value>, kind: Option<&str>) -> bool {
    if kind == Some(finish::REFUSAL_DELTA) {
        return false;
    }
    if let Some(kind) = kind {
        let is_delta = kind.ends_with("delta") && kind != "message_delta";
        let parts = ["delta", "content_block", "partial_image_b64", "text"];
        // A delta without these fields is of a form that nobody has seen.
        return parts.iter().any(|name| object.get(*name).is_some_and(has_words))
            || is_delta && !parts.iter().any(|name| object.contains_key(*name));
    }
    let known = ["choices", "candidates", "usage", "usageMetadata", "promptFeedback"];
    if !known.iter().any(|name| object.contains_key(*name)) {
        return object.values().any(has_words);
    }
    items(object.get("choices")).chain(items(object.get("candidates"))).any(|item| {
        let parts = ["delta", "text", "message", "content"];
        parts.iter().any(|name| item.get(*name).is_some_and(has_words))
    })
}

/// Returns whether a value holds a text that is not only a label or a refusal.
fn has_words(value: &Value) -> bool {
    const LABELS: [&str; 7] = ["role", "type", "id", "index", "object", "status", "refusal"];
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(has_words),
        Value::Object(object) => {
            object.iter().any(|(name, value)| !LABELS.contains(&name.as_str()) && has_words(value))
        }
        _ => false,
    }
}
