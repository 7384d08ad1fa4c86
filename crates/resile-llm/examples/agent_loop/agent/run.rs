//! The steps of one run, and the reaction to each failure.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use resile::{RetryPolicy, Upstream, retry};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Agent, Ask, Call, Event, Fault, Message, ModelError, Spec, Tool, ToolError, Turn, WaitReporter,
    Who,
};

const SYSTEM: &str = "You work on a task with the tools you are given, one call at a time. \
    When the task is done, or cannot be done, call `done` and say truthfully whether it succeeded.";

/// The end of a run.
pub(super) enum End {
    Done { text: String, success: bool },
    Stopped,
    Error(String),
}

/// The state of one run.
pub(super) struct Run<'a> {
    agent: &'a Agent,
    token: CancellationToken,
    specs: Vec<Spec>,
    messages: Vec<Message>,
    /// The number of steps so far.
    pub(super) step: u32,
    /// The number of unusable answers in a row.
    reasks: u32,
    shrunk: bool,
    warned: Warned,
}

/// The last warning about the steps left.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Warned {
    No,
    Few,
    Critical,
}

/// The arguments of `done`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    text: String,
    success: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(agent: &'a Agent, task: &str, token: CancellationToken) -> Self {
        let done = Spec {
            name: "done",
            about: "Ends the task: with what came of it, and whether that is a success.",
            parameters: json!({
                "type": "object",
                "properties": { "text": { "type": "string" }, "success": { "type": "boolean" } },
                "required": ["text", "success"],
                "additionalProperties": false,
            }),
        };
        let specs = agent.tools.iter().map(|tool| tool.spec()).chain([done]).collect();
        let system = format!("{} {SYSTEM}", agent.role);
        let messages =
            vec![Message::System(system.trim_start().to_owned()), Message::User(task.to_owned())];
        Self {
            agent,
            token,
            specs,
            messages,
            step: 0,
            reasks: 0,
            shrunk: false,
            warned: Warned::No,
        }
    }

    pub(super) async fn steps(&mut self) -> End {
        let of = self.agent.limits.steps;
        while self.step < of {
            if self.token.is_cancelled() {
                return End::Stopped;
            }
            self.warn(of - self.step);
            self.step += 1;
            self.agent.emit(Event::Step { step: self.step, of });
            let answer = self.ask().await;
            // An answer after the stop has no effect.
            if self.token.is_cancelled() {
                return End::Stopped;
            }
            let ended = match answer {
                Ok(turn) => self.act(turn).await,
                Err(error) => self.mend(error),
            };
            if let Some(end) = ended {
                return end;
            }
        }
        End::Error(format!("not done within {of} steps"))
    }

    /// Asks the model. Asks the fallback model if the first one is down.
    async fn ask(&self) -> Result<Turn, ModelError> {
        let emit = |event| self.agent.emit(event);
        let ask =
            Ask { messages: &self.messages, tools: &self.specs, token: &self.token, emit: &emit };
        let mut model = self.agent.model.as_ref();
        let mut other = self.agent.fallback.as_deref();
        loop {
            let answer = tokio::select! {
                biased; // the model may still return an answer after the stop
                answer = model.turn(ask) => answer,
                () = self.token.cancelled() => return Err(stopped()),
            };
            match (answer, other.take()) {
                (Err(ModelError { fault: Fault::Down, .. }), Some(fallback)) => {
                    emit(Event::FellBack);
                    model = fallback;
                }
                (answer, _) => return answer,
            }
        }
    }

    /// Repairs the prompt after a failed call, or ends the run.
    fn mend(&mut self, error: ModelError) -> Option<End> {
        match error.fault {
            Fault::Stopped => Some(End::Stopped),
            Fault::Unusable => {
                let text = format!(
                    "Your answer could not be used: {}. Answer with a tool call.",
                    error.message
                );
                self.messages.push(Message::User(text));
                self.reask(error.message)
            }
            Fault::TooLong if !self.shrunk && (self.agent.shrink)(&mut self.messages) => {
                self.shrunk = true;
                self.agent.emit(Event::Shrunk { messages: self.messages.len() });
                None
            }
            Fault::TooLong | Fault::Down | Fault::Failed => Some(End::Error(error.to_string())),
        }
    }

    /// Runs the tool calls of an answer. Returns the end of the run, if the answer ends it.
    async fn act(&mut self, turn: Turn) -> Option<End> {
        let names = turn.calls.iter().map(|call| call.name.clone()).collect();
        let Turn { text, calls, cut, tokens_in, tokens_out } = turn;
        self.agent.emit(Event::Answer { text: text.clone(), calls: names, tokens_in, tokens_out });
        if cut || calls.is_empty() {
            let fault = if cut {
                "the answer was cut off, and no part of it was run"
            } else {
                "it contains no tool call"
            };
            // The prompt must not contain a cut call, since each call in a prompt needs a result.
            self.messages.push(Message::Assistant { text, calls: Vec::new() });
            self.observe(
                None,
                format!("Your answer could not be used: {fault}. Answer with one whole tool call."),
            );
            return self.reask(fault.to_owned());
        }
        self.messages.push(Message::Assistant { text, calls: calls.clone() });
        let mut fault = None;
        let mut progress = false;
        for call in calls {
            if call.name == "done" {
                match serde_json::from_str::<Done>(&call.arguments) {
                    Ok(Done { text, success }) => return Some(End::Done { text, success }),
                    Err(error) => {
                        fault =
                            Some(self.reject(
                                &call,
                                &format!("the arguments of 'done' are wrong: {error}"),
                            ));
                    }
                }
                continue;
            }
            let agent = self.agent;
            let Some(tool) = agent.tools.iter().find(|tool| tool.spec().name == call.name) else {
                let known = self.specs.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
                fault = Some(self.reject(
                    &call,
                    &format!("there is no tool '{}'; there are: {known}", call.name),
                ));
                continue;
            };
            let read =
                serde_json::from_str::<Value>(&call.arguments).map_err(|error| error.to_string());
            match read.and_then(|arguments| tool.check(&arguments).map(|()| arguments)) {
                Ok(arguments) => {
                    progress = true;
                    let Some(text) = self.run(tool.as_ref(), &call, arguments).await else {
                        return Some(End::Stopped);
                    };
                    self.observe(Some(&call), text);
                }
                Err(error) => {
                    fault = Some(self.reject(
                        &call,
                        &format!("the arguments of '{}' are wrong: {error}", call.name),
                    ));
                }
            }
            if self.token.is_cancelled() {
                return Some(End::Stopped);
            }
        }
        match fault {
            Some(fault) if !progress => self.reask(fault),
            _ => {
                self.reasks = 0;
                None
            }
        }
    }

    /// Runs a tool and returns its result or error as text for the model. Returns `None` after a
    /// stop.
    async fn run(&self, tool: &dyn Tool, call: &Call, arguments: Value) -> Option<String> {
        let (name, limits) = (call.name.clone(), self.agent.limits);
        self.agent.emit(Event::Tool { name: name.clone(), arguments: call.arguments.clone() });
        let emit = |event| self.agent.emit(event);
        let waits = WaitReporter::new(Who::Tool, &emit);
        let policy = if tool.is_idempotent() { limits.tool_policy } else { RetryPolicy::none() };
        // A tool classifies its own errors, so the policy ignores their text.
        let policy = policy
            .with_attempt_timeout(limits.tool)
            .with_classifier(|error: &ToolError| matches!(error, ToolError::Transient(_)));
        let attempt = |_| {
            let run = AssertUnwindSafe(tool.run(arguments.clone(), &self.token)).catch_unwind();
            run.map(|ended| ended.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))))
        };
        let upstream = Upstream::new(tool.spec().name);
        let ended = retry(attempt, policy, &self.token).on(upstream.observed_by(&waits)).await;
        match ended {
            Ok(_) if self.token.is_cancelled() => {
                self.agent.emit(Event::Discarded { name });
                None
            }
            Err(_) if self.token.is_cancelled() => None,
            Ok(text) => Some(text),
            Err(gave_up) => {
                let why = match (gave_up.cut(), gave_up.last()) {
                    (Some(cut), _) => format!("it {cut}"),
                    (None, Some(error)) => error.to_string(),
                    (None, None) => gave_up.to_string(),
                };
                // A second run of a mail that was sent sends a second mail.
                let is_final = matches!(gave_up.last(), Some(ToolError::Permanent(_)));
                let is_in_doubt = !tool.is_idempotent() && (gave_up.cut().is_some() || !is_final);
                Some(if is_in_doubt {
                    format!(
                        "Tool '{name}' may have acted: {why}. Do not run it again before you have checked that it did not."
                    )
                } else {
                    format!(
                        "Tool '{name}' failed because: {why}. Correct the input, try a different approach, or finish."
                    )
                })
            }
        }
    }

    /// Reports to the model that a call was not run, with the reason.
    fn reject(&mut self, call: &Call, fault: &str) -> String {
        self.observe(Some(call), format!("Not run: {fault}. Correct it and try again."));
        fault.to_owned()
    }

    /// Counts an unusable answer. Returns the end of the run after too many of them in a row.
    fn reask(&mut self, fault: String) -> Option<End> {
        let of = self.agent.limits.reasks;
        if self.reasks >= of {
            return Some(End::Error(format!(
                "no usable answer after {of} re-asks in a row: {fault}"
            )));
        }
        self.reasks += 1;
        self.agent.emit(Event::Reask { count: self.reasks, of, fault });
        None
    }

    /// Adds a text to the prompt: the result of `call`, or a remark.
    fn observe(&mut self, call: Option<&Call>, text: String) {
        self.agent.emit(Event::Observation { text: text.clone() });
        self.messages.push(match call {
            Some(call) => Message::Tool { call: call.id.clone(), text },
            None => Message::User(text),
        });
    }

    /// Warns the model once at five or fewer steps left, and once at two or fewer.
    fn warn(&mut self, left: u32) {
        let s = if left == 1 { "" } else { "s" };
        let (warned, text) = match left {
            0..=2 => (
                Warned::Critical,
                format!(
                    "Critical: Only {left} step{s} left! You must finish the task or call done immediately."
                ),
            ),
            3..=5 => (
                Warned::Few,
                format!(
                    "Only {left} steps remaining. Consider wrapping up or calling done with partial results."
                ),
            ),
            _ => return,
        };
        if self.warned < warned {
            self.warned = warned;
            self.observe(None, text);
        }
    }
}

/// Makes an error of a panic.
fn panicked(panic: &(dyn std::any::Any + Send)) -> ToolError {
    let words = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ToolError::Panicked(format!("it panicked: {}", words.unwrap_or("no message")))
}

/// Returns the error of a call that the token stopped.
fn stopped() -> ModelError {
    let of = |text: &str| text.to_owned();
    ModelError {
        fault: Fault::Stopped,
        kind: of("cancelled"),
        rule: of("token"),
        message: of("stopped"),
        retry_after: None,
    }
}
