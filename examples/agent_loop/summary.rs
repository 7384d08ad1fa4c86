//! What a run came to, counted from its events.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::agent::{Event, Who};

#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    pub(crate) steps: u32,
    /// Calls to a model that made an attempt, or more.
    pub(crate) calls: u32,
    pub(crate) attempts: u32,
    /// Waits for another attempt that were not cut short.
    pub(crate) retries: u32,
    pub(crate) restarts: u32,
    pub(crate) reasks: u32,
    pub(crate) tools: u32,
    pub(crate) tool_retries: u32,
    /// What was waited: for the model, for tools, for the cooldown.
    pub(crate) waited_ms: u64,
    pub(crate) model_wait_ms: u64,
    pub(crate) tool_wait_ms: u64,
    pub(crate) held_ms: u64,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
    /// How often each kind of failure came, of the model.
    pub(crate) failures: BTreeMap<String, u32>,
    pub(crate) failures_in_all: u32,
}

impl Summary {
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

    /// For a person: one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let failures: Vec<_> =
            self.failures.iter().map(|(kind, times)| format!("{kind} {times}")).collect();
        let failures = if failures.is_empty() { "none".to_owned() } else { failures.join(", ") };
        vec![
            format!("steps       {}", self.steps),
            format!(
                "attempts    {} = {} calls to the model + {} retries",
                self.attempts, self.calls, self.retries
            ),
            format!("failures    {}: {failures}", self.failures_in_all),
            format!("re-asks     {}; restarts of a broken answer {}", self.reasks, self.restarts),
            format!("tools       {} runs, {} retries", self.tools, self.tool_retries),
            format!(
                "waited      {} = {} for the model + {} for tools + {} held by the cooldown",
                seconds(self.waited_ms),
                seconds(self.model_wait_ms),
                seconds(self.tool_wait_ms),
                seconds(self.held_ms)
            ),
            format!("tokens      {} in, {} out", self.tokens_in, self.tokens_out),
        ]
    }
}

/// To the millisecond, so that what is shown adds up.
pub(crate) fn seconds(millis: u64) -> String {
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}
