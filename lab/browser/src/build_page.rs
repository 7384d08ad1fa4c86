//! Builds the page: one file of HTML with everything in it. It prints the path of the file.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wasm_bindgen_cli_support::Bindgen;

const TARGET: &str = "wasm32-unknown-unknown";
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = include_str!("../page/page.js");

fn main() -> Result<(), Box<dyn Error>> {
    let target = target_dir()?;
    let wasm = compile(&target)?;
    let mut bindgen = Bindgen::new();
    let mut bound = bindgen
        .input_path(wasm)
        .no_modules(true)?
        .typescript(false)
        .omit_default_module_path(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate_output()?;
    let bytes = bound.wasm_mut().emit_wasm();
    let parts = [
        ("/* style */", STYLE),
        ("/* bindings */", bound.js()),
        ("/* wasm */", &base64(&bytes)),
        ("/* script */", SCRIPT),
    ];
    let folder = target.join("browser");
    let path = folder.join("storm.html");
    fs::create_dir_all(&folder)?;
    fs::write(&path, fill(PAGE, &parts)?)?;
    println!("{}", path.display());
    Ok(())
}

/// Returns the target directory. Cargo has put this program into `debug` or `release` below it.
fn target_dir() -> Result<PathBuf, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let target = program.parent().and_then(Path::parent);
    Ok(target.ok_or("the program is not in a target directory")?.to_owned())
}

/// Compiles the library and returns the path of its wasm file.
fn compile(target: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--lib", "--profile", "page", "--target", TARGET])
        .args(["--manifest-path", MANIFEST, "--target-dir"])
        .arg(target)
        .status()?;
    if !status.success() {
        return Err(format!("the library does not compile for {TARGET}: {status}").into());
    }
    Ok(target.join(TARGET).join("page").join("resile_browser.wasm"))
}

/// Replaces each mark in the page by its part.
fn fill(page: &str, parts: &[(&str, &str)]) -> Result<String, Box<dyn Error>> {
    let mut filled = page.to_owned();
    for (mark, part) in parts {
        let (before, after) =
            filled.split_once(mark).ok_or_else(|| format!("the page has no {mark}"))?;
        filled = [before, part, after].concat();
    }
    Ok(filled)
}

/// Encodes bytes as text for JavaScript's `atob` (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        [0, 1, 2, 3].map(|at| {
            let digit = (bits >> (18 - 6 * at)) as usize % 64;
            if at <= three.len() { char::from(DIGITS[digit]) } else { '=' }
        })
    };
    bytes.chunks(3).flat_map(group).collect()
}
