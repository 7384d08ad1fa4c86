//! The links of the Markdown files: on the repository's page, in the package, and of the README in rustdoc.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGES: [&str; 4] = ["README.md", "DESIGN.md", "CHANGELOG.md", "COMPARE.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// What a page says outside its blocks of code.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let prose = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    prose.collect::<Vec<_>>().join("\n")
}

/// How long the span of code is that `text` begins with; nothing where it begins with none.
fn code(text: &str) -> usize {
    let marks = text.len() - text.trim_start_matches('`').len();
    let end = if marks == 0 { None } else { text[marks..].find(&text[..marks]) };
    end.map_or(marks, |end| marks + end + marks)
}

/// Where the bracket that `text` begins with is closed.
fn closed(text: &str, (open, close): (char, char)) -> Option<usize> {
    let (mut depth, mut at) = (0_u32, 0);
    while let Some(c) = text[at..].chars().next() {
        match c {
            '\\' => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            '`' => at += code(&text[at..]),
            _ => {
                depth = if c == open { depth + 1 } else { depth - u32::from(c == close) };
                if depth == 0 {
                    return Some(at);
                }
                at += c.len_utf8();
            }
        }
    }
    None
}

/// What is written of links: destinations, inline or of a definition, the labels that are defined, those that are used.
#[derive(Debug, Default)]
struct Links {
    inline: Vec<String>,
    defined: Vec<(String, String)>,
    used: BTreeSet<String>,
}

impl Links {
    fn of(page: &str) -> Self {
        let (text, mut links, mut at) = (prose(page), Self::default(), 0);
        while let Some(c) = text[at..].chars().next() {
            match c {
                '\\' => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
                '`' => at += code(&text[at..]),
                '[' => {
                    if let Some(end) = closed(&text[at..], ('[', ']')) {
                        links.add(
                            &text[at + 1..at + end],
                            &text[at + end + 1..],
                            text[..at].ends_with('\n'),
                        );
                    }
                    at += 1; // what stands within it may be a link too
                }
                _ => at += c.len_utf8(),
            }
        }
        links
    }

    /// Takes in what stands in brackets, and may begin a line, by what follows it.
    fn add(&mut self, label: &str, after: &str, begins: bool) {
        let normal =
            |label: &str| label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let destination =
            |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
        let inline = if after.starts_with('(') { closed(after, ('(', ')')) } else { None };
        if let Some(end) = inline {
            self.inline.push(destination(&after[1..end]));
        } else if let Some(after) = after.strip_prefix(':').filter(|_| begins) {
            self.defined.push((normal(label), destination(after)));
        } else if !label.is_empty() && (!after.starts_with('[') || after.starts_with("[]")) {
            self.used.insert(normal(label));
        } // else the label is that which follows
    }
}

/// The anchors of a page's headings, as the repository's page makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in prose(page).lines() {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept =
            title.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String =
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|n| format!("{slug}-{n}"));
        let free = std::iter::once(slug.clone()).chain(again).find(|slug| !anchors.contains(slug));
        anchors.extend(free);
    }
    anchors
}

fn is_relative(destination: &str) -> bool {
    !destination.contains("://") && !destination.starts_with("mailto:")
}

/// What of `Cargo.toml` is not in the package.
fn excluded(manifest: &str) -> Vec<String> {
    let line =
        manifest.lines().find_map(|line| line.strip_prefix("exclude = [")).unwrap_or_default();
    line.split('"').skip(1).step_by(2).map(|path| path.trim_matches('/').to_owned()).collect()
}

/// Whether a file of the source defines what a link into the crate's documentation leads to.
fn is_item(url: &str, sources: &str) -> bool {
    let file =
        url.split(['#', '?']).next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let Some((kind, name)) = file.strip_suffix(".html").and_then(|file| file.split_once('.'))
    else {
        return matches!(file, "" | "index.html" | "resile" | "latest");
    };
    let kind = if kind == "constant" { "const" } else { kind };
    ["pub ", "pub const "].iter().any(|public| {
        let item = format!("{public}{kind} {name}");
        let ends = |after: &str| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        sources.match_indices(&item).any(|(at, _)| ends(&sources[at + item.len()..]))
    })
}

