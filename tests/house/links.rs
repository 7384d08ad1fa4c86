//! Checks the links of the Markdown files: on the repository's page, on the package page and in rustdoc.

mod markdown;
mod rustdoc;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use markdown::Links;

fn has_extension(file: &str, extension: &str) -> bool {
    Path::new(file).extension().is_some_and(|found| found == extension)
}

/// The files of a package by their paths, and the paths that the package leaves out.
#[derive(Default)]
struct Repository {
    /// The name of the package.
    name: &'static str,
    files: BTreeMap<String, String>,
    excluded: Vec<String>,
    /// The other packages whose documentation its pages link to.
    others: Vec<Repository>,
}

impl Repository {
    /// Returns the packages whose links are checked, each with the other one beside it.
    fn all() -> [Self; 2] {
        let (core, llm) = (("resile", ""), ("resile-llm", "crates/resile-llm"));
        let read = |(name, folder)| Self::read(name, folder);
        [(core, llm), (llm, core)]
            .map(|(one, other)| Self { others: vec![read(other)], ..read(one) })
    }

    fn read(name: &'static str, folder: &str) -> Self {
        let mut repository = Self { name, ..Self::default() };
        let root = &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        repository.add(root, root);
        let excluded =
            repository.text("Cargo.toml").lines().find_map(|line| line.strip_prefix("exclude = ["));
        let excluded = excluded.unwrap_or_default().split('"').skip(1).step_by(2);
        repository.excluded = excluded.map(|path| path.trim_matches('/').to_owned()).collect();
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

    fn sources(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter(|(file, _)| file.starts_with("src/")).map(|(_, text)| &**text)
    }

    /// Returns the Markdown pages at the root and below `docs/`.
    fn pages(&self) -> impl Iterator<Item = &str> {
        let pages = self.files.keys().filter(|file| has_extension(file, "md"));
        pages.map(String::as_str).filter(|page| !page.contains('/') || page.starts_with("docs/"))
    }

    /// Returns true if rustdoc shows the page: no relative link leads anywhere there.
    fn is_in_rustdoc(&self, page: &str) -> bool {
        self.sources().any(|text| text.contains(&format!("/{page}\")")))
    }

    /// Returns one message for each broken link of a page: the page, the line, the link and the reason.
    fn faults(&self, page: &str) -> Vec<String> {
        let links = Links::of(self.text(page));
        // rustdoc resolves `[Name]` and `crate::name` in a chapter of the guide, and fails on a broken one.
        let is_chapter = page.starts_with("docs/guide/") && self.is_in_rustdoc(page);
        let undefined = links.used.iter().filter(|link| !links.defined.contains(&link.to));
        let undefined = undefined
            .filter(|_| !is_chapter)
            .map(|link| (link.line, format!("[{}]", link.to), "the label is not defined".into()));
        let broken = links.destinations.iter().filter_map(|link| {
            let file = link.to.split('#').next().unwrap_or_default();
            let is_path = is_chapter && !file.is_empty() && !file.contains(['.', '/']);
            let fault = if is_path { None } else { self.fault(page, &link.to) };
            Some((link.line, link.to.clone(), fault?))
        });
        let mut faults: Vec<(_, _, String)> = undefined.chain(broken).collect();
        faults.sort();
        let message = |(line, link, reason)| format!("{page}:{line}: {link}: {reason}");
        faults.into_iter().map(message).collect()
    }

    /// Returns one message for each path of the repository that a page names and that does not
    /// exist. Chapters of the guide speak of the files of their readers.
    fn stale_paths(&self, page: &str) -> Vec<String> {
        let spans = |line: &str| -> Vec<String> {
            line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let is_path = |span: &&str| {
            let roots = ["src/", "tests/", "docs/", "examples/", "benches/", "fuzz/", ".ci/"];
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            // This library has no `src/main.rs`: that is the file of a reader.
            roots.iter().any(|root| span.starts_with(root))
                && span.chars().all(is_plain)
                && *span != "src/main.rs"
        };
        let mut stale = Vec::new();
        for (number, line) in (1..).zip(self.text(page).lines()) {
            for span in spans(line).iter().map(String::as_str).filter(is_path) {
                if !self.has_file(span) && !self.has_folder(span) {
                    stale.push(format!("{page}:{number}: no such file: {span}"));
                }
            }
        }
        stale
    }

    /// Returns the reason why the link leads nowhere.
    fn fault(&self, page: &str, link: &str) -> Option<String> {
        for package in std::iter::once(self).chain(&self.others) {
            if link.starts_with(&package.site()) {
                return rustdoc::fault(package, link);
            }
        }
        if link.contains("://") || link.starts_with("mailto:") {
            return None;
        }
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let file = if path.is_empty() { page.to_owned() } else { beside(page, path) };
        let is_hidden = || self.sources().any(|text| text.contains(&format!("img[src='{link}']")));
        if !path.is_empty() && self.is_in_rustdoc(page) && !is_hidden() {
            return Some(format!(
                "a relative link is dead in rustdoc, write {}latest/…",
                self.site()
            ));
        }
        if !self.has_file(&file) && !self.has_folder(&file) {
            return Some(format!("no such file: {file}"));
        }
        let is_excluded = |path: &String| file == *path || file.starts_with(&format!("{path}/"));
        if self.excluded.iter().any(is_excluded) {
            return Some(format!("{file} is not in the package"));
        }
        let is_known = anchor.is_empty() || self.anchors(&file).contains(anchor);
        (!is_known).then(|| format!("{file} has no heading `{anchor}`"))
    }
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
    for repository in Repository::all() {
        let faults: Vec<_> = repository.pages().flat_map(|page| repository.faults(page)).collect();
        assert!(faults.is_empty(), "{} broken links:\n{}", faults.len(), faults.join("\n"));
    }
}

#[test]
fn named_files_exist() {
    for repository in Repository::all() {
        let pages = repository.pages().filter(|page| !page.starts_with("docs/guide/"));
        let stale: Vec<_> = pages.flat_map(|page| repository.stale_paths(page)).collect();
        assert!(stale.is_empty(), "{} stale paths:\n{}", stale.len(), stale.join("\n"));
    }
    let text = "Read `src/gone.rs`, `src/budget.rs`, `src/`, `src/*.rs` and `cargo test src/x`.";
    let stale = sample("DESIGN.md", text).stale_paths("DESIGN.md");
    assert_eq!(stale, ["DESIGN.md:1: no such file: src/gone.rs"]);
}

#[test]
fn every_page_and_link_is_seen() {
    let [repository, llm] = Repository::all();
    let pages: Vec<_> = repository.pages().collect();
    for page in ["README", "CHANGELOG", "CONTRIBUTING", "SECURITY", "DESIGN", "COMPARE"] {
        assert!(pages.contains(&&*format!("{page}.md")), "{page}");
    }
    let pages: Vec<_> = llm.pages().collect();
    for page in ["README", "CHANGELOG", "DESIGN", "docs/agent", "docs/guide/rules"] {
        assert!(pages.contains(&&*format!("{page}.md")), "{page}");
    }
    assert!(llm.is_in_rustdoc("README.md") && llm.is_in_rustdoc("docs/guide/rules.md"));
    assert!(Links::of(llm.text("README.md")).destinations.len() > 10);
    let readme = Links::of(repository.text("README.md"));
    assert!(readme.defined.contains("`retry`") && readme.destinations.len() > 25, "{readme:?}");
    assert!(repository.is_in_rustdoc("README.md") && !repository.is_in_rustdoc("CHANGELOG.md"));
    assert!(repository.excluded.contains(&"benches/rivals".to_owned()));
}

/// The guide of the small repository: a chapter with a figure, and a page of the root with a hidden picture.
const GUIDE: &str = "#[doc = include_str!(\"../docs/guide/load.md\")]
#[doc = \"<figure id=\\\"storm\\\">\"]
pub mod load {}

#[doc = include_str!(\"../DESIGN.md\")]
#[doc = \"<style>img[src='docs/fleet.svg'] { display: none }</style>\"]
pub mod design {}";

/// Returns a small repository with that text as one of its pages.
fn sample(page: &str, text: &str) -> Repository {
    let files = [
        (
            "src/lib.rs",
            "#![doc = include_str!(\"../README.md\")]\nmod budget;\npub mod breaker;\npub mod guide;\n\
            mod config;\npub use breaker::Breaker;\npub use budget::{Budget, Unknown};\npub use config::duration;",
        ),
        (
            "src/budget.rs",
            "/// A budget.\n///\n/// # Defaults\npub struct Budget<T>;\nimpl Budget { pub const fn new() {} }",
        ),
        (
            "src/breaker/mod.rs",
            "mod state;\n//! # When not\npub use self::state::State;\npub struct Breaker;",
        ),
        ("src/breaker/state.rs", "pub enum State { Open }"),
        ("src/config/mod.rs", "pub mod duration;"),
        ("src/config/duration.rs", "pub fn serialize() {}"),
        ("src/guide.rs", GUIDE),
        ("docs/guide/load.md", "# Load\n## Too much, `or` not"),
        ("docs/fleet.svg", ""),
        ("README.md", "# One, `two` & three\n# One, `two` & three"),
        ("DESIGN.md", "## Time"),
        ("benches/rivals/Cargo.toml", ""),
    ];
    let mut files: BTreeMap<_, _> =
        files.into_iter().map(|(file, text)| (file.to_owned(), text.to_owned())).collect();
    files.insert(page.to_owned(), text.to_owned());
    let excluded = vec!["benches/rivals".to_owned()];
    Repository { name: "resile", files, excluded, others: Vec::new() }
}

#[test]
fn links_of_every_form_are_accepted() {
    let root = "[a](README.md) [b](README.md#one-two--three) [c](README.md#one-two--three-1) [d](#top)
![e](docs/fleet.svg 'title') [f][É] [`g`] \\[h] `[i](j)` [k](DESIGN.md#time) [l](https://example.com/#m)
<img src=\"docs/fleet.svg\"> [n](docs) [o](mailto:a@example.com)\n```\n[p](q)\n```\n# Top
[é]: DESIGN.md\n[`g`]: src/lib.rs";
    assert_eq!(sample("PAGE.md", root).faults("PAGE.md"), [""; 0]);
    let chapter = "[`Name`] [a](crate::Name#defaults) [b](#load) [c](#storm)\n# Load";
    assert_eq!(sample("docs/guide/load.md", chapter).faults("docs/guide/load.md"), [""; 0]);
    let design = "[a](#top) ![b](docs/fleet.svg)\n# Top";
    assert_eq!(sample("DESIGN.md", design).faults("DESIGN.md"), [""; 0]);
    let mut beside =
        sample("README.md", "[a](https://docs.rs/resile-x/latest/resile_x/struct.Budget.html)");
    beside.others.push(Repository { name: "resile-x", ..sample("README.md", "") });
    assert_eq!(beside.faults("README.md"), [""; 0]);
    let below = "[a](../README.md) ![b](fleet.svg) [c](./guide/load.md#load)";
    assert_eq!(sample("docs/agent.md", below).faults("docs/agent.md"), [""; 0]);
    for path in [
        "",
        "resile/",
        "resile/index.html#one-two--three",
        "resile/struct.Budget.html#defaults",
        "resile/struct.Budget.html#method.new",
        "resile/breaker/index.html#when-not",
        "resile/breaker/struct.Breaker.html",
        "resile/breaker/enum.State.html#variant.Open",
        "resile/duration/fn.serialize.html",
        "resile/guide/load/index.html#too-much-or-not",
        "resile/guide/load/",
        "resile/guide/load/index.html#storm",
        "resile/guide/design/index.html#time",
    ] {
        let link = format!("[a](https://docs.rs/resile/latest/{path})");
        assert_eq!(
            sample("README.md", &format!("# One, `two` & three\n{link}")).faults("README.md"),
            [""; 0]
        );
    }
}

#[test]
fn a_broken_link_is_named_by_page_line_and_link() {
    let faults = sample("PAGE.md", "# A\n\n```\n[b](c)\n```\ntext [d](e.md)").faults("PAGE.md");
    assert_eq!(faults, ["PAGE.md:6: e.md: no such file: e.md"]);
    for link in [
        "[a](READ.md)",
        "![a](docs/none.svg)",
        "[![a](docs/none.svg)](README.md)",
        "<img src=\"docs/none.svg\">",
        "[a](#none)",
        "[a](README.md#none)",
        "[a](src/lib.rs#none)",
        "[a](benches/rivals/Cargo.toml)",
        "[a](benches/rivals)",
        "[a][b]",
        "[a][]",
        "## [Unreleased]",
        "[`a`]",
        "[a]\n\n[a]: none",
    ] {
        let faults = sample("PAGE.md", link).faults("PAGE.md");
        assert_eq!(faults.len(), 1, "{link}: {faults:?}");
    }
    for path in [
        "other/",
        "resile/none/index.html",
        "resile/budget/index.html",
        "resile/all.htm/index.html",
        "resile/none.html",
        "resile/struct.Budge.html",
        "resile/enum.Budget.html",
        "resile/struct.Breaker.html",
        "resile/breaker/state/enum.State.html",
        "resile/struct.Budget.html#none",
        "resile/struct.Budget.html#method.none",
        "resile/breaker/enum.State.html#variant.None",
        "resile/breaker/index.html#none",
        "resile/index.html#none",
        "resile/guide/none/index.html",
        "resile/guide/design/index.html#none",
        "resile/guide/load/index.html#none",
    ] {
        let link = format!("[a](https://docs.rs/resile/latest/{path})");
        let faults = sample("PAGE.md", &link).faults("PAGE.md");
        assert_eq!(faults.len(), 1, "{link}: {faults:?}");
    }
    for path in ["resile_x/struct.Budge.html", "resile/struct.Budget.html"] {
        let link = format!("[a](https://docs.rs/resile-x/latest/{path})");
        let mut page = sample("PAGE.md", &link);
        page.others.push(Repository { name: "resile-x", ..sample("README.md", "") });
        assert_eq!(page.faults("PAGE.md").len(), 1, "{path}");
    }
    // On the package page and in rustdoc a relative link is dead.
    for (page, link) in [
        ("README.md", "[a](DESIGN.md)"),
        ("docs/guide/load.md", "[a](../fleet.svg)"),
        ("DESIGN.md", "[a](README.md)"),
        ("DESIGN.md", "[a](#storm)"),
    ] {
        assert_eq!(sample(page, link).faults(page).len(), 1, "{page}: {link}");
    }
}
