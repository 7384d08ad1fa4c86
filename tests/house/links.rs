//! Checks the links of the Markdown files in the four places where they are read: on the forge, in a
//! clone, in `cargo doc` and on docs.rs.

mod items;
mod markdown;
mod rustdoc;
mod sample;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use markdown::{Link, Links, anchors, visible};
use sample::sample;

fn has_extension(file: &str, extension: &str) -> bool {
    Path::new(file).extension().is_some_and(|found| found == extension)
}

/// The files of the repository by their paths, and the paths that the packages leave out.
#[derive(Default)]
struct Repository {
    files: BTreeMap<String, String>,
    excluded: Vec<String>,
}

impl Repository {
    fn read() -> Self {
        let mut repository = Self::default();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        repository.add(root, root);
        for (file, manifest) in &repository.files {
            let Some(folder) = file.strip_suffix("Cargo.toml") else { continue };
            let list = manifest.lines().find_map(|line| line.strip_prefix("exclude = ["));
            let paths = list.unwrap_or_default().split('"').skip(1).step_by(2);
            let paths = paths.map(|path| format!("{folder}{}", path.trim_matches('/')));
            repository.excluded.extend(paths);
        }
        repository
    }

    fn add(&mut self, root: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            match path.is_dir() {
                true if name == ".git" || name.rsplit('/').next() == Some("target") => {}
                true => self.add(root, &path),
                false => _ = self.files.insert(name, fs::read_to_string(path).unwrap_or_default()),
            }
        }
    }

    /// Returns the text of a file, empty if there is none.
    fn text(&self, file: &str) -> &str {
        self.files.get(file).map_or("", String::as_str)
    }

    fn has_file(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    fn has_folder(&self, folder: &str) -> bool {
        let folder = format!("{}/", folder.trim_end_matches('/'));
        self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// Returns the Rust sources of the crates, each with its path.
    fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_source = |file: &str| {
            let inner = file.strip_prefix("crates/").and_then(|file| file.split_once('/'));
            inner.map_or(file, |(_, file)| file).starts_with("src/") && has_extension(file, "rs")
        };
        let sources = self.files.iter().filter(move |(file, _)| is_source(file));
        sources.map(|(file, text)| (&**file, &**text))
    }

    /// Returns the Markdown pages of the crates, at their root and below `docs/` and `examples/`, and
    /// those of `lab/`.
    fn pages(&self) -> impl Iterator<Item = &str> {
        let pages = self.files.keys().filter(|file| has_extension(file, "md"));
        let is_page = |page: &&str| {
            let inner = page.strip_prefix("crates/").and_then(|page| page.split_once('/'));
            let page = inner.map_or(*page, |(_, page)| page);
            let folder = page.split_once('/').map(|(folder, _)| folder);
            matches!(folder, None | Some("docs" | "examples" | "lab"))
        };
        pages.map(String::as_str).filter(is_page)
    }

    /// Returns one message for each broken link of a page: the page, the line, the link and the reason.
    fn faults(&self, page: &str) -> Vec<String> {
        let (links, shown) = (Links::of(self.text(page)), self.shown(page));
        let mut faults = Vec::new();
        let mut add = |line: usize, link: &str, fault: Option<String>| {
            faults.extend(fault.map(|reason| (line, link.to_owned(), reason)));
        };
        for Link { line, to } in &links.inline {
            let is_path = !to.starts_with('#') && !to.contains(':');
            let is_dead = is_path && shown.as_ref().is_some_and(|shown| !shown.hides(to));
            let dead = || "a relative link is dead in rustdoc, give it a label".to_owned();
            add(*line, to, if is_dead { Some(dead()) } else { self.fault(page, to) });
        }
        for Link { line, to } in links.defined.values() {
            add(*line, to, self.fault(page, to));
        }
        for Link { line, to: label } in &links.used {
            let link = format!("[{label}]");
            match (links.defined.get(label), &shown) {
                (None, _) => add(*line, &link, Some("the label is not defined".to_owned())),
                (Some(Link { to, .. }), Some(shown)) => {
                    add(*line, &link, self.rustdoc_fault(shown, page, label, to));
                }
                (Some(_), None) => {}
            }
        }
        for label in shown.iter().flat_map(|shown| shown.unused(&links)) {
            add(0, &format!("[{label}]"), Some("no link has this label of rustdoc".to_owned()));
        }
        faults.sort();
        faults.dedup();
        let message = |(line, link, reason)| format!("{page}:{line}: {link}: {reason}");
        faults.into_iter().map(message).collect()
    }

    /// Returns one message for each path of its crate that a page names and that does not exist. Chapters of the guide speak of the files of their readers.
    fn stale_paths(&self, page: &str) -> Vec<String> {
        let spans = |line: &str| -> Vec<String> {
            line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let is_path = |span: &&str| {
            let roots =
                ["src/", "tests/", "docs/", "examples/", "benches/", "fuzz/", "lab/", ".ci/"];
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            // This library has no `src/main.rs`: that is the file of a reader.
            roots.iter().any(|root| span.starts_with(root))
                && span.chars().all(is_plain)
                && *span != "src/main.rs"
        };
        let mut stale = Vec::new();
        for (number, line) in (1..).zip(self.text(page).lines()) {
            for span in spans(line).iter().map(String::as_str).filter(is_path) {
                let path = format!("{}{span}", crate_of(page));
                if !self.has_file(&path) && !self.has_folder(&path) {
                    stale.push(format!("{page}:{number}: no such file: {span}"));
                }
            }
        }
        stale
    }

    /// Returns the reason why the link leads nowhere for a reader of the file.
    fn fault(&self, page: &str, link: &str) -> Option<String> {
        if link.contains("://") || link.starts_with("mailto:") {
            return None;
        }
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let file = if path.is_empty() { page.to_owned() } else { beside(page, path) };
        if !self.has_file(&file) && !self.has_folder(&file) {
            return Some(format!("no such file: {file}"));
        }
        let root = crate_of(page);
        let is_excluded = |path: &String| {
            path.starts_with(root) && (file == *path || file.starts_with(&format!("{path}/")))
        };
        if is_page_elsewhere(root, &file) {
            // On the forge and in a clone all crates are there.
        } else if !file.starts_with(root) || self.excluded.iter().any(is_excluded) {
            return Some(format!("{file} is not in the package"));
        }
        let is_known = anchor.is_empty() || anchors(self.text(&file)).contains(anchor);
        (!is_known).then(|| format!("{file} has no heading `{anchor}`"))
    }
}

/// Returns the folder of the crate of a file: empty, or `crates/name/`.
fn crate_of(file: &str) -> &str {
    let name = file.strip_prefix("crates/").and_then(|file| file.split('/').next());
    name.map_or("", |name| &file[..="crates/".len() + name.len()])
}

/// Returns whether the file is a Markdown page of another crate than that of the folder `root`.
fn is_page_elsewhere(root: &str, file: &str) -> bool {
    has_extension(file, "md") && crate_of(file) != root
}

/// Returns the path from the root of a file that `page` links to by a path relative to itself.
fn beside(page: &str, path: &str) -> String {
    let mut steps: Vec<_> = page.split('/').collect();
    steps.pop();
    for step in path.split('/').filter(|step| !matches!(*step, "" | ".")) {
        if step == ".." {
            steps.pop();
        } else {
            steps.push(step);
        }
    }
    steps.join("/")
}

#[test]
fn links_lead_somewhere() {
    let repository = Repository::read();
    let faults: Vec<_> = repository.pages().flat_map(|page| repository.faults(page)).collect();
    assert!(faults.is_empty(), "{} broken links:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn named_files_exist() {
    let repository = Repository::read();
    let pages = repository.pages().filter(|page| !page.contains("docs/guide/"));
    let stale: Vec<_> = pages.flat_map(|page| repository.stale_paths(page)).collect();
    assert!(stale.is_empty(), "{} stale paths:\n{}", stale.len(), stale.join("\n"));
    let text = "Read `src/gone.rs`, `src/budget.rs`, `src/`, `src/*.rs` and `cargo test src/x`.";
    let stale = sample("DESIGN.md", text).stale_paths("DESIGN.md");
    assert_eq!(stale, ["DESIGN.md:1: no such file: src/gone.rs"]);
}

#[test]
fn every_page_and_link_is_seen() {
    let repository = Repository::read();
    let pages: Vec<_> = repository.pages().collect();
    for page in [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "DESIGN.md",
        "COMPARE.md",
        "docs/guide/load.md",
        "crates/resile-llm/README.md",
        "crates/resile-llm/CHANGELOG.md",
        "crates/resile-llm/DESIGN.md",
        "crates/resile-llm/docs/agent.md",
        "crates/resile-llm/docs/guide/rules.md",
        "crates/resile-redis/README.md",
        "crates/resile-clients/README.md",
        "crates/resile-tower/README.md",
        "crates/resile-tower/DESIGN.md",
    ] {
        assert!(pages.contains(&page), "{page}");
    }
    let readme = Links::of(repository.text("README.md"));
    assert!(readme.defined.contains_key("`retry`") && readme.used.len() > 25, "{readme:?}");
    for page in ["README.md", "docs/guide/guide.md", "docs/guide/load.md", "DESIGN.md"] {
        assert!(repository.shown(page).is_some(), "{page}");
    }
    for page in ["README.md", "docs/guide/guide.md", "docs/guide/rules.md", "DESIGN.md"] {
        assert!(repository.shown(&format!("crates/resile-llm/{page}")).is_some(), "{page}");
    }
    assert!(repository.shown("CHANGELOG.md").is_none());
    for path in ["lab", "crates", "crates/resile-llm/fuzz"] {
        assert!(repository.excluded.contains(&path.to_owned()), "{path}");
    }
}

/// The address at which this crate and its members will be. Nothing is there before the first release.
const UNPUBLISHED: &str = "https://docs.rs/resile";

#[test]
fn no_link_leads_to_what_is_not_published() {
    let repository = Repository::read();
    let is_address = |line: &str| line.starts_with("repository = ");
    if repository.text("Cargo.toml").lines().any(is_address) {
        return; // it is published
    }
    let pages = repository.pages().map(|page| (page, visible(repository.text(page))));
    let sources = repository.sources().map(|(file, text)| (file, text.to_owned()));
    let mut dead = Vec::new();
    for (file, text) in pages.chain(sources) {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| line.contains(UNPUBLISHED));
        dead.extend(lines.map(|(number, line)| format!("{file}:{number}: {line}")));
    }
    assert!(dead.is_empty(), "{} dead links:\n{}", dead.len(), dead.join("\n"));
}

#[test]
fn what_waits_for_the_release_is_hidden() {
    let page = "a\n<!-- from the release on\n[b](c)\n-->\nd\n<!-- end -->\n[e](f)";
    assert_eq!(visible(page), "a\n\n\n\nd\n\n[e](f)");
    let faults = sample("PAGE.md", page).faults("PAGE.md");
    assert_eq!(faults, ["PAGE.md:7: f: no such file: f"]);
}
