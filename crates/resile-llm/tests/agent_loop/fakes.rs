//! A model that answers from a script, and a tool that behaves as configured.

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
pub(crate) enum Answer {
    Turn(Turn),
    Error(ModelError),
    /// Stays pending until the token is cancelled.
    Hangs,
    /// Stays pending for ever and ignores the token.
    IgnoresToken,
    /// Returns a turn after this many failures, which it retries itself.
    Retried(u32, Turn),
    Panics,
}

/// Answers from a script and repeats the last answer for ever.
#[derive(Clone)]
pub(crate) struct FakeModel {
    script: Arc<Mutex<VecDeque<Answer>>>,
    pub(crate) calls: Arc<AtomicU32>,
    /// The last prompt.
    pub(crate) prompt: Arc<Mutex<Vec<Message>>>,
}

impl FakeModel {
    pub(crate) fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        let script = Arc::new(Mutex::new(script.into_iter().collect()));
        Self { script, calls: Arc::default(), prompt: Arc::default() }
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the whole text of the last prompt.
    pub(crate) fn prompt(&self) -> String {
        format!("{:?}", self.prompt.lock().unwrap())
    }
}

impl Model for FakeModel {
    fn turn<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Turn, ModelError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        *self.prompt.lock().unwrap() = ask.messages.to_vec();
        let answer = {
            let mut script = self.script.lock().unwrap();
            let answer = script.pop_front().expect("the script is not empty");
            if script.is_empty() {
                script.push_back(answer.clone());
            }
            answer
        };
        async move {
            match answer {
                Answer::Turn(turn) => Ok(turn),
                Answer::Error(error) => Err(error),
                Answer::Hangs => {
                    ask.token.cancelled().await;
                    Err(error(Fault::Stopped))
                }
                Answer::IgnoresToken => pending().await,
                Answer::Retried(failures, turn) => {
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
                Answer::Panics => panic!("the model is broken"),
            }
        }
        .boxed()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    Well,
    /// Fails this many times with a transient error, then succeeds.
    Flaky(u32),
    FailsForGood,
    Panics,
    /// Ends only after the token is cancelled, and then with a result.
    Late,
    /// Never ends and ignores the token.
    IgnoresToken,
}

/// The tool `probe`.
pub(crate) struct FakeTool {
    pub(crate) behaviour: Behaviour,
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
            match self.behaviour {
                Behaviour::Flaky(failures) if run < failures => {
                    Err(ToolError::Transient("busy".to_owned()))
                }
                Behaviour::Well | Behaviour::Flaky(_) => Ok("measured".to_owned()),
                Behaviour::FailsForGood => {
                    Err(ToolError::Permanent("rate limit, try again in 2 s".to_owned()))
                }
                Behaviour::Panics => panic!("out of range"),
                Behaviour::Late => {
                    token.cancelled().await;
                    Ok("too late".to_owned())
                }
                Behaviour::IgnoresToken => pending().await,
            }
        }
        .boxed()
    }
}

/// Creates an agent with one tool, and a counter of the tool's runs.
pub(crate) fn agent(
    model: &FakeModel,
    behaviour: Behaviour,
    is_idempotent: bool,
    limits: Limits,
) -> (Agent, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let tool = FakeTool { behaviour, is_idempotent, runs: Arc::clone(&runs) };
    (Agent::new(model.clone(), vec![Box::new(tool)], limits), runs)
}

pub(crate) fn plain(model: &FakeModel) -> Agent {
    agent(model, Behaviour::Well, false, Limits::new()).0
}

pub(crate) fn calls(name: &str, arguments: &str) -> Answer {
    Answer::Turn(turn(name, arguments))
}

pub(crate) fn turn(name: &str, arguments: &str) -> Turn {
    let call =
        Call { id: "call_1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
    Turn { calls: vec![call], ..Turn::default() }
}

pub(crate) fn probe() -> Answer {
    calls("probe", r#"{"n":1}"#)
}

pub(crate) fn done(success: bool) -> Answer {
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
