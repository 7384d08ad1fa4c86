//! The module tree: modules know only lower layers, and each foreign crate is named in few places.
//!
//! The test named `trap_15` stands for point 15 of the section "The behaviour" in `COMPARE.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A module, its level, and the modules on its own level that it may know. A folder is one module.
type Row = (&'static str, u8, &'static [&'static str]);

/// Foreign names, and the files or folders that may use them.
type Foreign = (&'static [&'static str], &'static [&'static str]);

/// The modules of a package.
struct Layers {
    /// The folder of the package.
    package: &'static str,
    table: &'static [Row],
    foreign: &'static [Foreign],
}

const CORE: Layers = Layers { package: "", table: TABLE, foreign: FOREIGN };
const LLM: Layers = Layers { package: "crates/resile-llm", table: LLM_TABLE, foreign: LLM_FOREIGN };

const TABLE: &[Row] = &[
    ("sync", 0, &[]),
    ("signal", 0, &["sync"]),
    ("fleet", 0, &["sync"]),
    ("time", 0, &[]),
    ("cancel", 0, &[]),
    ("verdict", 0, &["time"]),
    ("histogram", 0, &[]),
    ("question", 0, &[]),
    ("classify", 1, &[]),
    ("backoff", 1, &[]),
    ("budget", 1, &[]),
    ("keyed", 1, &[]),
    ("bulkhead", 1, &[]),
    ("adaptive", 1, &[]),
    ("cooldown", 1, &[]),
    ("throttle", 1, &[]),
    ("quota", 1, &[]),
    ("policy", 2, &[]),
    ("breaker", 2, &[]),
    ("io", 2, &[]),
    ("observe", 3, &[]),
    ("upstream", 4, &[]),
    ("error", 5, &[]),
    ("engine", 5, &["error"]),
    ("timeout", 5, &[]),
    ("chaos", 5, &[]),
    ("retry", 6, &[]),
    ("hedge", 6, &[]),
    ("fallback", 6, &[]),
    ("stream", 6, &[]),
    ("call", 6, &[]),
    ("http", 6, &[]),
    ("config", 7, &[]),
    ("ext", 7, &[]),
    ("guide", 8, &[]),
    ("lib", 8, &[]),
];

const FOREIGN: &[Foreign] = &[
    (&["tokio::", "tokio_util::"], &["time/", "cancel/"]),
    (&["tracing::", "metrics::"], &["observe/"]),
    (&["rand::", "getrandom::"], &["time/rng.rs"]),
    (&["js_sys::", "wasm_bindgen::"], &["time/script.rs"]),
    (&["http::", "httpdate::"], &["http/"]),
    (&["reqwest::"], &["http/mod.rs", "http/reqwest.rs"]),
    (&["serde_json::"], &[]),
    (&["serde::", "jiff::"], &["config/"]),
    (&["Instant"], &["time/"]),
    (&["SystemTime"], &["http/"]),
];

const LLM_TABLE: &[Row] = &[
    ("trial", 0, &[]),
    ("kind", 0, &[]),
    ("rule", 0, &[]),
    ("statuses", 0, &[]),
    ("tokens", 0, &[]),
    ("normal", 0, &[]),
    ("finder", 0, &[]),
    ("span", 0, &[]),
    ("text", 0, &[]),
    ("charge", 0, &[]),
    ("sse", 1, &[]),
    ("failure", 1, &[]),
    ("exceptions", 1, &[]),
    ("finish", 1, &[]),
    ("generic", 1, &[]),
    ("codes", 1, &[]),
    ("numbers", 1, &[]),
    ("phrases", 1, &[]),
    ("spoken", 1, &[]),
    ("wait", 1, &[]),
    ("limits", 1, &[]),
    ("display", 2, &[]),
    ("explain", 2, &[]),
    ("google", 2, &[]),
    ("verdict", 2, &[]),
    ("headers", 2, &[]),
    ("grammar", 2, &[]),
    ("body", 3, &[]),
    ("vocabulary", 3, &[]),
    ("evidence", 4, &[]),
    ("usage", 4, &[]),
    ("bill", 5, &[]),
    ("event", 5, &[]),
    ("reply", 5, &[]),
    ("reqwest", 6, &[]),
    ("in_band", 6, &[]),
    ("tool_calls", 6, &[]),
    ("retry_events", 6, &[]),
    ("transport", 6, &["reqwest"]),
    ("events", 7, &[]),
    ("known", 7, &[]),
    ("report", 7, &["known"]),
    ("billed", 8, &[]),
    ("classifier", 8, &[]),
    ("policy", 8, &["classifier"]),
    ("left_out", 8, &[]),
    ("supported", 9, &[]),
    ("guide", 9, &[]),
    ("lib", 9, &[]),
];

