//! What the call tells, for a person to read: a line per event, and on a terminal one that counts down.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use resile::observe::{Event, EventKind};

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

    /// Shows what happened. `limit` is what an attempt may take.
    pub(crate) fn show(&self, event: &Event<'_>, limit: Duration) {
        let allowed = event.call.map_or(0, |call| call.allowed);
        match event.kind {
            EventKind::Started { attempt, .. } => {
                self.count_down(
                    limit,
                    format!("left for attempt {} of {allowed}", attempt.number()),
                );
            }
            EventKind::Held { attempt, by, delay: Some(delay), .. } => {
                self.count_down(
                    delay,
                    format!("until attempt {attempt}, held by the {}", by.as_str()),
                );
            }
            EventKind::Waiting { attempt, failure, delay, .. } => {
                let (elapsed, number) = (attempt.elapsed().as_secs_f64(), attempt.number());
                self.say(&format!("{elapsed:5.1}s  attempt {number} of {allowed}: {failure}"));
                let (health, next) = (failure.health(), number + 1);
                self.say(&format!(
                    "        {health}, so attempt {next} comes in {:.1}s",
                    delay.as_secs_f64()
                ));
                self.count_down(delay, format!("until attempt {next}"));
            }
            EventKind::Succeeded { attempt, elapsed, .. } => {
                self.live.finish_and_clear();
                self.say(&format!(
                    "{:5.1}s  answered, on attempt {attempt}",
                    elapsed.as_secs_f64()
                ));
            }
            EventKind::GaveUp { reason, elapsed, failure, .. } => {
                self.live.finish_and_clear();
                self.say(&format!("{:5.1}s  stopped, {reason}: {failure}", elapsed.as_secs_f64()));
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
