//! A link to an item leads a reader of the file to the source that declares the item.

use super::markdown::Link;
use super::sample::sample;
use super::{Links, Repository, beside};

impl Repository {
    /// Returns one message for each label of an item whose file does not declare the item.
    fn stray_items(&self, page: &str) -> Vec<String> {
        let mut stray = Vec::new();
        for (label, Link { line, to }) in &Links::of(self.text(page)).defined {
            let file = beside(page, to);
            let Some(source) = file.strip_suffix(".rs") else { continue };
            let Some(item) = item(label) else { continue };
            let is_module = source.trim_end_matches("/mod").rsplit('/').next() == Some(item);
            if !is_module && !declares(self.text(&file), item) {
                stray.push(format!("{page}:{line}: {file} does not declare `{item}`"));
            }
        }
        stray
    }
}

/// Returns the last name of a label such as `crate::Budget::new`, and `None` for a label of words.
fn item(label: &str) -> Option<&str> {
    let path = label.trim_matches('`');
    if path == label && !path.starts_with("crate::") {
        return None;
    }
    let (path, _) = path.split_once('#').unwrap_or((path, ""));
    let name = path.trim_end_matches("()").rsplit("::").next()?;
    name.chars().all(|c| c.is_alphanumeric() || c == '_').then_some(name)
}

/// Returns true if a line of the source declares a function, a type, a variant or a public field of this
/// name. The labels of a page have no case.
fn declares(source: &str, item: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let is_kind = |word: &str| matches!(word, "fn" | "struct" | "enum" | "trait" | "type" | "pub");
    let source = source.to_lowercase();
    source.lines().map(str::trim_start).filter(|line| !line.starts_with("//")).any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let is_variant = line.strip_prefix(item).is_some_and(|rest| rest.starts_with([',', '(']));
        is_variant
            || words
                .windows(2)
                .any(|pair| is_kind(pair[0]) && pair[1].strip_prefix(item).is_some_and(is_end))
    })
}

#[test]
fn links_to_items_lead_to_their_declarations() {
    let repository = Repository::read();
    let stray: Vec<_> = repository.pages().flat_map(|page| repository.stray_items(page)).collect();
    assert!(stray.is_empty(), "{} stray links:\n{}", stray.len(), stray.join("\n"));
}

#[test]
fn a_link_beside_its_item_is_found() {
    for (label, file, count) in [
        ("crate::Budget", "src/budget.rs", 0),
        ("`Budget`", "src/budget.rs", 0),
        ("crate::Budget#defaults", "src/budget.rs", 0),
        ("crate::Budget::new", "src/budget.rs", 0),
        ("crate::new()", "src/budget.rs", 0),
        ("crate::breaker", "src/breaker/mod.rs", 0),
        ("crate::breaker::State", "src/breaker/state.rs", 0),
        ("some words", "src/lib.rs", 0),
        ("crate::Budget::old", "src/budget.rs", 1),
        ("crate::Bud", "src/budget.rs", 1),
        ("crate::Budget::new", "src/lib.rs", 1),
        ("crate::breaker::State", "src/breaker/mod.rs", 1),
    ] {
        let stray = sample("PAGE.md", &format!("[{label}]: {file}")).stray_items("PAGE.md");
        assert_eq!(stray.len(), count, "{label}: {stray:?}");
    }
}
