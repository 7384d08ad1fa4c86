//! The JSON of chat completions: requests and answers.

use reqwest::header::HeaderMap;
use resile::stream::Part;
use resile_llm::{Failure, Phase, Reply};
use serde_json::{Value, json};
use std::time::SystemTime;

use crate::agent::{Ask, Call, Message, Turn};

/// Returns the body of a request.
pub(super) fn request(model: &str, ask: &Ask<'_>) -> String {
    let tools: Vec<Value> = (ask.tools.iter())
        .map(|tool| {
            let function = json!({ "name": tool.name, "description": tool.about, "parameters": tool.parameters });
            json!({ "type": "function", "function": function })
        })
        .collect();
    let messages: Vec<Value> = ask.messages.iter().map(message).collect();
    let options = json!({ "include_usage": true });
    json!({ "model": model, "stream": true, "stream_options": options, "messages": messages, "tools": tools })
        .to_string()
}

/// Returns a message of the prompt as JSON.
fn message(message: &Message) -> Value {
    match message {
        Message::System(text) => json!({ "role": "system", "content": text }),
        Message::User(text) => json!({ "role": "user", "content": text }),
        Message::Assistant { text, calls } if calls.is_empty() => {
            json!({ "role": "assistant", "content": text })
        }
        Message::Assistant { text, calls } => {
            let calls: Vec<Value> = (calls.iter())
                .map(|call| {
                    let function = json!({ "name": call.name, "arguments": call.arguments });
                    json!({ "id": call.id, "type": "function", "function": function })
                })
                .collect();
            json!({ "role": "assistant", "content": text, "tool_calls": calls })
        }
        Message::Tool { call, text } => {
            json!({ "role": "tool", "tool_call_id": call, "content": text })
        }
    }
}

/// A part of an answer, from one event of the stream.
#[derive(Debug, Default)]
pub(super) struct Delta {
    text: String,
    /// The parts of tool calls, each with the index of its call.
    calls: Vec<(usize, Call)>,
    /// The LLM tokens of the prompt and of the answer.
    usage: Option<(u64, u64)>,
    /// Set by a finish reason. True if the limit of LLM tokens cut the answer.
    pub(super) finish: Option<bool>,
    /// True for the last part.
    pub(super) end: bool,
    /// True if the answer starts again, so earlier parts are void.
    pub(super) restart: bool,
}

impl Delta {
    pub(super) fn end() -> Self {
        Self { end: true, ..Self::default() }
    }

    pub(super) fn restart() -> Self {
        Self { restart: true, ..Self::default() }
    }

    /// Parses the data of an event. `phase` is the progress of the stream so far.
    pub(super) fn read(data: &str, phase: Phase) -> Result<Self, Failure> {
        if data.trim() == "[DONE]" {
            return Ok(Self::end());
        }
        let event: Value = serde_json::from_str(data).map_err(|error| {
            Failure::invalid_output(format!("an event of the answer is not JSON: {error}"))
        })?;
        // The agent itself rejects calls that the token limit cut. This check finds other failures.
        if event["choices"][0]["finish_reason"] != "length" {
            if let Some(failure) = Failure::find_in_event(data, phase) {
                return Err(failure);
            }
        }
        Ok(Self::of(&event, "delta"))
    }

    /// Parses the body of an answer that is not a stream.
    pub(super) fn whole(body: &[u8], headers: &HeaderMap) -> Result<Self, Failure> {
        if let Some(failure) =
            Reply::new(body).with_status(200).with_headers(headers).find(SystemTime::now())
        {
            return Err(failure);
        }
        let answer: Value = serde_json::from_slice(body)
            .map_err(|error| Failure::invalid_output(format!("the answer is not JSON: {error}")))?;
        Ok(Self { end: true, ..Self::of(&answer, "message") })
    }

    /// Takes the parts of a choice from its field `delta` or `message`.
    fn of(event: &Value, field: &str) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let choice = &event["choices"][0];
        let calls = choice[field]["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        let calls = calls.iter().enumerate().map(|(place, call)| {
            let index = call["index"]
                .as_u64()
                .and_then(|index| usize::try_from(index).ok())
                .unwrap_or(place);
            let function = &call["function"];
            (
                index,
                Call {
                    id: text(&call["id"]),
                    name: text(&function["name"]),
                    arguments: text(&function["arguments"]),
                },
            )
        });
        let count = |name: &str| event["usage"][name].as_u64();
        Self {
            text: text(&choice[field]["content"]),
            calls: calls.collect(),
            usage: count("prompt_tokens")
                .map(|tokens| (tokens, count("completion_tokens").unwrap_or(0))),
            finish: choice["finish_reason"].as_str().map(|reason| reason == "length"),
            end: false,
            restart: false,
        }
    }

    /// Returns the position of this part in the stream.
    pub(super) fn part(&self) -> Part {
        match self {
            Self { end: true, .. } => Part::End,
            Self { text, calls, .. } if text.is_empty() && calls.is_empty() => Part::Preamble,
            _ => Part::Content,
        }
    }

    /// Adds this part to the answer.
    pub(super) fn add_to(self, turn: &mut Turn) {
        turn.text.push_str(&self.text);
        for (index, part) in self.calls {
            // Calls come in order. An index beyond the next call adds at most one call.
            if index >= turn.calls.len() {
                turn.calls.push(Call::default());
            }
            if let Some(call) = turn.calls.get_mut(index) {
                call.id.push_str(&part.id);
                call.name.push_str(&part.name);
                call.arguments.push_str(&part.arguments);
            }
        }
        if let Some((tokens_in, tokens_out)) = self.usage {
            (turn.tokens_in, turn.tokens_out) = (tokens_in, tokens_out);
        }
        turn.cut |= self.finish == Some(true);
    }
}
