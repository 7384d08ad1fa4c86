//! An agent. It asks a model for the next action, runs the action, and reports the result to the
//! model. It repeats this loop until the model calls `done`.
//!
//! The agent knows neither HTTP nor terminals. Models and tools are traits, and the agent reports
//! its progress as [`Event`]s.
//!
//! | state | reason |
//! |---|---|
//! | `completed` | the model called `done`, with success or without |
//! | `error` | a call to the model failed for good, or a limit ran out |
//! | `stopped` | a caller stopped the run |
//!
//! Each effort has a limit: steps, re-asks, attempts of a tool, the time of a tool, the time of the
//! run. The model itself limits the attempts of its calls.

mod event;
mod run;
mod talk;
mod waits;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use resile::{Backoff, RetryPolicy};
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use event::{Event, Who, millis};
use run::{End, Run};
pub(crate) use talk::{Ask, Call, Fault, Message, Model, ModelError, Spec, Tool, ToolError, Turn};
pub(crate) use waits::WaitReporter;

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of calls to the model.
    pub(crate) steps: u32,
    /// The number of unusable answers in a row that the agent asks for again.
    pub(crate) reasks: u32,
    /// The retry policy of idempotent tools.
    pub(crate) tool_policy: RetryPolicy,
    /// The time limit of one attempt of a tool.
    pub(crate) tool: Duration,
    /// The time limit of the whole run.
    pub(crate) wall: Duration,
}

impl Limits {
    pub(crate) const fn new() -> Self {
        Self {
            steps: 40,
            reasks: 3,
            tool_policy: RetryPolicy::new()
                .with_attempts(3)
                .with_backoff(Backoff::exponential(Duration::from_millis(300))),
            tool: Duration::from_secs(30),
            wall: Duration::from_secs(3600),
        }
    }
}

/// The state of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Idle,
    Running,
    Completed,
    Error,
    Stopped,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Stopped => "stopped",
        })
    }
}

/// The result of a run. A completed run is not always a success, so the result states both.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) state: State,
    pub(crate) success: bool,
    /// The last words of the model, or the error.
    pub(crate) text: String,
    pub(crate) steps: u32,
}

/// An error for a task that the agent did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the task is empty")]
    Empty,
    #[error("a task is already running")]
    Running,
    #[error("the agent has been disposed of")]
    Disposed,
}

/// A function that shortens a prompt. It returns false if it cannot.
pub(crate) type Shrink = fn(&mut Vec<Message>) -> bool;

/// An agent that runs one task at a time.
pub(crate) struct Agent {
    model: Box<dyn Model>,
    fallback: Option<Box<dyn Model>>,
    tools: Vec<Box<dyn Tool>>,
    limits: Limits,
    role: String,
    shrink: Shrink,
    listener: Box<dyn Fn(&Event) + Send + Sync>,
    inner: Mutex<Inner>,
    /// The number of the last run, and true while that run is active.
    runs: watch::Sender<(u64, bool)>,
}

struct Inner {
    state: State,
    disposed: bool,
    token: CancellationToken,
    history: Vec<Event>,
}

impl Agent {
    pub(crate) fn new(
        model: impl Model + 'static,
        tools: Vec<Box<dyn Tool>>,
        limits: Limits,
    ) -> Self {
        let inner = Inner {
            state: State::Idle,
            disposed: false,
            token: CancellationToken::new(),
            history: Vec::new(),
        };
        Self {
            model: Box::new(model),
            fallback: None,
            tools,
            limits,
            role: String::new(),
            shrink: |_| false,
            listener: Box::new(|_| ()),
            inner: Mutex::new(inner),
            runs: watch::Sender::new((0, false)),
        }
    }

    /// Sets the model to ask while the first model is down.
    pub(crate) fn with_fallback(mut self, model: impl Model + 'static) -> Self {
        self.fallback = Some(Box::new(model));
        self
    }