/// What is wrong with the links of a page.
fn faults(page: &str, excluded: &[String], sources: &str) -> Vec<String> {
    let links = Links::of(page);
    let mut faults = Vec::new();
    for label in &links.used {
        if !links.defined.iter().any(|(defined, _)| defined == label) {
            faults.push(format!("[{label}] is not defined"));
        }
    }
    for destination in
        links.inline.iter().chain(links.defined.iter().map(|(_, destination)| destination))
    {
        if destination.starts_with("https://docs.rs/resile/") && !is_item(destination, sources) {
            faults.push(format!("{destination}: no such item"));
        }
        if !is_relative(destination) {
            continue;
        }
        let (file, anchor) = destination.split_once('#').unwrap_or((destination, ""));
        let outside = |path: &String| file == path || file.starts_with(&format!("{path}/"));
        if !file.is_empty() && !root().join(file).exists() {
            faults.push(format!("{destination}: no such file"));
        } else if excluded.iter().any(outside) {
            faults.push(format!("{destination}: not in the package"));
        } else if !anchor.is_empty() {
            let target = if file.is_empty() { page.to_owned() } else { read(file) };
            if !anchors(&target).contains(anchor) {
                faults.push(format!("{destination}: no such heading"));
            }
        }
    }
    faults
}

/// What of the README leads nowhere in rustdoc, where `lib` defines its labels anew and the first definition counts.
fn faults_in_rustdoc(readme: &str, lib: &str) -> Vec<String> {
    let links = Links::of(readme);
    let anew = |label: &str| lib.to_lowercase().contains(&format!("\n#![doc = \"[{label}]: "));
    let leads_out = |destination: &str| is_relative(destination) && !destination.starts_with('#');
    let inline = links.inline.iter().filter(|destination| leads_out(destination));
    let defined =
        links.defined.iter().filter(|(label, destination)| leads_out(destination) && !anew(label));
    let inline = inline
        .map(|destination| format!("{destination}: give it a label, and define that in lib.rs"));
    inline
        .chain(
            defined
                .map(|(label, _)| format!("[{label}] is not defined in lib.rs for all features")),
        )
        .collect()
}

fn sources(folder: &Path) -> String {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .map(|path| {
            if path.is_dir() {
                sources(&path)
            } else {
                fs::read_to_string(path).unwrap_or_default()
            }
        })
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let (excluded, sources) = (excluded(&read("Cargo.toml")), sources(&root().join("src")));
    let mut all = faults_in_rustdoc(&read("README.md"), &read("src/lib.rs"));
    for file in PAGES {
        let faults = faults(&read(file), &excluded, &sources);
        all.extend(faults.into_iter().map(|fault| format!("{file}: {fault}")));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn links_of_every_form_are_seen() {
    let links = Links::of(&read("README.md"));
    assert!(
        links.defined.len() > 30
            && links.used.contains("`retry`")
            && links.used.contains("collapse")
    );
    assert!(Links::of(&read("DESIGN.md")).inline.contains(&"#cost".to_owned()));
    assert!(excluded(&read("Cargo.toml")).contains(&"benches/rivals".to_owned()));
    assert!(anchors(&read("README.md")).contains("see-it-work"));
}

#[test]
fn dead_links_are_found() {
    let sources = "pub struct GaveUp<E>;\npub const fn interactive() -> X {}";
    let of = |page: &str| faults(page, &["benches/rivals".to_owned()], sources);
    let page = "# One, `two` & three\n# One, `two` & three\n[a](README.md) [b](#one-two--three) [c](#one-two--three-1)
![d](docs/fleet.svg 'title') [e][É] [`f`] \\[g] `[h](i)` [j](README.md#features) [k](https://example.com/#l)
[m](https://docs.rs/resile/latest/resile/struct.GaveUp.html#method.reason) [n](https://docs.rs/resile/0.1.0/resile/)
[o](https://docs.rs/resile/latest/resile/llm/fn.interactive.html)
```\n[p](q)\n```\n[é]: DESIGN.md\n[`f`]: src/lib.rs";
    assert_eq!(of(page), [""; 0]);
    for dead in [
        "[a](READ.md)",
        "![a](docs/none.svg)",
        "[![a](docs/none.svg)](README.md)",
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
        "[a](https://docs.rs/resile/latest/resile/struct.Gave.html)",
        "[a](https://docs.rs/resile/latest/resile/enum.GaveUp.html)",
    ] {
        assert_eq!(of(dead).len(), 1, "{dead}: {:?}", of(dead));
    }
    let lib = "\n#![doc = \"[`a`]: A\"]\n#![cfg_attr(feature = \"f\", doc = \"[`b`]: B\")]\n";
    assert_eq!(faults_in_rustdoc("[`a`] [c](#c) [d](https://d)\n\n[`A`]: src/a.rs", lib), [""; 0]);
    assert_eq!(faults_in_rustdoc("[`b`] [c](c.md)\n\n[`b`]: src/b.rs", lib).len(), 2);
}
