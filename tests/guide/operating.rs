//! The operator's page: each line at WARN and at ERROR has its row, and each row its line.

use crate::page::{fits, read};
use crate::warnings;

/// The folders whose sources are searched.
const SOURCES: [&str; 5] = [
    "src",
    "crates/resile-clients/src",
    "crates/resile-llm/src",
    "crates/resile-redis/src",
    "crates/resile-tower/src",
];

/// Returns the patterns of the rows whose first cell is code.
fn rows(page: &str) -> Vec<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    cells.map(|cell| cell.trim_matches('`').trim().to_owned()).collect()
}

/// Returns the rows of the lines, without those of the alerts.
fn lines() -> Vec<String> {
    let page = read("docs/guide/operating.md");
    rows(page.split("\n# Cargo.toml\n").next().unwrap())
}

/// Returns the text of the literal that begins at the first `"`, with a `…` for each of its values.
fn literal(code: &str) -> String {
    let mut text = String::new();
    let mut rest = code.split_once('"').unwrap().1.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => break,
            // A line that goes on in the next one.
            '\\' => rest = rest.as_str().trim_start().chars(),
            '{' => {
                text.push('…');
                rest.by_ref().find(|c| *c == '}');
            }
            c => text.push(c),
        }
    }
    text
}

/// Returns the messages that a source writes at WARN or at ERROR.
fn written(source: &str) -> Vec<String> {
    let mut written = Vec::new();
    for call in ["warn!(", "error!("] {
        for (at, _) in source.match_indices(call) {
            let is_name = source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            // The target is a literal too.
            let arguments = source[at + call.len()..].trim_start();
            let arguments = arguments.strip_prefix("target: \"resile\"").unwrap_or(arguments);
            if !is_name && !source[..at].ends_with("macro_rules! ") {
                let line = literal(arguments);
                // The rows leave out the name of the upstream at the front.
                written.push(line.strip_prefix("…: ").unwrap_or(&line).to_owned());
            }
        }
    }
    written
}

