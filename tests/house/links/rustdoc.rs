//! The pages that rustdoc shows: the definitions that it reads before a page, and their items.

use std::collections::BTreeMap;

use super::markdown::{Link, Links, anchors, folded};
use super::{Repository, beside, is_page_elsewhere};

/// A page in the docs of a crate.
pub(super) struct Shown<'r> {
    /// The folder of the crate: empty, or `crates/name/`.
    pub(super) root: &'r str,
    /// The attributes around the page.
    block: &'r str,
    /// The destinations by their labels. A label of an optional item has one for each choice.
    definitions: BTreeMap<String, Vec<String>>,
    /// The labels that only this page may use.
    own: Vec<String>,
}

impl Shown<'_> {
    /// Returns true if the docs hide a picture and show it elsewhere.
    pub(super) fn hides(&self, picture: &str) -> bool {
        self.block.contains(&format!("img[src='{picture}']"))
    }

    /// Returns the labels that no link of the page has.
    pub(super) fn unused<'s>(&'s self, links: &'s Links) -> impl Iterator<Item = &'s str> {
        let is_used = |label: &str| links.used.iter().any(|link| link.to == label);
        self.own.iter().map(String::as_str).filter(move |label| !is_used(label))
    }

    fn define(&mut self, label: &str, to: &str) {
        self.definitions.entry(folded(label)).or_default().push(to.to_owned());
    }
}

impl Repository {
    /// Returns what rustdoc has around the page, if it shows the page.
    pub(super) fn shown(&self, page: &str) -> Option<Shown<'_>> {
        self.sources().find_map(|(file, text)| {
            let root = file.split_once("src/")?.0;
            let has_page = |block: &&str| included(block).any(|path| beside(file, path) == page);
            let block = text.split("\n\n").find(has_page)?;
            let mut shown = Shown { root, block, definitions: BTreeMap::new(), own: Vec::new() };
            for definition in block.split("doc = \"[").skip(1) {
                let (label, to) = definition.split('"').next()?.split_once("]: ")?;
                shown.define(label, to);
                shown.own.push(folded(label));
            }
            let is_chapter = block.starts_with("chapter! {");
            let listed = block.split('"').skip(1).step_by(2).filter(|_| is_chapter);
            for to in listed.filter(|to| to.starts_with("crate") || to.starts_with('#')) {
                shown.define(to, to);
                shown.own.push(folded(to));
            }
            // The definitions in files: of this page alone, and of all chapters.
            for (label, link) in self.included_definitions(file, block, page) {
                shown.define(&label, &link.to);
                shown.own.push(label);
            }
            let shared = text.split("\n\n").find(|block| block.contains("macro_rules! chapter"));
            for block in shared.into_iter().filter(|_| is_chapter) {
                for (label, link) in self.included_definitions(file, block, page) {
                    shown.define(&label, &link.to);
                }
            }
            Some(shown)
        })
    }

    /// Returns the definitions in the pages that `block` of `file` includes before `page`.
    fn included_definitions(&self, file: &str, block: &str, page: &str) -> Vec<(String, Link)> {
        let pages = included(block).map(|path| beside(file, path)).take_while(|path| path != page);
        pages.flat_map(|path| Links::of(self.text(&path)).defined).collect()
    }

    /// Returns the reason why a label leads nowhere in rustdoc, or elsewhere than `to`, the
    /// destination for readers of the file.
    pub(super) fn rustdoc_fault(
        &self,
        shown: &Shown<'_>,
        page: &str,
        label: &str,
        to: &str,
    ) -> Option<String> {
        let file = beside(page, to.split('#').next().unwrap_or_default());
        if to.contains("://") || shown.hides(to) {
            return None;
        }
        let Some(definitions) = shown.definitions.get(label) else {
            return Some("the label is not defined for rustdoc".to_owned());
        };
        definitions.iter().find_map(|path| {
            if path == "crate#features" || path == "#features" {
                return None; // in place of an item that is not there
            }
            match path.strip_prefix('#') {
                Some(id) => {
                    let is_known = shown.block.contains(&format!("id=\\\"{id}\\\""))
                        || anchors(self.text(page)).contains(id);
                    (!is_known).then(|| format!("the docs have no `{path}`"))
                }
                None => self.path_fault(shown, path, &file),
            }
        })
    }

    /// Returns the reason why the path of an item leads nowhere, or elsewhere than `file`.
    fn path_fault(&self, shown: &Shown<'_>, path: &str, file: &str) -> Option<String> {
        let Shown { root: owner, .. } = shown;
        // The docs of this crate do not have such a page, so the link leads to what they have on it.
        let is_elsewhere = is_page_elsewhere(owner, file);
        let (path, anchor) = path.split_once('#').unwrap_or((path, ""));
        let mut steps = path.split("::").map(|step| step.trim_end_matches("()"));
        if steps.next() != Some("crate") {
            return Some(format!("`{path}` is not a path of the crate"));
        }
        let other = |home: &str| Some(format!("`{path}` is in {home}, and not in {file}"));
        let Some(first) = steps.next() else {
            let home = format!("{owner}README.md");
            return if file == home { None } else { other(&home) };
        };
        if first == "guide" {
            let chapter = steps.next();
            let own = format!("{owner}docs/guide/{}.md", chapter.unwrap_or("guide"));
            let file = if is_elsewhere { &own } else { file };
            let is_it = match chapter {
                Some(chapter) => self.shown(file).is_some_and(|shown| shown.is_chapter(chapter)),
                None => *file == own,
            };
            return if is_it { None } else { other("another chapter") };
        }
        let lib = self.text(&format!("{owner}src/lib.rs"));
        // A crate that this one re-exports has its page at its root.
        let page = format!("crates/{}/README.md", first.replace('_', "-"));
        if has_words(lib, "pub use ", first) && self.has_file(&page) {
            let is_it = file == page && anchors(self.text(&page)).contains(anchor);
            return if is_it { None } else { other(&page) };
        }
        let is_public = has_words(lib, "pub mod ", first);
        let Some(room) = (if is_public { Some(first) } else { exporter(lib, first) }) else {
            return Some(format!("`{path}` is not public"));
        };
        let room = format!("{owner}src/{room}");
        let is_in =
            |file: &str| file == format!("{room}.rs") || file.starts_with(&format!("{room}/"));
        let item = steps.last().unwrap_or(first);
        // A type's own methods may stand in another file.
        let has_method = file.starts_with(owner) && has_words(self.text(file), "pub fn ", item);
        if !is_in(file) && !has_method && !is_elsewhere {
            return other(&room);
        }
        let in_room = || self.files.iter().filter(|(file, _)| is_in(file)).map(|(_, text)| text);
        let has_item = has_method || in_room().any(|text| has_words(text, "", item));
        if !has_item && !room.ends_with(item) {
            return Some(format!("{room} has no `{item}`"));
        }
        let has_heading = |text: &String| anchors(&docs(text)).contains(anchor);
        let is_known = anchor.is_empty() || in_room().any(has_heading);
        (!is_known).then(|| format!("{room} has no heading `{anchor}`"))
    }
}

