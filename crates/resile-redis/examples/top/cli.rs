//! The command line. Each error is one line.

use std::ffi::OsString;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Prints the members of a fleet, with their leases, levels, claims and holds.

usage: top URL [prefix] [options]
  URL      the server, such as redis://127.0.0.1:6379
  prefix   the start of the keys (resile)
  --watch  prints again every second

exit code: 0 printed, 2 usage, 3 no answer";

/// The arguments of the command line.
pub(crate) struct Options {
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) watches: bool,
    /// True if only the help is printed.
    pub(crate) helps: bool,
}

impl Options {
    /// Parses the arguments.
    ///
    /// # Errors
    ///
    /// Returns the error in one line.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let (mut words, mut watches, mut helps) = (Vec::new(), false, false);
        let mut parser = lexopt::Parser::from_args(arguments);
        let wrong = |error: lexopt::Error| error.to_string();
        while let Some(argument) = parser.next().map_err(wrong)? {
            match argument {
                Long("watch") => watches = true,
                Short('h') | Long("help") => helps = true,
                Value(word) if words.len() < 2 => words.push(word.string().map_err(wrong)?),
                other => return Err(other.unexpected().to_string()),
            }
        }
        let mut words = words.into_iter();
        let url = words.next();
        if url.is_none() && !helps {
            return Err("no URL: use redis://127.0.0.1:6379, or --help".to_owned());
        }
        let prefix = words.next().unwrap_or_else(|| "resile".to_owned());
        Ok(Self { url: url.unwrap_or_default(), prefix, watches, helps })
    }
}

/// Returns the words for the server at an address: its URL without a user, a password and parameters.
pub(crate) fn server(url: &str, address: &str) -> String {
    let scheme = url.split_once("://").map_or("redis", |(scheme, _)| scheme);
    format!("{scheme}://{address}")
}
