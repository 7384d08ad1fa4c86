//! How calls end: the program of the page and what it prints.

use std::cell::RefCell;

use crate::page::{blocks, read};

thread_local! {
    /// The lines that the program has printed.
    static PRINTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the lines for the test.
macro_rules! println {
    ($($words:tt)*) => { super::PRINTED.with_borrow_mut(|lines| lines.push(format!($($words)*))) };
}

#[allow(clippy::unused_async, reason = "a stand-in waits for nothing")]
mod shop {
    include!("ends/shop.rs");
    pub(super) fn run() {
        main();
    }
}

#[test]
fn the_program_prints_what_the_page_shows() {
    let blocks = blocks(&read("docs/guide/ends.md"));
    let at = blocks.iter().position(|block| block.language == "text").unwrap();
    assert_eq!(blocks.iter().filter(|block| block.language == "text").count(), 1);
    assert_eq!(blocks[at - 1].text, read("tests/guide/ends/shop.rs"));
    shop::run();
    // The open time of the breaker has a jitter of a fifth, and half a second of it is over.
    let (printed, shown) = (PRINTED.take(), blocks[at].text.lines().collect::<Vec<_>>());
    assert_eq!(printed.len(), shown.len());
    for (line, pattern) in printed.iter().zip(shown) {
        let (start, wait) = pattern.split_once("try again in ").unwrap_or((pattern, ""));
        if wait.is_empty() {
            assert_eq!(line, pattern);
            continue;
        }
        let wait = line.strip_prefix(start).unwrap().strip_prefix("try again in ").unwrap();
        let seconds: f64 = wait.strip_suffix('s').unwrap().parse().unwrap();
        assert!((3.5..=5.5).contains(&seconds), "{line}");
    }
}
