//! The words of the compiler after common mistakes: its first lines say what to do.
//!
//! The words differ between versions of the compiler. So `.ci/run` runs this test with its own
//! version, and `cargo test` alone does not:
//!
//! ```sh
//! cargo test --test calls diagnostics -- --ignored
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The names that the mistakes use.
const HEAD: &str = "
#![allow(unused, dead_code)]
use resile::{classify::Always, *};
use std::{error, future::ready, io, sync::Arc};
static UP: Upstream = Upstream::new(\"up\");
const P: RetryPolicy = RetryPolicy::new();
type Boxed = Box<dyn error::Error + Send + Sync>;
#[derive(Debug)]
struct Own;
#[derive(Debug)]
struct Outer<E>(E);
impl<E: std::fmt::Display> std::fmt::Display for Outer<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { self.0.fmt(f) }
}
impl<E: error::Error> error::Error for Outer<E> {}
async fn any() -> anyhow::Result<u32> { Ok(1) }
async fn boxed() -> Result<u32, Boxed> { Ok(1) }
async fn words() -> Result<u32, String> { Ok(1) }
async fn own() -> Result<u32, Own> { Ok(1) }
async fn outer() -> Result<u32, Outer<Own>> { Ok(1) }
async fn number() -> u32 { 1 }
";

const INTO_BOXED: &str = "call `.map_err(GaveUp::into_boxed)`";
const WORDS: &str = "implement `Error` for it, or call `.on(upstream.display())`";
const IN_IT: &str = "`Outer<Own>` is an `Error` only if `Own` is one";
const TARGET: &str = "a target is `&Upstream`, `Arc<Upstream>`";
const TOKEN: &str = "pass `Never`, a `CancellationToken`, a `&CancellationToken` or `Drain` of one";
const OBSERVER: &str = "pairs nest: `(Log, (Metrics, watch))`";

/// The signature and the body of a function with a mistake, the words that name the remedy, and the
/// number of reports. The compiler checks a bound where a call is made, and again where it is
/// awaited. If both report, both name the remedy.
const MISTAKES: &[(&str, &str, &str, usize)] = &[
    ("anyhow::Result<u32>", "Ok(retry(|_| any(), P, Never).await?)", INTO_BOXED, 1),
    ("anyhow::Result<u32>", "Ok(retry(|_| boxed(), P, Never).on(&UP).await?)", INTO_BOXED, 1),
    ("anyhow::Result<u32>", "Ok(Run::new(P, Never).attempt(any()).await?.unwrap())", INTO_BOXED, 1),
    ("anyhow::Result<u32>", "Ok(UP.call(words(), Always).await?)", INTO_BOXED, 1),
    (
        "anyhow::Result<u32>",
        "Ok(hedge(|_| boxed(), HedgePolicy::new(), Never).await?)",
        INTO_BOXED,
        1,
    ),
    ("Result<u32, Boxed>", "Ok(retry(|_| words(), P, Never).await?)", INTO_BOXED, 1),
    (
        "Result<u32, Boxed>",
        "Ok(retry(|_| own(), P, Never).await?)",
        "implement `Error` for a type of your own",
        1,
    ),
    ("()", "let _ = retry(|_| own(), P, Never).on(&UP).await;", WORDS, 2),
    ("()", "let _ = retry(|_| own(), P, Never).on(\"name\").await;", WORDS, 2),
    ("()", "let _ = hedge(|_| own(), HedgePolicy::new(), Never).on(&UP).await;", WORDS, 2),
    ("()", "let _ = UP.call(own(), Always).await;", WORDS, 2),
    ("()", "let _ = retry(|_| outer(), P, Never).on(\"name\").await;", IN_IT, 2),
    ("()", "let _ = own().through(UP.at_cost(quota::Cost::new()), Always).await;", WORDS, 2),
    ("()", "let _ = retry(|_| words(), P, Never).on(Some(&UP));", TARGET, 1),
    ("()", "let _ = retry(|_| words(), P, Never).on(Upstream::new(\"own\")).await;", TARGET, 1),
    ("()", "let _ = retry(|_| words(), P, ());", TOKEN, 2),
    ("()", "let _ = UP.admit(Arc::new(Never));", TOKEN, 1),
    (
        "()",
        "let _ = retry(|_| words(), P.with_classifier(|e: &String| Some(true)), Never);",
        "return `bool`, `Verdict` or `Option<Verdict>`",
        1,
    ),
    (
        "()",
        "let _ = retry(|_| any(), P.with_classifier(http::Classifier::idempotent()), Never);",
        "cannot classify errors of type `anyhow::Error`",
        1,
    ),
    (
        "()",
        "let _ = retry(|_| any(), P.with_classifier(http::Classifier::idempotent()), Never);",
        "let the operation return the error of its client, such as the `Failure` of `resile::http`",
        1,
    ),
    (
        "()",
        "let _ = retry(|_| any(), P.with_classifier(http::Classifier::idempotent()), Never);",
        "applies by `.over(|classifier, error: &anyhow::Error| …)`",
        1,
    ),
    // The remedy of the two above compiles.
    (
        "()",
        "let _ = retry(|_| any(), P.with_classifier(http::Classifier::idempotent().over(|classifier, error: &anyhow::Error| classifier.unanswered())), Never);",
        "",
        0,
    ),
    (
        "()",
        "let _ = retry(|_| words(), P.with_classifier(7), Never);",
        "with its argument type written out",
        1,
    ),
    (
        "()",
        "let _ = retry(|_| words(), HedgePolicy::new(), Never);",
        "expected `RetryPolicy<_>`",
        1,
    ),
    (
        "()",
        "let _ = Upstream::new(\"u\").with_shared_observer((observe::Log, observe::Log, observe::Log));",
        OBSERVER,
        1,
    ),
    ("()", "let _ = Upstream::new(\"u\").with_observer(&(observe::Log, Own));", OBSERVER, 1),
    ("()", "let _ = Upstream::new(\"u\").with_shared_observer(Arc::new(Own));", OBSERVER, 1),
    // The remedy compiles.
    (
        "()",
        "let _ = Upstream::new(\"u\").with_shared_observer((observe::Log, (observe::Log, observe::Log)));",
        "",
        0,
    ),
    ("()", "let _ = retry(|_| number(), P, Never);", "expected `Result<_, _>`, found `u32`", 1),
    ("()", "let _ = retry(words(), P, Never);", "expected a `FnMut(Attempt)` closure", 1),
];

