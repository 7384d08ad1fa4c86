//! The program of a README, run against a server of its test.

use std::process::Command;

use tonic::transport::server::{Router, TcpIncoming};

use crate::line::line;

/// Returns the lines that a program prints against a server, and those of the block of its README that
/// begins with `start`.
pub(crate) fn lines(program: &str, server: Router, readme: &str, start: &str) -> [Vec<String>; 2] {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", incoming.local_addr().unwrap());
    tokio::spawn(server.serve_with_incoming(incoming));
    let run = || Command::new(program).arg(url).env("NO_COLOR", "1").output();
    let output = tokio::task::block_in_place(run).unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut blocks = readme.split("```text\n");
    let shown = blocks.find(|block| block.starts_with(start));
    let shown = shown.unwrap().split("```").next().unwrap();
    [printed.as_str(), shown].map(|text| text.lines().map(line).collect())
}

/// Returns the build script of a program with one service, which is that of this package for all of them.
pub(crate) fn build(service: &str) -> String {
    let script = include_str!("../../build.rs");
    let (_, script) = script.split_once("\n\n").unwrap();
    let (before, rest) = script.split_once("compile(").unwrap();
    let (_, after) = rest.split_once(")?").unwrap();
    format!("{before}compile([\"proto/{service}.proto\"], [\"proto\"])?{after}")
}
