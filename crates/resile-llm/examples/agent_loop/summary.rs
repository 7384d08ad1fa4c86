//! The totals of a run, counted from its events.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::agent::{Event, Who};

/// The totals of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    pub(crate) steps: u32,
    /// The calls to a model that made at least one attempt.
    pub(crate) calls: u32,
    pub(crate) attempts: u32,
    /// The waits for another attempt of the model that were not cut short.
    pub(crate) retries: u32,
    pub(crate) restarts: u32,
    pub(crate) reasks: u32,
    pub(crate) tools: u32,
    pub(crate) tool_retries: u32,
    /// The sum of all waits: `model_wait_ms`, `tool_wait_ms` and `held_ms`.
    pub(crate) waited_ms: u64,
    pub(crate) model_wait_ms: u64,
    pub(crate) tool_wait_ms: u64,
    pub(crate) held_ms: u64,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
    /// The number of failures of the model, by kind.
    pub(crate) failures: BTreeMap<String, u32>,
    pub(crate) failures_in_all: u32,
}

impl Summary {
    /// Counts the events of a run.
    pub(crate) fn of(history: &[Event]) -> Self {
        let mut summary = Self::default();
        for event in history {
            summary.add(event);
        }
        summary
    }

    fn add(&mut self, event: &Event) {
        match event {
            Event::Step { .. } => self.steps += 1,
            Event::Attempt { attempt, .. } => {
                self.attempts += 1;
                self.calls += u32::from(*attempt == 1);
            }
            Event::Failed { who: Who::Model, kind, .. } => {
                self.failures_in_all += 1;
                *self.failures.entry(kind.clone()).or_default() += 1;
            }
            Event::Waiting { who: Who::Model, wait_ms, .. } => {
                self.retries += 1;
                self.model_wait_ms += wait_ms;
            }
            Event::Waiting { who: Who::Tool, wait_ms, .. } => {
                self.tool_retries += 1;
                self.tool_wait_ms += wait_ms;
            }
            Event::WaitCut { who, attempt, held, left_ms } => {
                let (retries, waited) = match (who, held) {
                    (Who::Model, false) => (&mut self.retries, &mut self.model_wait_ms),
                    (Who::Model, true) => (&mut self.retries, &mut self.held_ms),
                    (Who::Tool, _) => (&mut self.tool_retries, &mut self.tool_wait_ms),
                };
                *retries -= u32::from(*attempt > 1);
                *waited = waited.saturating_sub(*left_ms);
            }
            Event::Held { wait_ms } => self.held_ms += wait_ms,
            Event::Restarted => self.restarts += 1,
            Event::Reask { .. } => self.reasks += 1,
            Event::Tool { .. } => self.tools += 1,
            Event::Answer { tokens_in, tokens_out, .. } => {
                self.tokens_in += tokens_in;
                self.tokens_out += tokens_out;
            }
            _ => {}
        }
        self.waited_ms = self.model_wait_ms + self.tool_wait_ms + self.held_ms;
    }

    /// Returns the totals as names and values for a person.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let (attempts, calls) = (self.attempts, count(self.calls, "call", "calls"));
        let retries = count(self.retries, "retry", "retries");
        let tools = count(self.tools, "run", "runs");
        let tool_retries = count(self.tool_retries, "retry", "retries");
        let kinds: Vec<_> = self.failures.iter().map(|(kind, n)| format!("{kind}={n}")).collect();
        let failures = match self.failures_in_all {
            0 => "none".to_owned(),
            all => format!("{all} ({})", kinds.join(", ")),
        };
        let waited = match self.waited_ms {
            0 => "never".to_owned(),
            all => format!(
                "{} = {} model + {} tools + {} cooldown",
                seconds(all),
                seconds(self.model_wait_ms),
                seconds(self.tool_wait_ms),
                seconds(self.held_ms)
            ),
        };
        vec![
            ("attempts", format!("{attempts} = {calls} to the model + {retries}")),
            ("failures", failures),
            ("re-asks", format!("{} of the model", self.reasks)),
            ("restarts", format!("{} of an answer that broke off", self.restarts)),
            ("tools", format!("{tools}, {tool_retries}")),
            ("waited", waited),
            ("tokens", format!("{} in, {} out", self.tokens_in, self.tokens_out)),
        ]
    }
}

/// Returns milliseconds as seconds with all their digits, so that printed times add up.
pub(crate) fn seconds(millis: u64) -> String {
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}

/// Returns a number with its noun, as in "1 retry" or "2 retries".
pub(crate) fn count(number: u32, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