/// The number of lines of a report in which the remedy must stand.
const FIRST: usize = 9;

/// Returns the newest library of this name beside this test.
fn library(deps: &Path, name: &str) -> PathBuf {
    let prefix = format!("lib{name}-");
    let mut found: Vec<_> = fs::read_dir(deps)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rlib"))
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&prefix))
        .collect();
    found.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    found.pop().unwrap_or_else(|| panic!("no library `{name}` in {}", deps.display()))
}

#[test]
#[ignore = "the words of the compiler differ between its versions"]
fn the_compiler_names_the_remedy() {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("mistakes.rs");
    let mut program = HEAD.to_owned();
    let first = program.lines().count() + 1;
    for (at, (output, body, ..)) in MISTAKES.iter().enumerate() {
        writeln!(program, "async fn m{at}() -> {output} {{ {body} }}").unwrap();
    }
    fs::write(&source, program).unwrap();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata"])
        .arg("--out-dir")
        .arg(folder)
        .arg("-L")
        .arg(deps)
        .args(
            ["resile", "anyhow"]
                .map(|name| format!("--extern={name}={}", library(deps, name).display())),
        )
        .arg(&source)
        .output()
        .unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    let reports: Vec<_> =
        words.split("\n\n").filter(|report| report.starts_with("error")).collect();
    let line = |report: &&str| -> Option<usize> {
        report.split("mistakes.rs:").nth(1)?.split(':').next()?.parse().ok()
    };
    let mut faults = String::new();
    for (at, (_, body, remedy, count)) in MISTAKES.iter().enumerate() {
        let own: Vec<_> =
            reports.iter().filter(|report| line(report) == Some(first + at)).collect();
        if own.len() != *count {
            writeln!(faults, "{} reports and not {count}: {body}", own.len()).unwrap();
        }
        for report in own {
            let top = report.lines().take(FIRST).collect::<Vec<_>>().join("\n");
            if !top.contains(remedy) {
                writeln!(faults, "no {remedy:?} after {body}\n{top}").unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
