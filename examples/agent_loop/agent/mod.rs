//! An agent: it asks a model what to do next, does it, tells it what came of it, until the model says that it is done.
//!
//! It knows neither HTTP nor terminals: models and tools are traits, and what happens is told as [`Event`]s.
//!
//! | state | why |
//! |---|---|
//! | `completed` | the model called `done`, whether or not it calls that a success |
//! | `error` | it cannot go on: a model call failed for good, or one of the limits ran out |
//! | `stopped` | somebody said so |
//!
//! Every effort is bounded by a limit of its own: steps, re-asks, attempts of a tool, the time of a tool, the time of the
//! run. Attempts of a model call are the model's to bound.

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

/// What bounds a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Calls to the model.
    pub(crate) steps: u32,
    /// Answers in a row that cannot be used, and are asked for again.
    pub(crate) reasks: u32,
    /// How an idempotent tool is tried again.
    pub(crate) tool_policy: RetryPolicy,
    /// How long one attempt of a tool may take.
    pub(crate) tool: Duration,
    /// How long the whole run may take.
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

/// How a run ended. To have finished is not to have succeeded: it says both.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) state: State,
    pub(crate) success: bool,
    /// The model's last word, or what went wrong.
    pub(crate) text: String,
    pub(crate) steps: u32,
}

/// Why a task was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the task is empty")]
    Empty,
    #[error("a task is already running")]
    Running,
    #[error("the agent has been disposed of")]
    Disposed,
}

/// Makes a prompt shorter; whether it could.
pub(crate) type Shrink = fn(&mut Vec<Message>) -> bool;

pub(crate) struct Agent {
    model: Box<dyn Model>,
    fallback: Option<Box<dyn Model>>,
    tools: Vec<Box<dyn Tool>>,
    limits: Limits,
    role: String,
    shrink: Shrink,
    listener: Box<dyn Fn(&Event) + Send + Sync>,
    inner: Mutex<Inner>,
    /// The run that was last begun, and whether it still runs.
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

    /// Asked where the first model is down.
    pub(crate) fn with_fallback(mut self, model: impl Model + 'static) -> Self {
        self.fallback = Some(Box::new(model));
        self
    }

    /// Says what the agent is. It stands in the prompt before how the loop works.
    pub(crate) fn with_role(mut self, role: impl Into<String>) -> Self {
        self.role = role.into();
        self
    }

    /// What is done once, where the prompt is too long.
    pub(crate) fn with_shrink(mut self, shrink: Shrink) -> Self {
        self.shrink = shrink;
        self
    }

    /// Who is told, while it happens.
    pub(crate) fn with_listener(
        mut self,
        listener: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Box::new(listener);
        self
    }

    pub(crate) fn state(&self) -> State {
        self.inner().state
    }

    /// All that happened in the last run, or has so far.
    pub(crate) fn history(&self) -> Vec<Event> {
        self.inner().history.clone()
    }

    /// Works on a task until it is done, cannot be done, or is stopped. However it ends, that is the `Outcome`.
    ///
    /// Dropped unfinished, the run is stopped, and the agent free for the next.
    ///
    /// # Errors
    ///
    /// The [`Refusal`]: nothing was begun.
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

    /// Stops the run, if there is one, and returns when it has settled. Not to be awaited by a tool of the run itself.
    pub(crate) async fn stop(&self) {
        let mut runs = self.runs.subscribe();
        let (mine, running) = *runs.borrow_and_update();
        if !running {
            return;
        }
        let token = self.inner().token.clone();
        token.cancel();
        // The sender is ours, so it cannot have gone.
        _ = runs.wait_for(|(run, running)| *run != mine || !running).await;
    }

    /// Stops the run and allows no other. To say so twice is to say so once.
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

/// The one run there is. Dropped, it is over, as its last field says.
struct Running<'a> {
    agent: &'a Agent,
    token: CancellationToken,
    ends_as: State,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.token.cancel(); // whoever still holds it is to stop
        self.agent.inner().state = self.ends_as;
        self.agent.runs.send_modify(|(_, running)| *running = false);
    }
}
