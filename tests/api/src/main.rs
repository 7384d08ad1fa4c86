//! Compares the public API of the two crates with the listings in this folder, and the foreign crates
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
resile-api [--write]

Compares the public API with the listings resile.txt, resile-wasm.txt, resile-llm.txt,
resile-clients.txt, resile-redis.txt and resile-tower.txt, and its foreign crates with foreign.txt. With --write it
writes the listings. It exits with 1 if something differs.
";

const WASM: &str = "wasm32-unknown-unknown";

/// The command that makes new listings.
const WRITE: &str = "cd tests/api && cargo run -- --write";

fn main() -> ExitCode {
    if let Some(code) = rustdoc::wrapped() {
        return code;
    }
    let write = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [only] if only == "--write" => true,
        _ => {
            print!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match checked(write) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything is as listed.
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
    let clients = Job { package: "resile-clients", ..resile };
    let bare_clients = rustdoc::listing(&Job { arguments: &["--no-default-features"], ..clients })?;
    let clients = rustdoc::listing(&clients)?;
    let tower = Job { package: "resile-tower", ..resile };
    let bare_tower = rustdoc::listing(&Job { arguments: &["--no-default-features"], ..tower })?;
    let tower = rustdoc::listing(&tower)?;
    let mut good = compared(&here.join("resile.txt"), &full, write)?;
    good &= compared(&here.join("resile-redis.txt"), &redis, write)?;
    good &= compared(&here.join("resile-llm.txt"), &llm, write)?;
    good &= compared(&here.join("resile-clients.txt"), &clients, write)?;
    good &= compared(&here.join("resile-tower.txt"), &tower, write)?;
    let mut wrong = allowed.wrong("resile", &full, &bare);
    wrong.extend(allowed.wrong("resile-llm", &llm, &bare_llm));
    wrong.extend(allowed.wrong("resile-clients", &clients, &bare_clients));
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
    wrong.sort();
    wrong.dedup();
    for line in &wrong {
        eprintln!("{line}");
    }
    Ok(good && wrong.is_empty())
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
