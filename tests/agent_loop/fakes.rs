//! A model that says what it is told to, and a tool that fails as it is told to.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use resile::{Backoff, RetryPolicy, Upstream, retry};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agent::{
    Agent, Ask, Call, Event, Fault, Limits, Message, Model, ModelError, Spec, Tool, ToolError,
    Turn, WaitReporter, Who,
};

#[derive(Clone, Debug)]
pub(crate) enum Says {
    Turn(Turn),
    Error(ModelError),
    /// Nothing, until the token.
    Hangs,
    /// Nothing, whatever the token says.
    Deaf,
    /// A turn, after so many failures that it retries itself.
    Retried(u32, Turn),
    Panics,
}

/// Says one thing after the other, and the last one for ever.
#[derive(Clone)]
pub(crate) struct FakeModel {
    script: Arc<Mutex<VecDeque<Says>>>,
    pub(crate) calls: Arc<AtomicU32>,
    /// What it was asked last.
    pub(crate) prompt: Arc<Mutex<Vec<Message>>>,
}

impl FakeModel {
    pub(crate) fn new(script: impl IntoIterator<Item = Says>) -> Self {
        let script = Arc::new(Mutex::new(script.into_iter().collect()));
        Self { script, calls: Arc::default(), prompt: Arc::default() }
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// All the text that it was asked last.
    pub(crate) fn prompt(&self) -> String {
        format!("{:?}", self.prompt.lock().unwrap())
    }
}

impl Model for FakeModel {
    fn turn<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Turn, ModelError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        *self.prompt.lock().unwrap() = ask.messages.to_vec();
        let says = {
            let mut script = self.script.lock().unwrap();
            let says = script.pop_front().expect("something to say");
            if script.is_empty() {
                script.push_back(says.clone());
            }
            says
        };
        async move {
            match says {
                Says::Turn(turn) => Ok(turn),
                Says::Error(error) => Err(error),
                Says::Hangs => {
                    ask.token.cancelled().await;
                    Err(error(Fault::Stopped))
                }
                Says::Deaf => pending().await,
                Says::Retried(failures, turn) => {
                    let backoff = Backoff::fixed(Duration::from_secs(1));
                    let policy =
                        RetryPolicy::new().with_attempts(failures + 1).with_backoff(backoff);
                    let waits = WaitReporter::new(Who::Model, ask.emit);
                    let attempt = |attempt: resile::Attempt| {
                        std::future::ready(if attempt.number() > failures {
                            Ok(())
                        } else {
                            Err("busy")
                        })
                    };
                    let fake = Upstream::new("fake");
                    let ended =
                        retry(attempt, policy, ask.token).on(fake.observed_by(&waits)).await;
                    ended.map(|()| turn).map_err(|_| error(Fault::Stopped))
                }
                Says::Panics => panic!("the model is broken"),
            }
        }
        .boxed()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    Well,
    /// So many transient failures, then well.
    Flaky(u32),
    FailsForGood,
    Panics,
    /// Ends only when it is stopped, and then with a result.
    Late,
    /// Never ends, whatever the token says.
    Deaf,
}

/// The tool `probe`.
pub(crate) struct FakeTool {
    pub(crate) does: Does,
    pub(crate) is_idempotent: bool,
    pub(crate) runs: Arc<AtomicU32>,
}

impl Tool for FakeTool {
    fn spec(&self) -> Spec {
        Spec { name: "probe", about: "", parameters: json!({}) }
    }

    fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        if arguments["n"].is_u64() { Ok(()) } else { Err("missing field `n`".to_owned()) }
    }

    fn run<'a>(
        &'a self,
        _: Value,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        async move {
            match self.does {
                Does::Flaky(failures) if run < failures => {
                    Err(ToolError::Transient("busy".to_owned()))
                }
                Does::Well | Does::Flaky(_) => Ok("measured".to_owned()),
                Does::FailsForGood => {
                    Err(ToolError::Permanent("rate limit, try again in 2 s".to_owned()))
                }
                Does::Panics => panic!("out of range"),
                Does::Late => {
                    token.cancelled().await;
                    Ok("too late".to_owned())
                }
                Does::Deaf => pending().await,
            }
        }
        .boxed()
    }
}

/// An agent with one tool, and how often that ran.
pub(crate) fn agent(
    model: &FakeModel,
    does: Does,
    is_idempotent: bool,
    limits: Limits,
) -> (Agent, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let tool = FakeTool { does, is_idempotent, runs: Arc::clone(&runs) };
    (Agent::new(model.clone(), vec![Box::new(tool)], limits), runs)
}

pub(crate) fn plain(model: &FakeModel) -> Agent {
    agent(model, Does::Well, false, Limits::new()).0
}

pub(crate) fn calls(name: &str, arguments: &str) -> Says {
    Says::Turn(turn(name, arguments))
}

pub(crate) fn turn(name: &str, arguments: &str) -> Turn {
    let call =
        Call { id: "call_1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
    Turn { calls: vec![call], ..Turn::default() }
}

pub(crate) fn probe() -> Says {
    calls("probe", r#"{"n":1}"#)
}

pub(crate) fn done(success: bool) -> Says {
    calls("done", &json!({ "text": "that is all", "success": success }).to_string())
}

pub(crate) fn error(fault: Fault) -> ModelError {
    let word = |word: &str| word.to_owned();
    ModelError {
        fault,
        kind: word("some_kind"),
        rule: word("some_rule"),
        message: word("some words"),
        retry_after: None,
    }
}

pub(crate) fn steps(agent: &Agent) -> usize {
    agent.history().iter().filter(|event| matches!(event, Event::Step { .. })).count()
}

pub(crate) fn observations(agent: &Agent) -> Vec<String> {
    let text = |event| if let Event::Observation { text } = event { Some(text) } else { None };
    agent.history().into_iter().filter_map(text).collect()
}
