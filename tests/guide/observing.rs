//! The short log: the program of the page and the lines that it writes.

use std::env;
use std::process::Command;

use crate::page::{blocks, read};

#[allow(clippy::unused_async, reason = "a stand-in waits for nothing")]
mod short {
    include!("observing/short.rs");

    /// Runs the program in a process of its own, because its subscriber is that of the process.
    #[test]
    #[ignore = "the test below starts it"]
    fn run() {
        main();
    }
}

#[test]
fn the_short_log_is_what_the_page_shows() {
    let blocks = blocks(&read("docs/guide/observing.md"));
    let program = read("tests/guide/observing/short.rs");
    let at = blocks.iter().position(|block| block.text == program).unwrap();
    let mut run = Command::new(env::current_exe().unwrap());
    run.args(["observing::short::run", "--exact", "--ignored", "--nocapture"]);
    let output = run.env("NO_COLOR", "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let is_line = |line: &&str| line.starts_with("WARN") || line.starts_with("INFO");
    let printed: Vec<_> = printed.lines().map(str::trim_start).filter(is_line).collect();
    let shown: Vec<_> = blocks[at + 1].text.lines().collect();
    assert_eq!(printed, shown);
    assert!(shown.iter().all(|line| line.len() <= 120));
}
