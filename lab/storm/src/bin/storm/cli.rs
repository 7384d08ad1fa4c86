//! The command line. Each error is one line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;
use storm::claims::Size;

pub(crate) const HELP: &str = "\
Reproduces published claims about retries with models that use the crate.

usage: storm [options]
  --out DIR     the directory for the pictures (target/storm)
  --only CLAIM  runs this claim only; may be repeated
  --quick       fewer seeds and shorter runs, as in `cargo test`
  --list        prints the claims and what each of them shows

A row holds if the measured figure is within the tolerance of the published
figure. A row says \"outcome only\" if the figure differs, but the conclusion of
the claim still holds. The reason is below the row.

exit code: 0 no row fails, 1 a row fails, 2 usage, 3 a picture is not written";

/// The arguments of the command line.
pub(crate) struct Options {
    pub(crate) out: PathBuf,
    /// The claims to run. Empty means all.
    pub(crate) only: Vec<String>,
    pub(crate) size: Size,
    /// The text to print instead of a run.
    pub(crate) print: Option<Print>,
}

/// A text to print instead of a run.
#[derive(Clone, Copy)]
pub(crate) enum Print {
    Help,
    List,
}

impl Options {
    /// Parses the arguments.
    ///
    /// # Errors
    ///
    /// Returns the error in one line.
    pub(crate) fn read(
        arguments: impl IntoIterator<Item = OsString>,
        claims: &[&str],
    ) -> Result<Self, String> {
        let mut options = Self {
            out: PathBuf::from("target/storm"),
            only: Vec::new(),
            size: Size::Full,
            print: None,
        };
        let mut parser = lexopt::Parser::from_args(arguments);
        let words = |error: lexopt::Error| error.to_string();
        while let Some(argument) = parser.next().map_err(words)? {
            match argument {
                Long("out") => options.out = parser.value().map_err(words)?.into(),
                Long("only") => {
                    let name = parser.value().map_err(words)?;
                    let known = claims.iter().find(|claim| name == **claim);
                    let unknown = || {
                        format!(
                            "--only: expected one of {}, not \"{}\"",
                            claims.join(", "),
                            name.display()
                        )
                    };
                    options.only.push((*known.ok_or_else(unknown)?).to_owned());
                }
                Long("quick") => options.size = Size::Quick,
                Long("list") => options.print = Some(Print::List),
                Short('h') | Long("help") => options.print = Some(Print::Help),
                other => return Err(other.unexpected().to_string()),
            }
        }
        Ok(options)
    }

    /// Creates the directory for the pictures and writes a test file. So an error comes at once and
    /// not after minutes.
    ///
    /// # Errors
    ///
    /// Returns the error in one line.
    pub(crate) fn make_out(&self) -> Result<(), String> {
        let probe = self.out.join(".storm");
        let tried = std::fs::create_dir_all(&self.out)
            .and_then(|()| std::fs::write(&probe, ""))
            .and_then(|()| std::fs::remove_file(&probe));
        tried.map_err(|error| {
            format!("--out: cannot write to {:?}: {error}", self.out.to_string_lossy())
        })
    }
}
