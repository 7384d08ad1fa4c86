//! The events of a run, for the listener and for the history.

use std::time::Duration;

use serde::Serialize;

use super::State;

/// An event of a run. Times are in whole milliseconds, so that printed times add up.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The run starts with these limits.
    Started { task: String, max_steps: u32, reasks: u32, tool_attempts: u32, wall_ms: u64 },
    /// A step starts. A step is one call to the model.
    Step { step: u32, of: u32 },
    /// An attempt of the call to the model starts.
    Attempt { attempt: u32, of: u32 },
    /// An attempt failed.
    Failed {
        who: Who,
        attempt: u32,
        of: u32,
        kind: String,
        /// The rule that classified the failure.
        rule: String,
        /// The words of the upstream, or the limit that ended the attempt.
        message: String,
        /// The wait that the upstream asked for. A classifier may lengthen the wait.
        asked_ms: Option<u64>,
    },
    /// The call waits before the next attempt, `attempt`.
    Waiting {
        who: Who,
        attempt: u32,
        of: u32,
        wait_ms: u64,
        /// The shortest wait that the verdict allows.
        hint_ms: Option<u64>,
        /// The health of the upstream, by the verdict.
        health: String,
    },
    /// The cooldown holds an attempt after the wait of the call.
    Held { wait_ms: u64 },
    /// A wait or a hold was cut short by `left_ms`. The attempt `attempt` has not started.
    WaitCut { who: Who, attempt: u32, held: bool, left_ms: u64 },
    /// A stream broke off. Its parts are dropped, and the answer starts again.
    Restarted,
    /// The breaker changed its state.
    Breaker { state: String },
    /// A call gave up.
    GaveUp { who: Who, attempts: u32, why: String },
    /// The model answered.
    Answer { text: String, calls: Vec<String>, tokens_in: u64, tokens_out: u64 },
    /// The answer of the model is unusable. The next prompt gives the reason.
    Reask { count: u32, of: u32, fault: String },
    /// A tool starts.
    Tool { name: String, arguments: String },
    /// A result or a remark for the model.
    Observation { text: String },
    /// The result of a tool came after the stop and was dropped.
    Discarded { name: String },
    /// The prompt was too long and was shortened to this many messages.
    Shrunk { messages: usize },
    /// The model is down. The fallback model takes the call.
    FellBack,
    /// The run ended.
    Ended { state: State, success: bool, text: String, steps: u32 },
}

/// The side that a call goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Who {
    Model,
    Tool,
}

/// Returns a duration in whole milliseconds. Saturates at `u64::MAX`.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