impl Shown<'_> {
    /// Returns true if the page is the chapter of this name.
    fn is_chapter(&self, name: &str) -> bool {
        let begins = |line: &str| line.trim_start().starts_with(&format!("{name} ["));
        has_words(self.block, "pub mod ", name) || self.block.lines().any(begins)
    }
}

/// Returns the paths of the files that the attributes include.
fn included(block: &str) -> impl Iterator<Item = &str> {
    block.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next())
}

/// Returns the documentation in a source.
fn docs(source: &str) -> String {
    let docs = source.lines().filter_map(|line| {
        let line = line.trim_start();
        let docs = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some(docs.strip_prefix(' ').unwrap_or(docs))
    });
    docs.collect::<Vec<_>>().join("\n")
}

/// Returns the private module that `text` re-exports `name` from.
fn exporter<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.match_indices("pub use ").find_map(|(at, start)| {
        let path = text[at + start.len()..].split(';').next()?;
        let (from, names) = path.strip_prefix("self::").unwrap_or(path).split_once("::")?;
        has_words(names, "", name).then_some(from)
    })
}

/// Returns true if `text` has `name` as a whole word directly after `before`.
fn has_words(text: &str, before: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let phrase = format!("{before}{name}");
    text.match_indices(&phrase).any(|(at, _)| {
        !text[..at].ends_with(is_word) && !text[at + phrase.len()..].starts_with(is_word)
    })
}