/// The readers of answers know nothing of the engine.
const LLM_FOREIGN: &[Foreign] = &[
    (
        &["resile::"],
        &[
            "bill.rs",
            "charge.rs",
            "classifier.rs",
            "event.rs",
            "events.rs",
            "failure.rs",
            "headers.rs",
            "known.rs",
            "limits.rs",
            "policy.rs",
            "report.rs",
            "reqwest.rs",
            "retry_events.rs",
            "tool_calls.rs",
            "transport.rs",
            "usage.rs",
            "verdict.rs",
        ],
    ),
    (&["reqwest::"], &["reqwest.rs", "transport.rs"]),
    (&["jiff::"], &["wait.rs", "left_out.rs"]),
    (&["Instant", "tokio::"], &[]),
];

#[test]
fn the_design_names_each_room_once() {
    names_each_room_once(CORE.table, include_str!("../../DESIGN.md"));
    names_each_room_once(LLM.table, include_str!("../../crates/resile-llm/DESIGN.md"));
}

fn names_each_room_once(table: &[Row], design: &str) {
    let tree = design.split("\n## The tree\n").nth(1).unwrap();
    let tree = tree.split("\n## ").next().unwrap();
    let rows = tree.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let mut named: Vec<_> = rows.map(|(room, _)| room).collect();
    named.sort_unstable();
    let mut rooms: Vec<_> = table.iter().map(|(room, ..)| *room).collect();
    rooms.sort_unstable();
    assert_eq!(named, rooms);
}

/// Returns the code of a file, without comments, documentation in attributes, and the inline tests at
/// its end.
fn code(source: &str) -> String {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines()
        .filter(|line| !line.trim_start().starts_with('"'))
        .map(|line| line.split("//").next().unwrap_or_default())
        .map(|line| line.split("doc = \"").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Finds `word` in `code` as a whole word. Returns the text before it and the text after it.
fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = (&'c str, &'c str)> {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).filter_map(move |(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let whole = word.ends_with("::") || !after.starts_with(in_word);
        (whole && !before.ends_with(in_word)).then_some((before, after))
    })
}

/// Splits `{a, b::{c, d}, e}` at the start of `text` into `a`, `b::{c, d}` and `e`.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 1, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => (),
        }
        if depth == 0 || (depth == 1 && c == ',') {
            parts.push(&text[from..at]);
            from = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    parts
}

/// Returns the modules that `code` names after `crate::`. Names from the root itself count as
/// `lib`.
fn arrows<'c>(table: &[Row], code: &'c str) -> BTreeSet<&'c str> {
    let mut arrows = BTreeSet::new();
    for (_, after) in words(code, "crate::") {
        for name in if after.starts_with('{') { parts(after) } else { vec![after] } {
            let name = name
                .trim()
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            if !name.is_empty() {
                let module = table.iter().find(|(module, ..)| *module == name);
                arrows.insert(module.map_or("lib", |(module, ..)| module));
            }
        }
    }
    arrows
}

/// Returns the module of a file: `retry` for `retry/run.rs`.
fn module(file: &str) -> &str {
    file.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

fn row(table: &[Row], module: &str) -> Option<(u8, &'static [&'static str])> {
    table.iter().find(|(name, ..)| *name == module).map(|(_, level, beside)| (*level, *beside))
}