/// Returns the sources below a folder, each with its path.
fn sources(folder: &str, found: &mut Vec<(String, String)>) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            sources(&name, found);
        } else {
            found.push((name, std::fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

/// Returns the lines of all crates but those of the observer, each with its file.
fn written_in_crates() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in SOURCES {
        sources(folder, &mut found);
    }
    let lines = found.into_iter().flat_map(|(file, source)| {
        written(&source).into_iter().map(move |line| (file.clone(), line))
    });
    lines.collect()
}

#[test]
fn each_line_that_a_crate_writes_has_its_row() {
    let rows = lines();
    let written = written_in_crates();
    for (file, line) in &written {
        assert!(rows.contains(line), "{file}: the page has no row for: {line}");
    }
    assert!(written.len() >= 9, "{written:#?}");
}

/// The observer of the core decides the level of each event in two functions.
#[test]
fn the_core_warns_of_the_known_events_only() {
    let file = read("src/observe/level.rs");
    let level = |name: &str| {
        let start = format!("fn {name}(");
        file.split(&start).nth(1).unwrap().split("\n}\n").next().unwrap()
    };
    let level = format!("{}{}", level("level"), level("level_of_end"));
    // A new one needs a row, and a line in `warnings.rs`.
    assert_eq!(level.matches("Level::WARN").count(), 11);
    assert_eq!(level.matches("Level::ERROR").count(), 0);
}

/// The words of a line that stand in the source between the values.
fn words_of(file: &str, function: &str) -> Vec<String> {
    let source = read(file);
    let (before, body) =
        source.split_once(function).unwrap_or_else(|| panic!("{file}: {function}"));
    let indent = before.rsplit('\n').next().unwrap();
    let body = body.split(&format!("\n{indent}}}\n")).next().unwrap();
    let mut words = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find('"') {
        let text = literal(&rest[at..]);
        words.extend(text.split('…').map(str::to_owned));
        // The end of the literal: the next quote without a backslash before it.
        rest = &rest[at + 1..];
        rest = rest.split_once('"').map_or("", |(_, after)| after);
    }
    words.retain(|word| word.len() > 6);
    words
}

/// Words of lines at other levels.
const NO_WARNINGS: [&str; 29] = [
    "quota in shadow mode still used up: ", // at DEBUG
    "quota still used up: ",                // at INFO, as the next one
    "bulkhead still full: ",
    "the circuit breaker is still open: ", // a breaker has no strain
    "this attempt is refused, because it would wait ", // the row has a `…`
    "it holds this attempt for ",          // the row has a `…`
    " output tokens are reserved by attempts in flight, ", // the row has a `…`
    "quota too ",
    "quota may be too high: the upstream reports a limit of ", // at INFO, as the next two
    "without its window, so the quota of ",
    " does not use it: ",
    "compare the setting",
    ", and uses the reported limit",
    ", so the rest is not used: raise the setting if you need more",
    "quota in use again: the upstream accepts ",
    "no further attempt is allowed",
    "not enough time left",
    "the wait is above the policy's hint cap",
    "and the call may not wait",
    "the retry budget is spent",
    "the circuit breaker is open",
    "the throttle refuses while the upstream refuses too many attempts",
    "the bulkhead or the queue is full",
    "no alternatives left",
    ", the upstream throttled an attempt, another process was asked to wait before", // at DEBUG
    ", another process was asked to wait",                                           // at DEBUG
    "cancelled",
    "the cost is above the quota's burst",
    "the circuit breaker is open",
];

#[test]
fn the_words_of_the_core_stand_in_the_rows() {
    let rows = lines().join("\n");
    let places = [
        ("src/observe/strain.rs", "pub(super) fn write_limiting("),
        ("src/observe/strain.rs", "pub(super) fn write_still("),
        ("src/observe/gauges.rs", "pub(super) fn write_cause("),
        ("src/observe/sentence.rs", "fn write_finding("),
        ("src/policy/decision.rs", "pub(crate) fn in_words("),
        ("src/observe/too_long.rs", "impl fmt::Display for TooLong"),
        ("src/breaker/state.rs", "impl fmt::Display for TripReason"),
        ("src/quota/too_large.rs", "impl fmt::Display for TooLarge"),
    ];
    let mut count = 0;
    for (file, function) in places {
        for word in words_of(file, function) {
            count += 1;
            let is_known = rows.contains(word.trim()) || NO_WARNINGS.contains(&&*word);
            assert!(is_known, "{file}: the page has no row with: {word}");
        }
    }
    assert!(count > 40, "{count}");
}

/// Calls that end in each way, on parts under each strain.
#[test]
fn each_warning_of_the_core_has_one_row_and_each_row_its_warning() {
    let rows = lines();
    let seen = warnings::all();
    assert!(seen.len() > 25, "{seen:#?}");
    let mut used = Vec::new();
    for line in &seen {
        let message = line.strip_prefix("WARN feed: ").unwrap_or_else(|| panic!("{line}"));
        let fitting: Vec<_> = rows.iter().filter(|row| fits(row, message)).collect();
        assert_eq!(fitting.len(), 1, "{line}: {fitting:?}");
        used.extend(fitting);
    }
    let written: Vec<_> = written_in_crates().into_iter().map(|(_, line)| line).collect();
    let stale = |row: &&String| !used.contains(row) && !written.contains(row);
    let stale: Vec<_> = rows.iter().filter(stale).collect();
    assert!(stale.is_empty(), "nothing writes these lines: {stale:#?}");
}

#[test]
fn each_alert_has_its_row() {
    let alerts = read("docs/operating/alerts.yml");
    let alerts: Vec<_> = alerts.lines().filter_map(|line| line.split("- alert: ").nth(1)).collect();
    let page = read("docs/guide/operating.md");
    let listed = rows(page.split("\n# The dashboard and the alerts\n").nth(1).unwrap());
    assert_eq!(listed, alerts);
}

#[test]
fn a_line_of_a_source_is_read() {
    let source = r#"
        tracing::warn!(target: "resile", upstream, "{upstream}: fleet: {a:.1?} of {b}, \
                and more");
        fn forewarn!("no");
        warn!("{}", x)
    "#;
    assert_eq!(written(source), ["fleet: … of …, and more", "…"]);
}
