//! The Lua scripts that run inside the server, with typed requests and replies.
//!
//! Each script works on one key and reads the time of the server. Durations are relative in both
//! directions. A script is atomic, so two members never see half of a step.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{ErrorKind, RedisError, Script, ScriptInvocation, Value};

use crate::one_line::OneLine;

#[cfg(test)]
mod clock_laws;
mod cooldown;
#[cfg(test)]
mod fleet_laws;
#[cfg(test)]
mod laws;
mod learned;
mod lease;
mod limits;
#[cfg(test)]
mod live;
mod members;
/// Also for `lab/model`, which checks the protocol.
#[cfg(any(test, model))]
pub(crate) mod model;
mod probe;
/// Also for `lab/model`, whose walks run on a server.
#[cfg(any(test, model))]
pub(crate) mod real;
#[cfg(test)]
mod tests;
mod votes;

pub(crate) use cooldown::{HoldNotice, HoldReply, HoldRequest};
pub(crate) use learned::{Known, LearnedRequest, Report};
pub(crate) use lease::{LeaseReply, LeaseRequest};
pub(crate) use limits::{LimitsRequest, SetLimit};
pub(crate) use members::{JoinNotice, LeaveNotice, MemberReply, MemberRequest, SilenceNotice};
pub(crate) use probe::{ProbeReply, ProbeRequest, ProbeStep};
pub(crate) use votes::{VoteReply, VoteRequest};

/// A call of one script: its arguments and the form of its reply.
pub(crate) trait Request {
    /// The parsed reply.
    type Reply;
    /// The name of the script in errors.
    const NAME: &'static str;
    /// The text of the script without the clock.
    const TEXT: &'static str;

    /// Returns the script with the clock of the server.
    fn script() -> &'static Script;

    /// Returns the arguments in the order of the script.
    fn args(&self) -> Vec<String>;

    /// Parses the reply.
    fn parse(reply: &Value) -> Result<Self::Reply, ScriptError>;

    /// Returns the call for `key`, for [`run`] or for a pipeline.
    fn invocation(&self, key: &str) -> ScriptInvocation<'static> {
        let mut invocation = Self::script().key(key);
        for arg in self.args() {
            invocation.arg(arg);
        }
        invocation
    }
}

/// Runs the script of `request` on `key`. Loads the script if the server does not have it.
pub(crate) async fn run<R: Request>(
    connection: &mut impl ConnectionLike,
    key: &str,
    request: &R,
) -> Result<R::Reply, ScriptError> {
    let reply: Value = request.invocation(key).invoke_async(connection).await?;
    R::parse(&reply)
}

/// Runs the script on a server that is about to take over the slot of `key`.
pub(crate) async fn run_asking<R: Request>(
    connection: &mut impl ConnectionLike,
    key: &str,
    request: &R,
) -> Result<R::Reply, ScriptError> {
    // Both are one message, because the first one is a permission for the next command only.
    let mut pipe = redis::pipe();
    pipe.cmd("ASKING").ignore().cmd("EVAL").arg(text(R::TEXT)).arg(1).arg(key).arg(request.args());
    let (reply,): (Value,) = pipe.query_async(connection).await?;
    R::parse(&reply)
}

/// The reason why a script gave no result.
#[derive(Debug)]
pub(crate) enum ScriptError {
    /// The server refused the script, or did not answer.
    Server(RedisError),
    /// No server is known that has the key.
    Lost(String),
    /// The reply does not have the form that the script returns.
    Reply { script: &'static str, reply: String },
}

impl ScriptError {
    /// Returns whether the server has answered.
    pub(crate) fn is_answer(&self) -> bool {
        let is_reply = |kind| matches!(kind, ErrorKind::AuthenticationFailed | ErrorKind::Parse);
        match self {
            Self::Server(error) => error.code().is_some() || is_reply(error.kind()),
            Self::Lost(_) => false,
            Self::Reply { .. } => true,
        }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "{}: {}", what(error), OneLine(why(error))),
            Self::Lost(why) => write!(f, "the server is not found: {}", OneLine(why)),
            Self::Reply { script, reply } => {
                write!(f, "the script `{script}` returned an unexpected reply: {}", OneLine(reply))
            }
        }
    }
}

/// Says what an error tells of the server.
fn what(error: &RedisError) -> &'static str {
    match (error.kind(), error.code()) {
        (ErrorKind::Io, _) => "no connection to the server",
        (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS" | "NOAUTH")) => {
            "the server refused the login"
        }
        (ErrorKind::Parse, _) => "the answer is not that of a Redis server",
        _ => "the server did not run the script",
    }
}

/// Returns the words of an error. The parser has a line for each byte that it expects.
fn why(error: &RedisError) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::Parse, Some(detail)) => detail.lines().collect::<Vec<_>>().join(", "),
        _ => error.to_string(),
    }
}

impl Error for ScriptError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Server(error) => Some(error),
            Self::Lost(_) | Self::Reply { .. } => None,
        }
    }
}

impl From<RedisError> for ScriptError {
    fn from(error: RedisError) -> Self {
        Self::Server(error)
    }
}

/// The longest text of a reply in an error.
const REPLY_CHARS: usize = 200;

fn garbage(script: &'static str, reply: &Value) -> ScriptError {
    let mut short = Short { text: String::new(), left: REPLY_CHARS };
    // An `Err` says that the text was cut.
    if write!(short, "{reply:?}").is_err() {
        short.text.push('…');
    }
    ScriptError::Reply { script, reply: short.text }
}

/// Keeps the first characters of a text and refuses the rest.
struct Short {
    text: String,
    left: usize,
}

impl fmt::Write for Short {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let kept: String = part.chars().take(self.left).collect();
        self.left -= kept.chars().count();
        let all = kept.len() == part.len();
        self.text.push_str(&kept);
        if all { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Returns the `N` integers of a reply and the texts after them, or `None` if the reply has another
/// form.
fn integers_and_texts<const N: usize>(reply: &Value) -> Option<([i64; N], Vec<String>)> {
    let Value::Array(values) = reply else { return None };
    let (numbers, texts) = values.split_at_checked(N)?;
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    let texts = texts.iter().map(text).collect::<Option<_>>()?;
    Some((integers(&Value::Array(numbers.to_vec()))?, texts))
}

/// Returns the `N` integers of a reply, or `None` if the reply has another form.
fn integers<const N: usize>(reply: &Value) -> Option<[i64; N]> {
    let Value::Array(values) = reply else { return None };
    let mut integers = [0; N];
    if values.len() != N {
        return None;
    }
    for (integer, value) in integers.iter_mut().zip(values) {
        let Value::Int(value) = value else { return None };
        *integer = *value;
    }
    Some(integers)
}

fn flag(value: i64) -> Option<bool> {
    match value {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Returns a duration in units of `unit` nanoseconds, rounded up. A short time is never 0, because
/// 0 has a meaning of its own in each script. The scripts bound the value.
fn rounded_up(duration: Duration, unit: u128) -> String {
    duration.as_nanos().div_ceil(unit).to_string()
}

fn micros(duration: Duration) -> String {
    rounded_up(duration, 1_000)
}

fn from_micros(value: i64) -> Option<Duration> {
    u64::try_from(value).ok().map(Duration::from_micros)
}

/// The steady time, which each script has between its clock and its own text.
const STEADY: &str = include_str!("steady.lua");

/// Returns the whole text of a script: the clock and its own text.
fn text(own: &str) -> String {
    [include_str!("clock.lua"), STEADY, own].concat()
}

fn build(own: &str) -> Script {
    Script::new(&text(own))
}
