//! Resolves links to `https://docs.rs/resile/…` and to other packages against the source, by the rules
//! of rustdoc.

use std::collections::BTreeSet;

use super::markdown::anchors;
use super::{Repository, has_extension};

/// A public module.
struct Module {
    /// The file with its code.
    file: String,
    /// The folder of its submodules.
    folder: String,
}

/// Returns the reason why no page or no anchor is at `url`, which begins with the package's site.
pub(super) fn fault(repository: &Repository, url: &str) -> Option<String> {
    let url = &url[repository.site().len()..];
    let (path, anchor) = url.split_once('#').unwrap_or((url, ""));
    let mut steps = path.split('/').skip(1).filter(|step| !step.is_empty());
    match steps.next() {
        None => return None, // the root of a version
        Some(name) if name == repository.name.replace('-', "_") => {}
        Some(other) => return Some(format!("no such crate: {other}")),
    }
    let mut steps: Vec<_> = steps.collect();
    let has_page = steps.last().is_some_and(|last| has_extension(last, "html"));
    let page = if has_page { steps.pop().unwrap_or_default() } else { "index.html" };
    if let (["guide", chapter], "index.html") = (&*steps, page) {
        return chapter_fault(repository, chapter, anchor);
    }
    let mut module = Module { file: "src/lib.rs".to_owned(), folder: "src".to_owned() };
    for step in &steps {
        match repository.child(&module, step) {
            Some(child) => module = child,
            None => return Some(format!("{} has no public module `{step}`", module.file)),
        }
    }
    let (files, is_found) = match page.trim_end_matches(".html").split_once('.') {
        None => (vec![module.file.clone()], matches!(page, "index.html" | "all.html")),
        Some((kind, name)) => {
            let files = repository.homes(&module, name);
            let is_defined = files.iter().any(|file| defines(repository.text(file), kind, name));
            (files, is_defined)
        }
    };
    if !is_found {
        return Some(format!("{} has no public item for {page}", module.file));
    }
    let is_root = steps.is_empty() && page == "index.html";
    let is_known = anchor.is_empty()
        || is_root && anchors(repository.text("README.md")).contains(anchor)
        || files.iter().any(|file| repository.has_anchor(file, anchor));
    (!is_known).then(|| format!("{} has no anchor `{anchor}`", files.join(", ")))
}

/// A chapter of the guide is an empty module of `src/guide.rs`, with a page as its docs.
fn chapter_fault(repository: &Repository, chapter: &str, anchor: &str) -> Option<String> {
    let Some(page) = repository.pages().find(|page| repository.shows(chapter, page)) else {
        return Some(format!(
            "no such chapter: src/guide.rs has no module `{chapter}` with a page"
        ));
    };
    let is_known = anchor.is_empty() || repository.anchors(page).contains(anchor);
    (!is_known).then(|| format!("{page} has no heading `{anchor}`"))
}

impl Repository {
    /// Returns the address of the package's documentation. A version and a path follow.
    pub(super) fn site(&self) -> String {
        format!("https://docs.rs/{}/", self.name)
    }

    /// Returns true if the docs of that chapter include the page.
    fn shows(&self, chapter: &str, page: &str) -> bool {
        self.chapters().any(|block| {
            block.contains(&format!("/{page}\")")) && has_words(block, "pub mod ", chapter)
        })
    }

    /// Returns the modules of the guide, each with the attributes before it.
    fn chapters(&self) -> impl Iterator<Item = &str> {
        self.text("src/guide.rs").split("\n\n").filter(|block| block.contains("pub mod "))
    }

    /// Returns the anchors of a page: its headings, and the ids that its chapter adds in rustdoc.
    pub(super) fn anchors(&self, page: &str) -> BTreeSet<String> {
        let is_guide = page.starts_with("docs/guide/");
        let blocks =
            self.chapters().filter(|block| is_guide && block.contains(&format!("/{page}\")")));
        let ids = blocks.flat_map(|block| block.split("id=\\\"").skip(1));
        let ids = ids.filter_map(|id| id.split('\\').next()).map(str::to_owned);
        anchors(self.text(page)).into_iter().chain(ids).collect()
    }

    /// Returns the public module `name` within `module`: declared there, or re-exported from a private module.
    fn child(&self, module: &Module, name: &str) -> Option<Module> {
        let text = self.text(&module.file);
        let folder = if has_words(text, "pub mod ", name) {
            format!("{}/{name}", module.folder)
        } else {
            format!("{}/{}/{name}", module.folder, exporter(text, name)?)
        };
        let files = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
        let file = files.into_iter().find(|file| self.has_file(file));
        let file = file
            .or_else(|| text.contains(&format!("pub mod {name} {{")).then(|| module.file.clone()));
        file.map(|file| Module { file, folder })
    }

    /// Returns the files that may define the item `name` of `module`: its own file, and the files of the private
    /// module that it re-exports the item from. An item of a public module has its page there and only there.
    fn homes(&self, module: &Module, name: &str) -> Vec<String> {
        let exporter = exporter(self.text(&module.file), name);
        let exporter = exporter.map(|private| format!("{}/{private}", module.folder));
        let is_below = |file: &str, folder: &str| {
            file == format!("{folder}.rs") || file.starts_with(&format!("{folder}/"))
        };
        let below = self.files.keys().filter(|file| {
            **file == module.file || exporter.as_deref().is_some_and(|at| is_below(file, at))
        });
        below.cloned().collect()
    }

    /// Returns true if the page of an item in `file` has `anchor`: a method, a variant, or a heading of its docs.
    fn has_anchor(&self, file: &str, anchor: &str) -> bool {
        match anchor.split_once('.') {
            Some(("method" | "tymethod", name)) => {
                self.sources().any(|text| has_words(text, "fn ", name))
            }
            Some(("variant" | "structfield", name)) => has_words(self.text(file), "", name),
            Some(_) => false,
            None => {
                let docs = self.text(file).lines().filter_map(|line| {
                    let line = line.trim_start();
                    line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
                });
                let docs: Vec<_> =
                    docs.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
                anchors(&docs.join("\n")).contains(anchor)
            }
        }
    }
}

/// Returns true if `text` defines the public item `name` of the kind that rustdoc has in file names.
fn defines(text: &str, kind: &str, name: &str) -> bool {
    let kind = if kind == "constant" { "const" } else { kind };
    ["pub ", "pub const ", "pub async "]
        .iter()
        .any(|public| has_words(text, &format!("{public}{kind} "), name))
}

/// Returns the private module that `text` re-exports `name` from.
fn exporter<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.match_indices("pub use ").find_map(|(at, start)| {
        let path = text[at + start.len()..].split(';').next()?;
        let (from, names) = path.strip_prefix("self::").unwrap_or(path).split_once("::")?;
        let is_public = has_words(text, "pub mod ", from);
        (!is_public && has_words(names, "", name)).then_some(from)
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
