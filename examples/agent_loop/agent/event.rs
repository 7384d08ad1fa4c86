//! What happens, for those who watch, and for the history.

use std::time::Duration;

use serde::Serialize;

use super::State;

/// Times are in whole milliseconds, so that what is shown adds up.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// With what bounds it.
    Started {
        task: String,
        max_steps: u32,
        reasks: u32,
        tool_attempts: u32,
        wall_ms: u64,
    },
    /// A step, which is one call to the model.
    Step {
        step: u32,
        of: u32,
    },
    /// One attempt of that call.
    Attempt {
        attempt: u32,
        of: u32,
    },
    Failed {
        who: Who,
        attempt: u32,
        of: u32,
        kind: String,
        rule: String,
        message: String,
        /// How long the upstream itself asked to wait; a classifier may make more of it.
        asked_ms: Option<u64>,
    },
    /// `attempt` is the one that comes after the wait.
    Waiting {
        who: Who,
        attempt: u32,
        of: u32,
        wait_ms: u64,
        /// What the verdict asks for at least.
        hint_ms: Option<u64>,
        /// How the upstream is, by the verdict.
        health: String,
    },
    /// The cooldown holds an attempt back, after its own wait.
    Held {
        wait_ms: u64,
    },
    /// A wait was cut short, a hold or another one: so much of it was not waited. `attempt` has not begun.
    WaitCut {
        who: Who,
        attempt: u32,
        held: bool,
        left_ms: u64,
    },
    /// An answer broke off half-way; what came of it is dropped, and it starts over.
    Restarted,
    Breaker {
        state: String,
    },
    GaveUp {
        who: Who,
        attempts: u32,
        why: String,
    },
    Answer {
        text: String,
        calls: Vec<String>,
        tokens_in: u64,
        tokens_out: u64,
    },
    /// The model's answer could not be used, and it is told why.
    Reask {
        count: u32,
        of: u32,
        fault: String,
    },
    Tool {
        name: String,
        arguments: String,
    },
    /// What the model is told.
    Observation {
        text: String,
    },
    /// A tool's result came after the stop.
    Discarded {
        name: String,
    },
    Shrunk {
        messages: usize,
    },
    FellBack,
    Ended {
        state: State,
        success: bool,
        text: String,
        steps: u32,
    },
}

/// Whose call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Who {
    Model,
    Tool,
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
