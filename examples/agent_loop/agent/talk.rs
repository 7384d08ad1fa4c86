//! What the loop, the model and the tools say to each other.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Event;

/// One message of the prompt.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    System(String),
    User(String),
    Assistant { text: String, calls: Vec<Call> },
    Tool { call: String, text: String },
}

/// A tool call, as the model wrote it: the arguments are not yet known to be JSON.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// One whole answer of the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    /// The model ran into its limit of tokens: the last call may be half a call.
    pub(crate) cut: bool,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
}

/// What the model is told of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// A JSON schema.
    pub(crate) parameters: Value,
}

/// What a model is asked, and whom it tells how that goes.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) messages: &'a [Message],
    pub(crate) tools: &'a [Spec],
    pub(crate) token: &'a CancellationToken,
    pub(crate) emit: &'a (dyn Fn(Event) + Send + Sync),
}

/// Whatever answers. Faults that pass are its own to retry: what it returns is final.
pub(crate) trait Model: Send + Sync {
    fn turn<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Turn, ModelError>>;
}

/// What a failed call to the model means for the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Our token.
    Stopped,
    /// It answered, and the answer cannot be used: ask again.
    Unusable,
    /// The prompt is too long: shrink it.
    TooLong,
    /// Nothing was sent, as the breaker is open.
    Down,
    /// Anything else. Trying again is over, or would not help.
    Failed,
}

/// A call to the model that failed for good.
#[derive(Clone, Debug)]
pub(crate) struct ModelError {
    pub(crate) fault: Fault,
    pub(crate) kind: String,
    /// What made it that kind.
    pub(crate) rule: String,
    pub(crate) message: String,
    /// When it is worth coming back.
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

/// Something that the model may use.
pub(crate) trait Tool: Send + Sync {
    fn spec(&self) -> Spec;

    /// Whether doing it twice is as good as doing it once. Only then is it tried again.
    fn is_idempotent(&self) -> bool {
        false
    }

    /// Whether the arguments fit the schema; if not, what is wrong with them.
    fn check(&self, arguments: &Value) -> Result<(), String>;

    /// Does it, until the token says stop.
    fn run<'a>(
        &'a self,
        arguments: Value,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, ToolError>>;
}

/// Why a tool failed.
#[derive(Clone, Debug)]
pub(crate) enum ToolError {
    /// The same again may succeed.
    Transient(String),
    /// It will not.
    Permanent(String),
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Transient(why) | Self::Permanent(why)) = self;
        f.write_str(why)
    }
}
