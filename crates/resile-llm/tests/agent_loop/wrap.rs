//! The lines of the examples on a terminal.

use crate::terminal::wrap;

#[test]
fn every_line_of_a_text_is_indented() {
    let message = "  message  Quota exceeded.\n* Quota: tokens\r\n\n* Quota: requests";
    let shown =
        "  message  Quota exceeded.\n          * Quota: tokens\n\n          * Quota: requests";
    assert_eq!(wrap(message, 10), shown);
}

#[test]
fn a_line_is_broken_between_words() {
    let text = ["word "; 20].concat();
    let wrapped = wrap(&format!("{text}\n{text}"), 4);
    let lines: Vec<_> = wrapped.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| line.len() <= 80), "{wrapped}");
    assert!(lines[1..].iter().all(|line| line.starts_with("    word")), "{wrapped}");
    assert_eq!(wrap("", 4), "");
}