/// Returns the faults of a file.
fn faults(layers: &Layers, file: &str, source: &str) -> Vec<String> {
    let (code, from) = (code(source), module(file));
    let Some((level, beside)) = row(layers.table, from) else {
        return vec![format!("{file}: the table has no `{from}`")];
    };
    let mut faults = Vec::new();
    for to in arrows(layers.table, &code) {
        let below = row(layers.table, to).is_some_and(|(other, _)| other < level);
        if to != from && !below && !beside.contains(&to) {
            faults.push(format!("{file}: `{from}` must not know `{to}`"));
        }
    }
    // From `retry/run.rs` two steps up lead to the root. A top-level file may have modules of its
    // own, one step down.
    let depth = file.trim_end_matches("/mod.rs").split('/').count();
    if words(&code, &"super::".repeat(depth.max(2))).next().is_some() {
        faults.push(format!("{file}: this many `super::` hide a dependency, write `crate::`"));
    }
    for (names, homes) in layers.foreign {
        let at_home = homes
            .iter()
            .any(|home| if home.ends_with('/') { file.starts_with(home) } else { file == *home });
        for name in names.iter().filter(|_| !at_home) {
            // Our own module of that name is checked above. The root exports it again.
            let foreign = words(&code, name)
                .any(|(before, _)| !before.ends_with("crate::") && file != "lib.rs");
            if foreign {
                faults.push(format!("{file}: `{name}` must not be used here"));
            }
        }
    }
    faults
}

/// Returns the paths at the start of `text`: `a`, `b::c` and `b::d` for `{a, b::{c, d}}`.
fn leaves(text: &str) -> Vec<String> {
    let text = text.trim();
    if text.starts_with('{') {
        return parts(text).into_iter().flat_map(leaves).collect();
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match rest.strip_prefix("::") {
        _ if name.is_empty() => Vec::new(),
        Some(rest) if rest.starts_with(|c: char| c == '{' || c.is_alphabetic()) => {
            leaves(rest).into_iter().map(|leaf| format!("{name}::{leaf}")).collect()
        }
        _ => vec![name.to_owned()],
    }
}

/// The files of one folder with their code. The code of `mod.rs` is stored separately.
struct Folder<'a> {
    name: &'a str,
    parent: String,
    children: Vec<(&'a str, String)>,
}

impl Folder<'_> {
    fn child(&self, name: &str) -> Option<&str> {
        self.children.iter().map(|(child, _)| *child).find(|child| *child == name)
    }

    /// Returns the child that a path leads to, by its own name or by a name that `mod.rs` imports
    /// from it.
    fn leads_to(&self, path: &str) -> Option<&str> {
        let mut steps = path.split("::");
        let first = steps.next()?;
        if let Some(child) = self.child(first) {
            return Some(child);
        }
        // `use child::Name` and `pub use self::child::{Name, Other}`.
        self.children.iter().map(|(child, _)| *child).find(|child| {
            words(&self.parent, child).any(|(before, after)| {
                let is_use = before.trim_end_matches("self::").ends_with("use ");
                let names =
                    after.strip_prefix("::").filter(|_| is_use).map(leaves).unwrap_or_default();
                names.iter().any(|name| name == first)
            })
        })
    }

    /// Returns the siblings that a child uses through the folder.
    fn siblings(&self, child: &str, code: &str) -> BTreeSet<&str> {
        let through_crate = format!("crate::{}::", self.name);
        let paths = words(code, "super::")
            .chain(words(code, &through_crate))
            .flat_map(|(_, after)| leaves(after));
        let all: BTreeSet<_> = paths.filter_map(|path| self.leads_to(&path)).collect();
        all.into_iter().filter(|other| *other != child).collect()
    }

    /// Returns the names of the children that are part of a circle.
    fn circles(&self) -> Vec<&str> {
        let mut arrows: Vec<_> = self
            .children
            .iter()
            .map(|(child, code)| (*child, self.siblings(child, code)))
            .collect();
        // A file that uses nothing left, or that nothing left uses, is part of no circle.
        while let Some(at) = arrows.iter().position(|(child, known)| {
            known.is_empty() || arrows.iter().all(|(_, known)| !known.contains(child))
        }) {
            let (free, _) = arrows.remove(at);
            for (_, known) in &mut arrows {
                known.remove(free);
            }
        }
        arrows.into_iter().map(|(child, _)| child).collect()
    }
}

