//! Compares the public API of the packages with the listings in this folder, and the foreign crates
//! in it with `foreign.txt`.

mod foreign;
mod listing;
mod rustdoc;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use foreign::Allowed;
use listing::Listing;
use rustdoc::Job;

const HELP: &str = "\
resile-api [--clients] [--write]

Compares the public API with the listings resile.txt, resile-wasm.txt, resile-llm.txt, resile-redis.txt
and resile-tower.txt, and its foreign crates with foreign.txt. With --clients it does so with
resile-clients.txt alone, because the clients take minutes to build. With --write it writes the
listings. It exits with 1 if something differs.
";

const WASM: &str = "wasm32-unknown-unknown";

/// The command that makes new listings.
const WRITE: &str = "cd tests/api && cargo run -- --write, with --clients for resile-clients";

fn main() -> ExitCode {
    if let Some(code) = rustdoc::wrapped() {
        return code;
    }
    let (mut write, mut clients) = (false, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--write" => write = true,
            "--clients" => clients = true,
            _ => {
                print!("{HELP}");
                return ExitCode::from(2);
            }
        }
    }
    match if clients { checked_clients(write) } else { checked(write) } {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether the package of the clients is as listed.
fn checked_clients(write: bool) -> Result<bool, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    rustdoc::fits(here)?;
    let clients = Job { package: "resile-clients", arguments: &["--all-features"], target: None };
    let bare = rustdoc::listing(&Job { arguments: &["--no-default-features"], ..clients })?;
    let full = rustdoc::listing(&clients)?;
    let good = compared(&here.join("resile-clients.txt"), &full, write)?;
    let allowed = Allowed::read(&here.join("foreign.txt"))?;
    Ok(good && are_allowed(allowed.wrong("resile-clients", &full, &bare)))
}

/// Returns whether everything else is as listed.
fn checked(write: bool) -> Result<bool, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    rustdoc::fits(here)?;
    let allowed = Allowed::read(&here.join("foreign.txt"))?;

    let resile = Job { package: "resile", arguments: &["--all-features"], target: None };
    let full = rustdoc::listing(&resile)?;
    let bare = rustdoc::listing(&Job { arguments: &["--no-default-features"], ..resile })?;
    let redis = rustdoc::listing(&Job { package: "resile-redis", ..resile })?;
    let llm = Job { package: "resile-llm", ..resile };
    let bare_llm = rustdoc::listing(&Job { arguments: &["--no-default-features"], ..llm })?;
    let llm = rustdoc::listing(&llm)?;
    let tower = Job { package: "resile-tower", ..resile };
    let bare_tower = rustdoc::listing(&Job { arguments: &["--no-default-features"], ..tower })?;
    let tower = rustdoc::listing(&tower)?;
    let mut good = compared(&here.join("resile.txt"), &full, write)?;
    good &= compared(&here.join("resile-redis.txt"), &redis, write)?;
    good &= compared(&here.join("resile-llm.txt"), &llm, write)?;
    good &= compared(&here.join("resile-tower.txt"), &tower, write)?;
    let mut wrong = allowed.wrong("resile", &full, &bare);
    wrong.extend(allowed.wrong("resile-llm", &llm, &bare_llm));
    wrong.extend(allowed.wrong("resile-redis", &redis, &redis));
    wrong.extend(allowed.wrong("resile-tower", &tower, &bare_tower));

    // What only the target of browsers has.
    if rustdoc::has(WASM)? {
        let wasm = rustdoc::listing(&Job { target: Some(WASM), ..resile })?;
        wrong.extend(allowed.missing("resile", &wasm));
        good &= compared(&here.join("resile-wasm.txt"), &wasm.without(&full), write)?;
    } else {
        println!("resile-wasm.txt: not compared, because this Rust lacks the target {WASM}");
    }
    Ok(good && are_allowed(wrong))
}

/// Prints the foreign crates that are not allowed. Returns whether there are none.
fn are_allowed(mut wrong: Vec<String>) -> bool {
    wrong.sort();
    wrong.dedup();
    for line in &wrong {
        eprintln!("{line}");
    }
    wrong.is_empty()
}

/// Writes the listing, or prints how it differs from the file. Returns whether it is as in the file.
fn compared(file: &Path, listing: &Listing, write: bool) -> Result<bool, String> {
    let text = listing.text();
    let name = file.file_name().unwrap_or_default().display();
    if write {
        fs::write(file, text).map_err(|why| format!("{}: {why}", file.display()))?;
        println!("{name}: {} lines", listing.lines().count());
        return Ok(true);
    }
    let old = fs::read_to_string(file).unwrap_or_default();
    if old == text {
        println!("{name}: {} lines, as listed", listing.lines().count());
        return Ok(true);
    }
    eprintln!("the public API is not that of tests/api/{name}:");
    for line in listing::difference(&old, &text) {
        eprintln!("  {line}");
    }
    eprintln!("If that is wanted: {WRITE}");
    Ok(false)
}
