//! The calls of tools that a model makes in a stream.

use serde_json::{Map, Value};

use crate::event::{Event, items, kind, object_at};
use crate::finish;
use resile::stream;

/// A call of a tool. Made by [`ToolCalls`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    id: String,
    name: String,
    arguments: String,
}

impl ToolCall {
    /// Returns the id to send back with the result of the tool. It is empty if the provider sent none, as most
    /// models of Gemini do.
    ///
    /// Of the Responses API of OpenAI it is the `call_id`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the name of the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the arguments as the model wrote them. They are `{}` for a call without arguments.
    ///
    /// A model may write arguments that are not JSON. In a function that returns a [`Failure`](crate::Failure)
    /// the `?` behind `serde_json::from_str` makes one of that error.
    #[must_use]
    pub fn arguments(&self) -> &str {
        match self.arguments.trim() {
            "" => "{}",
            _ => &self.arguments,
        }
    }
}

/// Collects the calls of tools from the events of one answer.
///
/// Add each event of the stream, in its order. An event without a call changes nothing, but the last one says that the
/// calls are whole. Begin with a new `ToolCalls` when an answer starts again.
///
/// | provider | calls |
/// |---|---|
/// | OpenAI, chat completions, and others with this interface | `tool_calls` of the first choice. Two calls of the same index have their own id or name |
/// | OpenAI, responses | items of the type `function_call`. A `custom_tool_call` is left out |
/// | Anthropic | blocks of the type `tool_use`. Tools of the server itself are left out |
/// | Gemini | parts with a `functionCall`. Arguments in parts, `partialArgs`, are left out |
///
/// What else a provider wants back, such as `thoughtSignature` of Gemini, is in [`Event::data`].
///
/// # Examples
///
/// ```
/// use resile_llm::{Event, ToolCalls};
///
/// let mut calls = ToolCalls::new();
/// for data in [
///     r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a",
///         "function":{"name":"look","arguments":"{\"at\""}}]}}]}"#,
///     r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":8}"}}]}}]}"#,
///     r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
/// ] {
///     calls.add(&Event::new("", data));
/// }
/// let calls = calls.into_calls();
/// assert_eq!((calls[0].id(), calls[0].name()), ("a", "look"));
/// assert_eq!(calls[0].arguments(), r#"{"at":8}"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ToolCalls {
    /// The calls in the order of their first parts.
    calls: Vec<Partial>,
    has_ended: bool,
    is_cut: bool,
}

/// A call of which parts have come.
#[derive(Clone, Debug)]
struct Partial {
    /// The place in the answer to which further parts belong. `None` for a call that has all its parts.
    place: Option<u64>,
    call: ToolCall,
    /// The arguments that came with the start of the call. They count if no parts follow.
    given: String,
}

impl Partial {
    fn new(place: Option<u64>, id: &str, name: &str) -> Self {
        let call = ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: String::new() };
        Self { place, call, given: String::new() }
    }

    fn into_call(self) -> ToolCall {
        match self.call.arguments.as_str() {
            "" => ToolCall { arguments: self.given, ..self.call },
            _ => self.call,
        }
    }
}

/// A part of a call.
#[derive(Clone, Copy, Default)]
struct Part<'v> {
    place: u64,
    id: &'v str,
    name: &'v str,
    arguments: &'v str,
}

impl ToolCalls {
    /// Creates a collector without calls.
    #[must_use]
    pub const fn new() -> Self {
        Self { calls: Vec::new(), has_ended: false, is_cut: false }
    }

    /// Adds what an event says of calls.
    pub fn add(&mut self, event: &Event) {
        let is_last = matches!(event.part(), stream::Part::Complete | stream::Part::End);
        self.has_ended |= is_last;
        let Some(object) = event.object() else { return };
        let ending = finish::of(&object);
        self.is_cut |= ending.finish.is_some() || is_last && ending.error.is_some();
        match kind(&object) {
            Some("content_block_start") => self.start_block(&object),
            Some("content_block_delta") => {
                let json = object.get("delta").map(|delta| text(delta, "partial_json"));
                self.go_on(number(object.get("index")), json.unwrap_or_default());
            }
            Some("response.output_item.added" | "response.output_item.done") => {
                self.item(&object);
            }
            Some("response.function_call_arguments.delta") => {
                let part = object.get("delta").and_then(Value::as_str);
                self.go_on(number(object.get("output_index")), part.unwrap_or_default());
            }
            Some(_) => {}
            None => {
                self.choice(&object);
                self.candidate(&object);
            }
        }
    }