/// Returns the top-level folders of these files.
fn folders(found: &[(String, String)]) -> Vec<Folder<'_>> {
    let mut folders: Vec<Folder<'_>> = Vec::new();
    let mut found: Vec<_> = found.iter().collect();
    found.sort();
    for (file, source) in found {
        let mut steps = file.split('/');
        let (Some(folder), Some(child)) = (steps.next(), steps.next()) else { continue };
        if folders.last().is_none_or(|last| last.name != folder) {
            folders.push(Folder { name: folder, parent: String::new(), children: Vec::new() });
        }
        let (Some(last), child) = (folders.last_mut(), child.trim_end_matches(".rs")) else {
            continue;
        };
        match (child, last.children.last_mut()) {
            ("mod", _) => last.parent = code(source),
            // A folder inside the folder is one child.
            (child, Some((name, code_of))) if *name == child => {
                code_of.push_str(&code(source).replace("super::", ""));
            }
            (child, _) => last.children.push((child, code(source))),
        }
    }
    folders
}

/// Collects every source file below the folder, with its path from the root. Files of tests may know
/// anything.
fn sources(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
        {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn modules_use_only_lower_layers_and_trap_15_no_wall_clock() {
    use_only_lower_layers(&CORE);
    use_only_lower_layers(&LLM);
}

fn use_only_lower_layers(layers: &Layers) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(layers.package).join("src");
    let mut found = Vec::new();
    sources(&root, &root, &mut found);
    assert!(found.len() > 20, "too few source files were found");
    let faults: Vec<_> =
        found.iter().flat_map(|(file, source)| faults(layers, file, source)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let circles: Vec<_> =
        folders(&found).iter().map(|at| (at.name.to_owned(), at.circles().join(", "))).collect();
    let circles: Vec<_> = circles.iter().filter(|(_, files)| !files.is_empty()).collect();
    assert!(circles.is_empty(), "files that use each other: {circles:#?}");
    let forbids = found
        .iter()
        .any(|(file, source)| file == "lib.rs" && source.contains("#![forbid(unsafe_code)]"));
    assert!(forbids);
}

/// A folder's `mod.rs` has its docs, its modules and its names, and nothing else. So its files import
/// from each other, and never from their parent.
#[test]
fn a_folder_defines_nothing_in_its_front() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut fronts = 0;
    for (room, ..) in TABLE {
        let Ok(front) = fs::read_to_string(source.join(room).join("mod.rs")) else { continue };
        fronts += 1;
        let code = code(&front);
        let outside = parts_outside_of_attributes(&code);
        for statement in outside.split_inclusive(';').map(str::trim).filter(|it| !it.is_empty()) {
            let bare = statement.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            assert!(bare.starts_with("mod ") || bare.starts_with("use "), "{room}: {statement}");
        }
    }
    assert!(fronts > 10, "{fronts}");
}

/// Removes the attributes from the code of a folder's front.
fn parts_outside_of_attributes(code: &str) -> String {
    let mut outside = String::new();
    let mut rest = code;
    while let Some((before, after)) = rest.split_once("#[") {
        outside.push_str(before);
        let mut depth = 1;
        let end = after.find(|c: char| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            depth == 0
        });
        rest = end.map_or("", |end| &after[end + 1..]);
    }
    outside + rest
}

/// The tables have no circle: a module used on the same level uses no other one there.
#[test]
fn the_tables_have_no_circle() {
    for (table, (module, level, beside)) in
        [TABLE, LLM_TABLE].into_iter().flat_map(|table| table.iter().map(move |row| (table, row)))
    {
        for other in *beside {
            let (height, back) = row(table, other).expect("a module of the table");
            assert!(height <= *level && !back.contains(module), "{module} and {other}");
            assert!(back.is_empty(), "{module}: a chain on one level could close a circle");
        }
    }
}

