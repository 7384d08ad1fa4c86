//! The command line. Each error is one line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Starts eight processes that call one provider with one rate limit, with and
without a fleet, and shows what the provider gets.

usage: fleet [options]
  --out DIR    the directory for the picture (target/fleet)
  --redis URL  a running server, such as redis://127.0.0.1:6379; without it the
               example starts `redis-server` or `valkey-server` on a free port
  --quick      shorter runs

The run with an outage kills the server, so it needs a server of its own.

exit code: 0 the fleet did better, 1 it did not, 2 usage or no server, 3 a
process or the picture failed";

/// The arguments of the command line.
pub(crate) struct Options {
    pub(crate) out: PathBuf,
    /// The URL of a running server. `None` starts one.
    pub(crate) redis: Option<String>,
    pub(crate) is_quick: bool,
    /// True if the help is printed instead of a run.
    pub(crate) helps: bool,
}

impl Options {
    /// Parses the arguments.
    ///
    /// # Errors
    ///
    /// Returns the error in one line.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let out = PathBuf::from("target/fleet");
        let mut options = Self { out, redis: None, is_quick: false, helps: false };
        let mut parser = lexopt::Parser::from_args(arguments);
        let words = |error: lexopt::Error| error.to_string();
        while let Some(argument) = parser.next().map_err(words)? {
            match argument {
                Long("out") => options.out = parser.value().map_err(words)?.into(),
                Long("redis") => {
                    let url = parser.value().and_then(ValueExt::string).map_err(words)?;
                    options.redis = Some(url);
                }
                Long("quick") => options.is_quick = true,
                Short('h') | Long("help") => options.helps = true,
                other => return Err(other.unexpected().to_string()),
            }
        }
        Ok(options)
    }

    /// Creates the directory for the picture and writes a test file. So an error comes at once and
    /// not after the runs.
    ///
    /// # Errors
    ///
    /// Returns the error in one line.
    pub(crate) fn make_out(&self) -> Result<(), String> {
        let probe = self.out.join(".fleet");
        let tried = std::fs::create_dir_all(&self.out)
            .and_then(|()| std::fs::write(&probe, ""))
            .and_then(|()| std::fs::remove_file(&probe));
        tried.map_err(|error| {
            format!("--out: cannot write to {:?}: {error}", self.out.to_string_lossy())
        })
    }
}