    /// Returns the calls of the answer, in its order.
    ///
    /// There are none before the last event has come, and none if the answer broke off or was cut, such as by the token
    /// limit. So no tool runs on half a call. The stream of [`events`](crate::events()) yields a failure then.
    #[must_use]
    pub fn into_calls(self) -> Vec<ToolCall> {
        if self.is_cut || !self.has_ended {
            return Vec::new();
        }
        self.calls.into_iter().map(Partial::into_call).collect()
    }

    /// Reads the parts of calls in chat completions.
    fn choice(&mut self, object: &Map<String, Value>) {
        let first = items(object.get("choices")).filter(|choice| number(choice.get("index")) == 0);
        for delta in
            first.filter_map(|choice| choice.get("delta").or_else(|| choice.get("message")))
        {
            for (at, part) in (0..).zip(items(delta.get("tool_calls"))) {
                let place = part.get("index").and_then(Value::as_u64).unwrap_or(at);
                let function = part.get("function").unwrap_or(&Value::Null);
                let name = text(function, "name");
                let arguments = &written(function.get("arguments"));
                self.note(Part { place, id: text(part, "id"), name, arguments });
            }
        }
    }

    /// Reads the whole calls of Gemini.
    fn candidate(&mut self, object: &Map<String, Value>) {
        for part in items(object_at(object, "/candidates/0/content/parts")) {
            if let Some(call) = part.get("functionCall") {
                let given = written(call.get("args"));
                let begun = Partial::new(None, text(call, "id"), text(call, "name"));
                self.calls.push(Partial { given, ..begun });
            }
        }
    }

    /// Reads the start of a block of Anthropic. The arguments of another tool have the same form.
    fn start_block(&mut self, object: &Map<String, Value>) {
        let place = number(object.get("index"));
        self.leave(place);
        let Some(block) = object.get("content_block") else { return };
        if text(block, "type") == "tool_use" {
            let given = written(block.get("input"));
            let begun = Partial::new(Some(place), text(block, "id"), text(block, "name"));
            self.calls.push(Partial { given, ..begun });
        }
    }

    /// Reads an item of the Responses API, which has all arguments at its end.
    fn item(&mut self, object: &Map<String, Value>) {
        let Some(item) = object.get("item") else { return };
        if text(item, "type") != "function_call" {
            return;
        }
        let place = number(object.get("output_index"));
        let (id, name) = (text(item, "call_id"), text(item, "name"));
        self.note(Part { place, id, name, arguments: "" });
        let whole = text(item, "arguments");
        if let Some(it) = self.at(place).filter(|_| !whole.is_empty()) {
            whole.clone_into(&mut it.call.arguments);
        }
    }

    /// Adds a part to the call of its place, or begins a call.
    fn note(&mut self, part: Part<'_>) {
        match self.at(part.place) {
            Some(it) if !part.begins_after(&it.call) => {
                for (known, new) in [(&mut it.call.id, part.id), (&mut it.call.name, part.name)] {
                    if known.is_empty() {
                        new.clone_into(known);
                    }
                }
                it.call.arguments.push_str(part.arguments);
            }
            _ => {
                let mut begun = Partial::new(Some(part.place), part.id, part.name);
                part.arguments.clone_into(&mut begun.call.arguments);
                self.calls.push(begun);
            }
        }
    }

    /// Adds arguments to the call at a place, if there is one.
    fn go_on(&mut self, place: u64, arguments: &str) {
        if let Some(it) = self.at(place) {
            it.call.arguments.push_str(arguments);
        }
    }

    /// Notes that further parts of a place are not those of its call.
    fn leave(&mut self, place: u64) {
        if let Some(it) = self.at(place) {
            it.place = None;
        }
    }

    /// Returns the last call of a place.
    fn at(&mut self, place: u64) -> Option<&mut Partial> {
        self.calls.iter_mut().rfind(|it| it.place == Some(place))
    }
}

impl Part<'_> {
    /// Returns whether this is the first part of another call. Some providers number all their calls with 0, some
    /// repeat the name in each part, and some give each part an id of its own.
    fn begins_after(self, call: &ToolCall) -> bool {
        if self.name.is_empty() || call.name.is_empty() {
            return false;
        }
        if self.id.is_empty() || call.id.is_empty() {
            let is_next = || !self.arguments.is_empty() && is_whole(&call.arguments);
            return self.name != call.name || is_next();
        }
        self.id != call.id
    }
}

/// Returns whether arguments have their end.
fn is_whole(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && serde_json::from_str::<Value>(arguments).is_ok()
}

/// Returns a text in a value, which is empty if it is absent.
fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).unwrap_or(0)
}

/// Returns arguments as text, also those that are an object. An empty object is no text, because parts may follow.
fn written(arguments: Option<&Value>) -> String {
    match arguments {
        Some(Value::String(text)) => text.clone(),
        Some(value @ Value::Object(object)) if !object.is_empty() => value.to_string(),
        _ => String::new(),
    }
}
