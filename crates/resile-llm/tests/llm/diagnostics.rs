//! The words of the compiler if the classifier gets an error that is no `Error`.
//!
//! The words differ between versions of the compiler, so `cargo test` alone does not run this test:
//!
//! ```sh
//! cargo test -p resile-llm --test llm diagnostics -- --ignored
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MISTAKE: &str = "
use resile::{Never, RetryPolicy, retry};
async fn any() -> anyhow::Result<u32> { Ok(1) }
pub async fn mistake() {
    let policy = RetryPolicy::new().with_classifier(resile_llm::Classifier::new());
    let _ = retry(|_| any(), policy, Never);
}
";

/// Returns the newest library of this name beside this test.
fn library(deps: &Path, name: &str) -> PathBuf {
    let prefix = format!("lib{name}-");
    let found = fs::read_dir(deps).unwrap().map(|entry| entry.unwrap().path());
    let found = found.filter(|path| {
        path.extension().is_some_and(|extension| extension == "rlib")
            && path.file_name().unwrap().to_string_lossy().starts_with(&prefix)
    });
    let newest = found.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    newest.unwrap_or_else(|| panic!("no library `{name}` in {}", deps.display()))
}

/// Without the attribute on its implementation the compiler would ask for `anyhow::Error: Error`.
#[test]
#[ignore = "the words of the compiler differ between its versions"]
fn the_compiler_names_the_classifier_and_the_error() {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("llm_mistake.rs");
    fs::write(&source, MISTAKE).unwrap();
    let externs = ["resile", "resile_llm", "anyhow"]
        .map(|name| format!("--extern={name}={}", library(deps, name).display()));
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata"])
        .arg("--out-dir")
        .arg(folder)
        .arg("-L")
        .arg(deps)
        .args(externs)
        .arg(&source)
        .output()
        .unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    let top = words.lines().take(9).collect::<Vec<_>>().join("\n");
    let remedy = "`resile_llm::Classifier` cannot classify errors of type `anyhow::Error`";
    assert!(top.contains(remedy), "{words}");
    // The remedy compiles for this error.
    let over = ".over(|llm, error: &anyhow::Error| llm.verdict(&Failure::from_error_text(&error.to_string())))";
    assert!(words.contains(over), "{words}");
    let _ = resile_llm::Classifier::new().over(|llm, error: &anyhow::Error| {
        llm.verdict(&resile_llm::Failure::from_error_text(&error.to_string()))
    });
}
