//! The messages between the loop, the model and the tools.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Event;

/// A message of the prompt.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    System(String),
    User(String),
    Assistant { text: String, calls: Vec<Call> },
    Tool { call: String, text: String },
}

/// A tool call as the model wrote it. Its arguments may be invalid JSON.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// A complete answer of the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    /// True if the model reached its limit of LLM tokens. The last call may then be incomplete.
    pub(crate) cut: bool,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
}

/// The description of a tool for the model.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The JSON schema of the arguments.
    pub(crate) parameters: Value,
}

/// A request to the model, with the function that receives its events.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) messages: &'a [Message],
    pub(crate) tools: &'a [Spec],
    pub(crate) token: &'a CancellationToken,
    pub(crate) emit: &'a (dyn Fn(Event) + Send + Sync),
}

/// A model that answers prompts. It retries transient errors itself, so its errors are final.
pub(crate) trait Model: Send + Sync {
    /// Asks the model for its next answer.
    fn turn<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Turn, ModelError>>;
}

/// The class of a failed call to the model, as the loop needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The cancellation token stopped the call.
    Stopped,
    /// The answer is unusable. The loop asks again.
    Unusable,
    /// The prompt is too long. The loop shortens it.
    TooLong,
    /// The breaker is open, so the model is down.
    Down,
    /// Another error, after the last retry or without a retry.
    Failed,
}

/// An error of a call to the model after all its retries.
#[derive(Clone, Debug)]
pub(crate) struct ModelError {
    pub(crate) fault: Fault,
    pub(crate) kind: String,
    /// The rule that classified the failure.
    pub(crate) rule: String,
    pub(crate) message: String,
    /// The wait before the next call can succeed, if it is known.
    pub(crate) retry_after: Option<Duration>,
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [kind {}, rule {}", self.message, self.kind, self.rule)?;
        if let Some(after) = self.retry_after {
            write!(f, ", come back in {:.1} s", after.as_secs_f64())?;
        }
        f.write_str("]")
    }
}

/// A tool for the model.
pub(crate) trait Tool: Send + Sync {
    /// Returns the description of the tool.
    fn spec(&self) -> Spec;

    /// Returns true if a second run does no harm. Only idempotent tools are retried.
    fn is_idempotent(&self) -> bool {
        false
    }

    /// Checks the arguments against the schema.
    ///
    /// # Errors
    ///
    /// Returns the reason if the arguments do not fit.
    fn check(&self, arguments: &Value) -> Result<(), String>;

    /// Runs the tool until its end, or until the token is cancelled.
    fn run<'a>(
        &'a self,
        arguments: Value,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, ToolError>>;
}

/// An error of a tool.
#[derive(Clone, Debug)]
pub(crate) enum ToolError {
    /// A retry may succeed. Nobody knows whether the tool has acted.
    Transient(String),
    /// A retry will not succeed. The tool has not acted.
    Permanent(String),
    /// A retry will not succeed. Nobody knows whether the tool has acted.
    Panicked(String),
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Transient(why) | Self::Permanent(why) | Self::Panicked(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for ToolError {}
