//! What a person sees: lines that stay, on a terminal a live one below them, and a summary. Or the events as JSON.

use std::io::Write as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::agent::{Event, Outcome, Who, millis};
use crate::summary::{Summary, seconds};

pub(crate) struct Panel {
    json: bool,
    /// Who answers.
    provider: String,
    began: Instant,
    /// Where stdout is no terminal it is hidden, and the other lines are all there is.
    live: ProgressBar,
}

impl Panel {
    pub(crate) fn new(json: bool, provider: String) -> Self {
        let target = if json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stdout() };
        let live = ProgressBar::with_draw_target(None, target);
        live.set_style(
            ProgressStyle::with_template("{spinner} {elapsed}  {msg}").expect("a constant"),
        );
        Self { json, provider, began: Instant::now(), live }
    }

    pub(crate) fn show(&self, event: &Event) {
        if self.json {
            let mut value = serde_json::to_value(event).unwrap_or(Value::Null);
            value["at_ms"] = json!(millis(self.began.elapsed()));
            self.print(&value.to_string());
            return;
        }
        if let Some(line) = self.line(event) {
            self.print(&format!("{:6.2}s  {line}", self.began.elapsed().as_secs_f64()));
        }
        match event {
            Event::Step { step, of } => self.now(format!("step {step} of {of}: asking")),
            Event::Attempt { attempt, of } if *attempt > 1 => {
                self.now(format!("attempt {attempt} of {of}"))
            }
            Event::Waiting { .. } => {
                self.now(self.line(event).unwrap_or_default().trim().to_owned())
            }
            Event::Tool { name, .. } => self.now(format!("running {name}")),
            Event::Ended { .. } => self.live.finish_and_clear(),
            _ => {}
        }
    }

    /// An event as a line that stays, if it is worth one.
    fn line(&self, event: &Event) -> Option<String> {
        Some(match event {
            Event::Started { task, max_steps, reasks, tool_attempts, wall_ms } => format!(
                "task: {task} (at most {max_steps} steps, {reasks} re-asks in a row, {tool_attempts} attempts of a tool, {} s)",
                wall_ms / 1000
            ),
            Event::Step { step, of } => format!("step {step} of {of}"),
            Event::Failed { attempt, of, kind, rule, message, .. } => {
                format!("  attempt {attempt} of {of}: {} [{kind}; {rule}]", short(message))
            }
            Event::Waiting { who, attempt, of, wait_ms, hint_ms, health } => {
                let who = if *who == Who::Model { self.provider.as_str() } else { "tool" };
                let least = hint_ms
                    .map(|hint| format!(" (at least {})", seconds(hint)))
                    .unwrap_or_default();
                format!(
                    "  waiting {}{least}, attempt {attempt} of {of}, {who} {health}",
                    seconds(*wait_ms)
                )
            }
            Event::Held { wait_ms } => format!("  held {} by the cooldown", seconds(*wait_ms)),
            Event::WaitCut { left_ms, .. } => {
                format!("  the wait was cut short, with {} left", seconds(*left_ms))
            }
            Event::Restarted => "  the answer broke off; it starts over".to_owned(),
            Event::Breaker { state } => format!("  breaker: {state}"),
            Event::GaveUp { attempts, why, .. } => format!("  gave up after {attempts}: {why}"),
            Event::Answer { calls, text, .. } if calls.is_empty() => {
                format!("  the model says {:?}", short(text))
            }
            Event::Answer { calls, .. } => format!("  the model calls {}", calls.join(", ")),
            Event::Reask { count, of, fault } => {
                format!("  re-ask {count} of {of}: {}", short(fault))
            }
            Event::Tool { name, arguments } => format!("  run {name} {}", short(arguments)),
            Event::Observation { text } => format!("  told the model: {}", short(text)),
            Event::Discarded { name } => format!("  {name} came too late; its result is dropped"),
            Event::Shrunk { messages } => format!("  the prompt was shrunk to {messages} messages"),
            Event::FellBack => "  the model is down; asking the other one".to_owned(),
            Event::Attempt { .. } | Event::Ended { .. } => return None,
        })
    }

    /// The end of it all, counted from the history. `breaker` and `budget` are the states of what outlives calls.
    pub(crate) fn finish(&self, outcome: &Outcome, history: &[Event], breaker: &str, budget: &str) {
        self.live.finish_and_clear();
        let summary = Summary::of(history);
        let elapsed = millis(self.began.elapsed());
        if self.json {
            let mut value = serde_json::to_value(&summary).unwrap_or(Value::Null);
            for (name, field) in [
                ("event", json!("summary")),
                ("state", json!(outcome.state)),
                ("success", json!(outcome.success)),
                ("text", json!(outcome.text)),
                ("breaker", json!(breaker)),
                ("budget", json!(budget)),
                ("elapsed_ms", json!(elapsed)),
            ] {
                value[name] = field;
            }
            return self.print(&value.to_string());
        }
        self.print("");
        self.print(&format!(
            "{}, success: {}, in {} steps and {}",
            outcome.state,
            outcome.success,
            outcome.steps,
            seconds(elapsed)
        ));
        self.print(&format!("  {}", outcome.text));
        for line in summary.lines() {
            self.print(&format!("  {line}"));
        }
        self.print(&format!("  breaker     {breaker}"));
        self.print(&format!("  budget      {budget}"));
    }

    fn print(&self, line: &str) {
        // A reader that has gone away (`| head -1`) is no reason to stop.
        self.live.suspend(|| {
            let mut out = std::io::stdout();
            _ = writeln!(out, "{line}").and_then(|()| out.flush());
        });
    }

    /// Gives the live line its subject.
    fn now(&self, subject: String) {
        self.live.reset_elapsed();
        self.live.set_message(subject);
        self.live.enable_steady_tick(Duration::from_millis(100));
    }
}

/// One line, not too long.
fn short(text: &str) -> String {
    const SHOWN: usize = 160;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SHOWN {
        line
    } else {
        line.chars().take(SHOWN).chain(['…']).collect()
    }
}
