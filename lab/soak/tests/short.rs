//! A short run of the program loses nothing, and its exit codes are those of its help.

use std::process::{Command, Output};

fn soak(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_soak")).args(arguments).output().unwrap()
}

#[test]
fn a_short_run_loses_nothing() {
    for threads in ["1", "2"] {
        let run = soak(&["--calls", "20000", "--seed", "1", "--threads", threads]);
        let said = String::from_utf8_lossy(&run.stdout);
        assert_eq!(run.status.code(), Some(0), "{said}");
        assert!(said.contains("conserved at "), "{said}");
    }
}

#[test]
fn a_wrong_argument_is_a_wrong_usage() {
    assert_eq!(soak(&["--help"]).status.code(), Some(0));
    assert_eq!(soak(&["--no-such-argument"]).status.code(), Some(2));
    assert_eq!(soak(&["--threads", "0"]).status.code(), Some(2));
}
