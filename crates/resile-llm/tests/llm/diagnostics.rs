//! The words of the compiler if the classifier gets an error that is no `Error`, and if a bill gets a parsed body.
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

const PARSED: &str = "
pub async fn mistake(bill: &resile_llm::Bill) {
    let _ = bill.note(async { Ok(serde_json::Value::Null) }).await;
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

/// Returns what the compiler says of a mistake.
fn said_of(name: &str, mistake: &str) -> String {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(name);
    fs::write(&source, mistake).unwrap();
    let externs = ["resile", "resile_llm", "anyhow", "serde_json"]
        .map(|name| format!("--extern={name}={}", library(deps, name).display()));
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata"])
        .arg("--out-dir")
        .arg(folder)
        .arg("-L")
        .arg(deps)
        .args(externs)
        // The compiler shows lines of a library whose path it finds.
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .arg(&source)
        .output()
        .unwrap();
    String::from_utf8(output.stderr).unwrap()
}

/// The bound has the remedy beside it, because the compiler shows this line.
#[test]
#[ignore = "the words of the compiler differ between its versions"]
fn the_compiler_says_when_to_parse_a_body() {
    let words = said_of("llm_parsed.rs", PARSED);
    assert!(
        words.contains("B: AsRef<[u8]>, // the bytes of the body: parse them after `note`"),
        "{words}"
    );
}

/// Without the attribute on its implementation the compiler would ask for `anyhow::Error: Error`.
#[test]
#[ignore = "the words of the compiler differ between its versions"]
fn the_compiler_names_the_classifier_and_the_error() {
    let words = said_of("llm_mistake.rs", MISTAKE);
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
