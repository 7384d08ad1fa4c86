//! The blocks of a page, and patterns of lines.

use std::fs;
use std::path::Path;

/// A block of code with its language.
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
}

/// Returns the text of a file of the repository.
pub(crate) fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns the blocks of code of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let parts: Vec<_> = page.split("```").collect();
    let inside = parts.iter().skip(1).step_by(2);
    inside
        .map(|part| {
            let (language, text) = part.split_once('\n').unwrap();
            Block { language: language.to_owned(), text: text.to_owned() }
        })
        .collect()
}

/// Returns whether `line` has the form of `pattern`, in which each `…` stands for some text.
pub(crate) fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn a_pattern_fits_its_lines_only() {
    for (pattern, line, is_so) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a…", "ab", true),
        ("…b", "ab", true),
        ("a…c…e", "abcde", true),
        ("a…c…e", "abde", false),
        ("a…a", "a", false),
        ("…", "", true),
    ] {
        assert_eq!(fits(pattern, line), is_so, "{pattern} {line}");
    }
}
