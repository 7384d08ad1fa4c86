//! The command line. Whatever is wrong with it is said in one line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::claims::Size;

pub(crate) const HELP: &str = "\
Published claims about retries, reproduced as models that drive the crate's own types.

usage: storm [options]
  --out DIR     where the pictures go (target/storm)
  --only CLAIM  that claim alone; may be repeated
  --quick       fewer seeds and shorter runs, as in `cargo test`
  --list        the names of the claims

A row holds if the measured figure is within the tolerance beside the published one, and only then. It says
\"outcome only\" where the figure is not, but what the claim concludes from it holds; the reason is below it.

exit code: 0 no row fails, 1 one does, 2 usage, 3 a picture could not be written";

pub(crate) struct Options {
    pub(crate) out: PathBuf,
    /// None means all.
    pub(crate) only: Vec<String>,
    pub(crate) size: Size,
    /// Only this is to be printed.
    pub(crate) print: Option<Print>,
}

#[derive(Clone, Copy)]
pub(crate) enum Print {
    Help,
    List,
}

impl Options {
    /// # Errors
    ///
    /// What is wrong, in one line.
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
                    let unknown =
                        || format!("--only: expected one of {}, not {name:?}", claims.join(", "));
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

    /// Makes the directory for the pictures, and tries whether they can be written: better told now than after minutes.
    ///
    /// # Errors
    ///
    /// What is wrong, in one line.
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
