//! Prints a progress bar while the models run, and tables of their figures.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use storm::claims::{Check, Verdict};

use crate::terminal::{bold, dim, green, red, wrap, yellow};

/// The steps of the bar for each claim.
const STEPS: f64 = 1000.0;

/// Prints a line. A closed pipe (`| head -1`) does not stop the program.
pub(crate) fn print(line: &str) {
    _ = writeln!(std::io::stdout(), "{line}");
}

pub(crate) struct Panel {
    /// The bar is on stderr. It is hidden if stderr is not a terminal.
    bar: ProgressBar,
}

impl Panel {
    pub(crate) fn new(claims: usize) -> Self {
        let style =
            ProgressStyle::with_template("{wide_bar} {percent:>3} %  {elapsed_precise}  {msg}")
                .expect("a valid template");
        let bar = ProgressBar::new(claims as u64 * STEPS as u64).with_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Shows the progress: the number of finished claims and the finished share of the next one.
    pub(crate) fn show(&self, done: usize, share: f64, name: &str) {
        self.bar.set_message(name.to_owned());
        self.bar.set_position(((done as f64 + share) * STEPS) as u64);
    }

    /// Prints lines. They stay on the screen.
    pub(crate) fn say(&self, lines: &str) {
        self.bar.suspend(|| lines.split('\n').for_each(|line| print(&wrap(line, 4))));
    }

    /// Prints the table of a claim.
    pub(crate) fn table(&self, title: &str, took: Duration, checks: &[Check]) {
        let took = dim(format!("({:.1} s)", took.as_secs_f64()));
        self.say(&format!("\n{} {took}\n{}", bold(title), dim(Check::header())));
        for check in checks {
            let (row, verdict) = (check.to_string(), check.verdict());
            let painted = match verdict {
                Verdict::Holds => green(verdict.name()),
                Verdict::OutcomeOnly => yellow(verdict.name()),
                Verdict::Fails => red(verdict.name()),
            };
            // The verdict is the last such word of a row.
            let (before, after) = row.rsplit_once(verdict.name()).unwrap_or((&row, ""));
            self.say(&format!("{before}{painted}{after}"));
        }
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
