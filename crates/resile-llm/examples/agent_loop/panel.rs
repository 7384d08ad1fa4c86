//! Prints the events of a run and its summary, for a person or as JSON. On a terminal, a live line
//! shows the current action below the other lines.

#[path = "../terminal/mod.rs"]
mod terminal;

use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::agent::{Event, Outcome, millis};
use crate::summary::{Summary, count, seconds};
use terminal::{bold, dim, green, red, wrap, yellow};

/// The columns of the time before each event.
const TIME: usize = 10;

pub(crate) struct Panel {
    json: bool,
    /// The name of the provider.
    provider: String,
    began: Instant,
    /// The time of the last holds in a row, in milliseconds. Many short holds make one line.
    held_ms: Mutex<u64>,
    /// The live line. It is hidden if stdout is not a terminal.
    live: ProgressBar,
}

impl Panel {
    pub(crate) fn new(json: bool, provider: String) -> Self {
        let target = if json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stdout() };
        let live = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{spinner} {elapsed}  {wide_msg}");
        live.set_style(style.expect("a valid template"));
        Self { json, provider, began: Instant::now(), held_ms: Mutex::new(0), live }
    }

    /// Prints an event.
    pub(crate) fn show(&self, event: &Event) {
        if self.json {
            let mut value = serde_json::to_value(event).unwrap_or(Value::Null);
            value["at_ms"] = json!(millis(self.began.elapsed()));
            self.print(&value.to_string());
            return;
        }
        let mut held_ms = self.held_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::Held { wait_ms } = event {
            *held_ms += wait_ms;
            return self.now("held by the cooldown".to_owned());
        }
        let held_ms = std::mem::take(&mut *held_ms);
        if held_ms > 0 {
            self.line(&format!("  held {} by the cooldown", seconds(held_ms)));
        }
        if let Some(line) = self.text(event) {
            self.line(&line);
        }
        match event {
            Event::Step { step, of } => self.now(format!("step {step} of {of}")),
            Event::Attempt { attempt, of } if *attempt > 1 => {
                self.now(format!("attempt {attempt} of {of}"));
            }
            Event::Waiting { attempt, wait_ms, .. } => {
                self.now(format!("waiting {} for attempt {attempt}", seconds(*wait_ms)));
            }
            Event::Tool { name, .. } => self.now(format!("running {name}")),
            Event::Ended { .. } => self.live.finish_and_clear(),
            _ => {}
        }
    }

    /// Returns the text of an event, if the event gets a line.
    fn text(&self, event: &Event) -> Option<String> {
        Some(match event {
            Event::Started { task, max_steps, reasks, tool_attempts, wall_ms } => format!(
                "task: {}\nprovider: {}\nlimits: {max_steps} steps, {reasks} re-asks in a row, \
                 {tool_attempts} attempts of a tool, {} s",
                bold(task),
                self.provider,
                wall_ms / 1000
            ),
            Event::Step { step, of } => bold(format!("step {step} of {of}")),
            Event::Failed { attempt, of, kind, message, .. } => {
                format!("  attempt {attempt} of {of}: {} ({})", yellow(kind), short(message))
            }
            Event::Waiting { attempt, wait_ms, hint_ms, health, .. } => {
                let (wait, health) = (seconds(*wait_ms), yellow(health));
                let hint = hint_ms.map(|hint| format!(" (hint {})", seconds(hint)));
                format!("  {health}: attempt {attempt} in {wait}{}", hint.unwrap_or_default())
            }
            Event::WaitCut { left_ms, .. } => {
                format!("  the wait was cut short with {} left", seconds(*left_ms))
            }
            Event::Restarted => "  the answer broke off and starts again".to_owned(),
            Event::Breaker { state } => format!("  breaker: {}", yellow(state)),
            Event::GaveUp { attempts, why, .. } => {
                format!("  gave up after {}: {why}", count(*attempts, "attempt", "attempts"))
            }
            // The other calls appear as a run of their tool, or as an error for the model.
            Event::Answer { calls, .. } if calls.iter().any(|name| name == "done") => {
                "  the model calls done".to_owned()
            }
            Event::Answer { calls, text, .. } if calls.is_empty() => {
                format!("  the model says {:?}", short(text))
            }
            // The lines before give the reason.
            Event::Reask { count, of, .. } => format!("  re-ask {count} of {of}"),
            Event::Tool { name, arguments } => format!("  run {name} {}", short(arguments)),
            Event::Observation { text } => format!("  to the model: {}", short(text)),
            Event::Discarded { name } => format!("  {name} ended after the stop: result dropped"),
            Event::Shrunk { messages } => format!("  prompt shortened to {messages} messages"),
            Event::FellBack => "  the model is down: asking the fallback model".to_owned(),
            Event::Answer { .. }
            | Event::Attempt { .. }
            | Event::Held { .. }
            | Event::Ended { .. } => return None,
        })
    }

    /// Prints the result of the run and its summary. `breaker` and `budget` are the final states.
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
        let state = outcome.state.to_string();
        let result = format!("{state}, success: {}", outcome.success);
        let result = if outcome.success { green(result) } else { red(result) };
        let steps = count(outcome.steps, "step", "steps");
        self.print(&format!("\n{result}, in {steps} and {}", seconds(elapsed)));
        if outcome.text != state {
            self.print(&wrap(&format!("  {}", outcome.text), 2));
        }
        let states = [("breaker", breaker.to_owned()), ("budget", budget.to_owned())];
        for (name, value) in summary.lines().into_iter().chain(states) {
            let name = dim(format!("{name:<10}"));
            self.print(&wrap(&format!("  {name}  {value}"), 14));
        }
    }

    /// Prints a text after the time. Its lines keep their indent when they are wrapped.
    fn line(&self, text: &str) {
        let time = dim(format!("{:6.2} s", self.began.elapsed().as_secs_f64()));
        let mut before = format!("{time}  ");
        for line in text.lines() {
            let indent = line.len() - line.trim_start().len();
            self.print(&wrap(&format!("{before}{line}"), TIME + indent + 2));
            before = " ".repeat(TIME);
        }
    }

    fn print(&self, line: &str) {
        // A closed pipe (`| head -1`) does not stop the run.
        self.live.suspend(|| {
            let mut out = std::io::stdout();
            _ = writeln!(out, "{line}").and_then(|()| out.flush());
        });
    }

    /// Restarts the live line with a new message.
    fn now(&self, message: String) {
        self.live.reset_elapsed();
        self.live.set_message(message);
        self.live.enable_steady_tick(Duration::from_millis(100));
    }
}

/// Returns the first 160 characters of a text on one line.
fn short(text: &str) -> String {
    const SHOWN: usize = 160;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SHOWN {
        line
    } else {
        line.chars().take(SHOWN).chain(['…']).collect()
    }
}