/// The test itself is tested with sources that have one fault or none.
#[test]
fn faults_are_detected() {
    let clean = [
        ("retry/run.rs", "use crate::policy::StopReason;\nuse super::Retry;"),
        ("retry/run.rs", "/// See [`crate::ext::X`]\nfn f() {} // crate::ext::X"),
        ("observe/log.rs", "use crate::breaker::Transition;\ntracing::warn!()"),
        ("call/future.rs", "use crate::{classify::{Opinion, Classify}, engine::CallState};"),
        ("http/error.rs", "use crate::verdict::Verdict;\nuse ::http::HeaderMap;"),
        ("backoff/mod.rs", "fn f() {}\n#[cfg(test)]\nmod tests { use crate::retry::retry; }"),
        ("time/tokio.rs", "let now = tokio::time::Instant::now();"),
        ("stream/mod.rs", "use crate::engine::CallState;"),
        ("observe/log/line.rs", "use super::super::Event;"),
        ("retry/mod.rs", "pub(crate) fn instantly() {} fn hyperhttp() { hyperhttp::x() }"),
    ];
    for (file, source) in clean {
        assert_eq!(faults(&CORE, file, source), [""; 0], "{file}: {source}");
    }
    let faulty = [
        ("policy/mod.rs", "use crate::retry::Retry;"),
        ("policy/mod.rs", "fn f() { crate::retry::retry() }"),
        ("classify.rs", "use crate::observe::Observe;"),
        ("verdict.rs", "use crate::classify::Classify;"),
        ("budget.rs", "use crate::backoff::Backoff;"),
        ("upstream/mod.rs", "use crate::engine::CallState;"),
        ("engine/mod.rs", "use crate::retry::Retry;"),
        ("retry/mod.rs", "use crate::hedge::hedge;"),
        ("http/mod.rs", "use crate::ext::ResilienceExt;"),
        ("error.rs", "use crate::{classify::{Opinion, Classify}, ext::ResilienceExt};"),
        ("error.rs", "use crate::{\n    ext,\n};"),
        ("retry/run.rs", "use crate::GaveUp;"),
        ("retry/run.rs", "use super::super::ext::X;"),
        ("observe/log/line.rs", "use super::super::super::ext::X;"),
        ("utils.rs", ""),
        ("retry/future.rs", "tokio::spawn(f)"),
        ("budget.rs", "use tracing::warn;\ntracing::warn!()"),
        ("timeout/mod.rs", "use ::http::StatusCode;"),
        ("http/mod.rs", "serde_json::from_str(x)"),
        ("policy/mod.rs", "#[derive(serde::Serialize)]"),
        ("backoff/jitter.rs", "use rand::RngExt;"),
        ("engine/mod.rs", "use std::time::{Duration, Instant};"),
        ("observe/mod.rs", "let now = std::time::SystemTime::now();"),
    ];
    for (file, source) in faulty {
        let found = faults(&CORE, file, source);
        assert_eq!(found.len(), 1, "{file}: {source}: {found:?}");
    }
    for (file, source, count) in [
        ("body/prose.rs", "use crate::text;", 0),
        ("body/prose.rs", "use crate::reply::Reply;", 1),
        ("body/prose.rs", "use super::super::text;", 1),
        ("evidence.rs", "use resile::Verdict;", 1),
        ("wait.rs", "use super::super::span;", 1),
    ] {
        let found = faults(&LLM, file, source);
        assert_eq!(found.len(), count, "{file}: {source}: {found:?}");
    }
}

/// Circles within a folder are detected too.
#[test]
fn circles_are_detected() {
    let circle = |files: &[(&str, &str)]| {
        let found: Vec<_> =
            files.iter().map(|(file, source)| ((*file).to_owned(), (*source).to_owned())).collect();
        folders(&found)[0].circles().join(" ")
    };
    let parent = (
        "engine/mod.rs",
        "mod begin;\nmod end;\npub(crate) use begin::Begin;\npub use self::end::{End, Ended};",
    );
    let begin = ("engine/begin.rs", "use super::{CallState, Ended};");
    assert_eq!(
        circle(&[parent, begin, ("engine/end.rs", "use super::{CallState, end::End};")]),
        ""
    );
    for back in [
        "use super::begin::X;",
        "use super::{Begin, CallState};",
        "use super::{CallState, begin::{X, Y}};",
        "crate::engine::Begin",
    ] {
        assert_eq!(circle(&[begin, ("engine/end.rs", back), parent]), "begin end", "{back}");
    }
    let three = [
        parent,
        begin,
        ("engine/end.rs", "use super::other::X;"),
        ("engine/other.rs", "use super::Begin;"),
    ];
    assert_eq!(circle(&three), "begin end other");
}
