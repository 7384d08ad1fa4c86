//! What a person sees: a bar while the models run, and a table of what they found.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::claims::Check;

/// Steps of the bar for each claim.
const STEPS: f64 = 1000.0;

/// A reader that has gone away (`| head -1`) is no reason to stop.
pub(crate) fn print(line: &str) {
    _ = writeln!(std::io::stdout(), "{line}");
}

pub(crate) struct Panel {
    /// On stderr, and hidden where that is no terminal.
    bar: ProgressBar,
}

impl Panel {
    pub(crate) fn new(claims: usize) -> Self {
        let style =
            ProgressStyle::with_template("{wide_bar} {percent:>3} %  {elapsed_precise}  {msg}")
                .expect("a constant");
        let bar = ProgressBar::new(claims as u64 * STEPS as u64).with_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// So many claims are done, and that share of the next.
    pub(crate) fn show(&self, done: usize, share: f64, name: &str) {
        self.bar.set_message(name.to_owned());
        self.bar.set_position(((done as f64 + share) * STEPS) as u64);
    }

    /// Lines that stay.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| print(line));
    }

    pub(crate) fn table(&self, title: &str, took: Duration, checks: &[Check]) {
        self.say(&format!("\n{title} ({:.1} s)\n{}", took.as_secs_f64(), Check::header()));
        for check in checks {
            self.say(&check.to_string());
        }
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
