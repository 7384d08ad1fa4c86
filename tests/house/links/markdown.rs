//! Finds the links, the pictures and the headings of a Markdown page.

use std::collections::{BTreeMap, BTreeSet};

/// A link of a page.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    /// The line of the link, from 1.
    pub(super) line: usize,
    /// The destination, or the label of a link by reference.
    pub(super) to: String,
}

/// All links of a page.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The destinations that stand in the text, also in HTML attributes.
    pub(super) inline: Vec<Link>,
    /// The destinations by their labels. The first definition of a label counts.
    pub(super) defined: BTreeMap<String, Link>,
    /// The labels in use, in lower case.
    pub(super) used: Vec<Link>,
}

impl Links {
    pub(super) fn of(page: &str) -> Self {
        let (text, mut links, mut at) = (prose(page), Self::default(), 0);
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            match c {
                '\\' => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
                '`' => at += code(rest),
                '[' => {
                    if let Some(end) = closing(rest, ('[', ']')) {
                        links.add(&text, at, end);
                    }
                    at += 1; // a link may have a picture in its brackets
                }
                _ => {
                    for attribute in ["src=\"", "href=\""] {
                        if let Some((to, _)) =
                            rest.strip_prefix(attribute).and_then(|to| to.split_once('"'))
                        {
                            links.inline.push(Link { line: line(&text, at), to: to.into() });
                        }
                    }
                    at += c.len_utf8();
                }
            }
        }
        links
    }

    /// Adds the link whose bracket opens at `at` and closes `end` bytes later.
    fn add(&mut self, text: &str, at: usize, end: usize) {
        let (label, after) = (&text[at + 1..at + end], &text[at + end + 1..]);
        let line = line(text, at);
        let label = folded(label);
        let destination = |text: &str| {
            let to = text.split_whitespace().next().unwrap_or_default();
            Link { line, to: to.trim_matches(['<', '>']).to_owned() }
        };
        let inline = if after.starts_with('(') { closing(after, ('(', ')')) } else { None };
        let is_line_start = at == 0 || text[..at].ends_with('\n');
        if let Some(end) = inline {
            self.inline.push(destination(&after[1..end]));
        } else if let Some(after) = after.strip_prefix(':').filter(|_| is_line_start) {
            self.defined.entry(label).or_insert(destination(after));
        } else if !label.is_empty() && (!after.starts_with('[') || after.starts_with("[]")) {
            self.used.push(Link { line, to: label });
        } // else the next pair of brackets has the label
    }
}

/// Returns a label in the form in which labels are compared.
pub(super) fn folded(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Returns the anchors of the headings of a page.
pub(super) fn anchors(page: &str) -> BTreeSet<String> {
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
        let numbered = (1..).map(|n| format!("{slug}-{n}"));
        let free =
            std::iter::once(slug.clone()).chain(numbered).find(|slug| !anchors.contains(slug));
        anchors.extend(free);
    }
    anchors
}

/// Returns the page with the lines of its code blocks and of its hidden parts emptied, so that line numbers
/// stay.
fn prose(page: &str) -> String {
    let mut is_fenced = false;
    let visible = visible(page);
    let prose = visible.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        if is_fenced || is_fence { "" } else { line }
    });
    prose.collect::<Vec<_>>().join("\n")
}

/// Returns the page with the lines of its comments emptied. They hold what waits for the release.
pub(super) fn visible(page: &str) -> String {
    let mut is_hidden = false;
    let visible = page.lines().map(|line| {
        is_hidden |= line.starts_with("<!--");
        let visible = if is_hidden { "" } else { line };
        is_hidden &= !line.ends_with("-->");
        visible
    });
    visible.collect::<Vec<_>>().join("\n")
}

fn line(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns the length of the code span at the start of `text`, or of its backticks if no span is there.
fn code(text: &str) -> usize {
    let marks = text.len() - text.trim_start_matches('`').len();
    let end = if marks == 0 { None } else { text[marks..].find(&text[..marks]) };
    end.map_or(marks, |end| marks + end + marks)
}

/// Returns the place of the bracket that closes the one at the start of `text`.
fn closing(text: &str, (open, close): (char, char)) -> Option<usize> {
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
