//! Shows the progress: a bar on a terminal, and a line for each tenth elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

const TEMPLATE: &str = "{wide_bar} {percent:>3} %  {human_pos} of {human_len} calls  {eta_precise}";

pub(crate) struct Panel {
    /// The bar is on stderr. `None` if stderr is not a terminal.
    bar: Option<ProgressBar>,
    calls: u64,
    tenths: u64,
    began: Instant,
}

impl Panel {
    pub(crate) fn new(calls: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(TEMPLATE).expect("a valid template");
            let bar = ProgressBar::new(calls).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, calls, tenths: 0, began: Instant::now() }
    }

    pub(crate) fn show(&mut self, done: u64) {
        if let Some(bar) = &self.bar {
            return bar.set_position(done);
        }
        let tenths = done * 10 / self.calls.max(1);
        if tenths > self.tenths {
            self.tenths = tenths;
            let took = self.began.elapsed().as_secs_f64();
            _ = writeln!(std::io::stderr(), "{:>3} %  {done} calls  {took:.1} s", tenths * 10);
        }
    }

    pub(crate) fn took(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Prints a line. A closed pipe (`| head -1`) does not stop the program.
pub(crate) fn print(line: &str) {
    _ = writeln!(std::io::stdout(), "{line}");
}
