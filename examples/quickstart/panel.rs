//! What the call tells, for a person to read: a line per event, and on a terminal one that counts down.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::iter::successors;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use resile::{Attempt, Event};

pub(crate) struct Panel {
    /// The live line. Where stdout is no terminal it is hidden, and the other lines are all there is.
    live: ProgressBar,
}

impl Panel {
    pub(crate) fn new() -> Self {
        let style = ProgressStyle::with_template("{spinner} {left}  {msg}").expect("a constant");
        let live = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
        live.set_style(style.with_key("left", left));
        Self { live }
    }

    /// A line that stays.
    pub(crate) fn say(&self, line: &str) {
        // A reader that has gone away (`| head -1`) is no reason to stop calling.
        self.live.suspend(|| _ = writeln!(std::io::stdout(), "{line}"));
    }

    /// An attempt starts.
    pub(crate) fn attempting(&self, attempt: Attempt, allowed: u32, limit: Duration) {
        self.count_down(limit, format!("left for attempt {} of {allowed}", attempt.number()));
    }

    /// Shows what happened.
    pub(crate) fn show<E: Error>(&self, event: &Event<'_, E>) {
        match event {
            Event::Failed { attempt, allowed, error, .. } => self.say(&format!(
                "{:5.1}s  attempt {} of {allowed}: {}",
                attempt.elapsed().as_secs_f64(),
                attempt.number(),
                words(error)
            )),
            Event::Waiting { attempt, delay, hint, cause, .. } => {
                let next = attempt.number() + 1;
                let asked = hint.map(|hint| format!(" (the server asked for {hint:?})")).unwrap_or_default();
                self.say(&format!("        {cause}, so attempt {next} comes in {:.1}s{asked}", delay.as_secs_f64()));
                self.count_down(*delay, format!("until attempt {next}"));
            }
            Event::Succeeded { attempts, elapsed, .. } => {
                self.live.finish_and_clear();
                self.say(&format!("{:5.1}s  answered, on attempt {attempts}", elapsed.as_secs_f64()));
            }
            Event::GaveUp { stop, elapsed, .. } => {
                self.live.finish_and_clear();
                self.say(&format!("{:5.1}s  stopped: {stop}", elapsed.as_secs_f64()));
            }
            _ => {}
        }
    }

    /// Gives the live line another subject, which takes at most `limit`.
    fn count_down(&self, limit: Duration, message: String) {
        self.live.set_length(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        self.live.reset_elapsed();
        self.live.set_message(message);
        self.live.enable_steady_tick(Duration::from_millis(100));
    }
}

/// The time left on the live line.
fn left(state: &ProgressState, line: &mut dyn std::fmt::Write) {
    let limit = Duration::from_millis(state.len().unwrap_or(0));
    _ = write!(line, "{:.1}s", limit.saturating_sub(state.elapsed()).as_secs_f64());
}

/// The error, and what lies at the bottom of it.
fn words(error: &impl Error) -> String {
    let mut words = error.to_string();
    if let Some(bottom) = successors(error.source(), |&error| error.source()).last() {
        _ = write!(words, ": {bottom}");
    }
    words
}
