//! The command line. Each error is one line.

use std::ffi::OsString;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Makes millions of calls on six upstreams with every part, with random faults,
cancellations, dropped futures, panics of foreign code and jumps of the clock.
No call waits for real. At the end it says what was conserved.

usage: soak [options]
  --calls N    the number of calls (10000000)
  --seed N     the seed of all random numbers (1)
  --threads N  the number of threads (1). One thread repeats every step from
               its seed, and its quotas are compared with their charges
  --every N    the number of calls between two checks at rest (1000)

exit code: 0 nothing is lost, 1 something is lost, 2 usage";

/// The arguments of the command line.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) calls: u64,
    pub(crate) seed: u64,
    pub(crate) threads: u64,
    pub(crate) every: u64,
    pub(crate) shows_help: bool,
}

impl Options {
    /// Parses the arguments.
    ///
    /// # Errors
    ///
    /// Returns the error in one line.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut options =
            Self { calls: 10_000_000, seed: 1, threads: 1, every: 1_000, shows_help: false };
        let mut parser = lexopt::Parser::from_args(arguments);
        let words = |error: lexopt::Error| error.to_string();
        while let Some(argument) = parser.next().map_err(words)? {
            let number = match argument {
                Long("calls") => &mut options.calls,
                Long("seed") => &mut options.seed,
                Long("threads") => &mut options.threads,
                Long("every") => &mut options.every,
                Short('h') | Long("help") => {
                    options.shows_help = true;
                    continue;
                }
                other => return Err(other.unexpected().to_string()),
            };
            *number = parser.value().and_then(|value| value.parse()).map_err(words)?;
        }
        if !(1..=256).contains(&options.threads) {
            return Err(format!("--threads: expected 1 to 256, not {}", options.threads));
        }
        options.every = options.every.max(1);
        Ok(options)
    }
}
