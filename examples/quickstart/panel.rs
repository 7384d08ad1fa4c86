//! Prints the events of a call. On a terminal, a live line counts down below them.

#[path = "../terminal/mod.rs"]
mod terminal;

use std::fmt::Display;
use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use resile::StopReason;
use resile::observe::{AttemptFailure, Event, EventKind};

use terminal::{bold, dim, green, red, wrap, yellow};

/// The columns of the time before each event.
const TIME: usize = 8;

pub(crate) struct Panel {
    /// The live line. It is hidden if stdout is not a terminal.
    live: ProgressBar,
}

impl Panel {
    pub(crate) fn new() -> Self {
        let style = ProgressStyle::with_template("{spinner} {left}  {wide_msg}");
        let live = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
        live.set_style(style.expect("a valid template").with_key("left", left));
        Self { live }
    }

    /// Prints a line. It stays on the screen.
    pub(crate) fn say(&self, line: &str) {
        // A closed pipe (`| head -1`) does not stop the call.
        self.live.suspend(|| _ = writeln!(std::io::stdout(), "{}", wrap(line, TIME)));
    }

    /// Shows an event. `limit` is the attempt timeout.
    pub(crate) fn show(&self, event: &Event<'_>, limit: Duration) {
        let allowed = event.call.map_or(0, |call| call.allowed);
        match event.kind {
            EventKind::Started { attempt, .. } => {
                let attempt = attempt.number();
                self.count_down(limit, format!("left for attempt {attempt} of {allowed}"));
            }
            EventKind::Held { attempt, by, delay: Some(delay), .. } => {
                let by = by.as_str();
                self.count_down(delay, format!("until attempt {attempt}, held by the {by}"));
            }
            EventKind::Waiting { attempt, failure, delay, .. } => {
                let (number, next) = (attempt.number(), attempt.number() + 1);
                let health = yellow(failure.health());
                self.ended(attempt.elapsed(), number, allowed, yellow(reason(&failure)));
                let seconds = delay.as_secs_f64();
                self.say(&format!("{:TIME$}{health}: attempt {next} in {seconds:.1} s", ""));
                self.count_down(delay, format!("until attempt {next}"));
            }
            EventKind::Succeeded { attempt, elapsed, .. } => {
                self.live.finish_and_clear();
                self.ended(elapsed, attempt, allowed, green("answered"));
            }
            EventKind::GaveUp { reason: stop, attempts, elapsed, failure, .. } => {
                self.live.finish_and_clear();
                // After a cancellation, the last failure already has its line.
                if stop != StopReason::Cancelled {
                    self.ended(elapsed, attempts, allowed, red(reason(&failure)));
                }
            }
            _ => {}
        }
    }

    /// Prints the result of an attempt.
    fn ended(&self, elapsed: Duration, attempt: u32, allowed: u32, result: impl Display) {
        let time = dim(format!("{:4.1} s", elapsed.as_secs_f64()));
        let attempt = bold(format!("attempt {attempt} of {allowed}"));
        self.say(&format!("{time}  {attempt}: {result}"));
    }

    /// Restarts the live line with a new message and the time limit of the new state.
    fn count_down(&self, limit: Duration, message: String) {
        self.live.set_length(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        self.live.reset_elapsed();
        self.live.set_message(message);
        self.live.enable_steady_tick(Duration::from_millis(100));
    }
}

/// Returns the error of an attempt, or the limit that cut it.
fn reason(failure: &AttemptFailure<'_>) -> String {
    match (failure.cut, failure.error) {
        (Some(cut), _) => cut.to_string(),
        (None, error) => error.map(ToString::to_string).unwrap_or_default(),
    }
}

/// Writes the time left on the live line.
fn left(state: &ProgressState, line: &mut dyn std::fmt::Write) {
    let limit = Duration::from_millis(state.len().unwrap_or(0));
    _ = write!(line, "{:.1} s", limit.saturating_sub(state.elapsed()).as_secs_f64());
}
