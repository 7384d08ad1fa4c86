//! Makes the JSON of rustdoc.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::listing::Listing;

/// The package to document.
#[derive(Clone, Copy)]
pub struct Job {
    pub package: &'static str,
    pub arguments: &'static [&'static str],
    pub target: Option<&'static str>,
}

/// In the wrapper: the real rustdoc, and the folder for the JSON.
const REAL: &str = "RESILE_API_RUSTDOC";
const OUT: &str = "RESILE_API_OUT";

/// Runs rustdoc if this process was started by cargo in its place.
///
/// The JSON is unstable, so `RUSTC_BOOTSTRAP` must allow it. Only rustdoc may see that variable:
/// build scripts read it too, and cargo would build all dependencies again. Each listing has a
/// folder of its own, because cargo trusts the JSON of an earlier run.
pub fn wrapped() -> Option<ExitCode> {
    let (real, out) = (env::var_os(REAL)?, env::var_os(OUT)?);
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "-o") {
        arguments[at + 1] = out;
    }
    let ran = Command::new(real).args(arguments).env("RUSTC_BOOTSTRAP", "1").status();
    Some(match ran {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Fails if the Rust at hand is not that of the listings.
pub fn fits(here: &Path) -> Result<(), String> {
    let file = here.join("rust-toolchain.toml");
    let text = fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
    let wanted = text.split('"').nth(1).unwrap_or_default();
    let found = output(&["--version"])?;
    if found.split(' ').nth(1) == Some(wanted) {
        return Ok(());
    }
    Err(format!(
        "the listings are those of Rust {wanted}, and this is {found}: cd tests/api && cargo run"
    ))
}

/// Returns whether the Rust at hand has a target.
pub fn has(target: &str) -> Result<bool, String> {
    let sysroot = output(&["--print", "sysroot"])?;
    Ok(Path::new(&sysroot).join("lib/rustlib").join(target).join("lib").is_dir())
}

/// Documents the job and reads what is public.
pub fn listing(job: &Job) -> Result<Listing, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut folder = target.join("api");
    folder.push(job.arguments.concat() + job.target.unwrap_or_default());
    let real = Path::new(&output(&["--print", "sysroot"])?).join("bin/rustdoc");

    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&root).env("CARGO_TARGET_DIR", &target);
    command.env("RUSTDOC", env::current_exe().map_err(|why| why.to_string())?);
    command.env(REAL, real).env(OUT, &folder);
    command.args(["rustdoc", "--quiet", "--locked", "--lib", "-p", job.package]);
    command.args(job.arguments);
    if let Some(target) = job.target {
        command.args(["--target", target]);
    }
    command.args(["--", "-Z", "unstable-options", "--output-format", "json"]);
    let status = command.status().map_err(|why| format!("cargo rustdoc: {why}"))?;
    if !status.success() {
        return Err(format!("cargo rustdoc of {} failed", job.package));
    }
    Listing::read(&folder.join(job.package.replace('-', "_") + ".json"))
}

/// Returns what `rustc` prints.
fn output(arguments: &[&str]) -> Result<String, String> {
    let answer = Command::new("rustc").args(arguments).output();
    let answer = answer.map_err(|why| format!("rustc: {why}"))?;
    Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
}