    /// Sets the role of the agent. The prompt begins with the role.
    pub(crate) fn with_role(mut self, role: impl Into<String>) -> Self {
        self.role = role.into();
        self
    }

    /// Sets the function that shortens a prompt. A run calls it once, if the prompt is too long.
    pub(crate) fn with_shrink(mut self, shrink: Shrink) -> Self {
        self.shrink = shrink;
        self
    }

    /// Sets the function that receives each event as it happens.
    pub(crate) fn with_listener(
        mut self,
        listener: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Box::new(listener);
        self
    }

    /// Returns the state of the agent.
    pub(crate) fn state(&self) -> State {
        self.inner().state
    }

    /// Returns the events of the current run, or of the last run.
    pub(crate) fn history(&self) -> Vec<Event> {
        self.inner().history.clone()
    }

    /// Works on a task until the task is completed, fails, or is stopped.
    ///
    /// # Errors
    ///
    /// Returns a [`Refusal`] if the agent does not start the task.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the run. The agent can then take the next task.
    pub(crate) async fn execute(&self, task: &str) -> Result<Outcome, Refusal> {
        let mut running = self.begin(task)?;
        let limits = &self.limits;
        self.emit(Event::Started {
            task: task.to_owned(),
            max_steps: limits.steps,
            reasks: limits.reasks,
            tool_attempts: limits.tool_policy.attempts(),
            wall_ms: millis(limits.wall),
        });
        let mut run = Run::new(self, task, running.token.clone());
        let end = AssertUnwindSafe(tokio::time::timeout(self.limits.wall, run.steps()))
            .catch_unwind()
            .await;
        let end = match end {
            Ok(Ok(end)) => end,
            Ok(Err(_)) => End::Error(format!("not done within {:?}", self.limits.wall)),
            Err(_) => End::Error("the model panicked".to_owned()),
        };
        let steps = run.step;
        let (state, success, text) = match end {
            End::Done { text, success } => (State::Completed, success, text),
            End::Stopped => (State::Stopped, false, "stopped".to_owned()),
            End::Error(text) => (State::Error, false, text),
        };
        self.emit(Event::Ended { state, success, text: text.clone(), steps });
        running.ends_as = state;
        Ok(Outcome { state, success, text, steps })
    }

    /// Stops the current run and returns after its end. Returns at once if no task runs. A tool
    /// must not wait for the stop of its own run.
    pub(crate) async fn stop(&self) {
        let mut runs = self.runs.subscribe();
        let (mine, running) = *runs.borrow_and_update();
        if !running {
            return;
        }
        let token = self.inner().token.clone();
        token.cancel();
        // `self` owns the sender, so the channel is open.
        _ = runs.wait_for(|(run, running)| *run != mine || !running).await;
    }

    /// Stops the current run and refuses all later tasks. A second call has no effect.
    pub(crate) async fn dispose(&self) {
        self.inner().disposed = true;
        self.stop().await;
    }

    fn begin(&self, task: &str) -> Result<Running<'_>, Refusal> {
        let mut inner = self.inner();
        match inner.state {
            _ if inner.disposed => return Err(Refusal::Disposed),
            State::Running => return Err(Refusal::Running),
            _ if task.trim().is_empty() => return Err(Refusal::Empty),
            _ => {}
        }
        inner.state = State::Running;
        inner.history.clear();
        inner.token = CancellationToken::new();
        let token = inner.token.clone();
        self.runs.send_modify(|(run, running)| (*run, *running) = (*run + 1, true));
        Ok(Running { agent: self, token, ends_as: State::Stopped })
    }

    fn emit(&self, event: Event) {
        (self.listener)(&event);
        self.inner().history.push(event);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The current run. Its drop ends the run with the state `ends_as`.
struct Running<'a> {
    agent: &'a Agent,
    token: CancellationToken,
    ends_as: State,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.token.cancel(); // stops tools that still hold the token
        self.agent.inner().state = self.ends_as;
        self.agent.runs.send_modify(|(_, running)| *running = false);
    }
}
