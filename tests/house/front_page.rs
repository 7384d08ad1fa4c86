//! The program of the front page: it can be pasted, and it does what the page says.
//!
//! The program asks a public address. So it runs in a process of its own whose proxy is a server of the test.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Instant;

include!("front_page/program.rs");

const README: &str = include_str!("../../README.md");

#[test]
fn the_front_page_has_the_program() {
    let program = include_str!("front_page/program.rs");
    assert!(README.contains(&format!("```rust,no_run\n{program}```\n")), "{program}");
    assert!(program.lines().all(|line| line.chars().count() <= 80), "{program}");
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines = program.lines().filter(is_code).count();
    assert!(lines <= 20, "{lines} lines");
}

/// The process of the test below.
#[test]
#[ignore = "it needs the proxy"]
fn the_program_runs() {
    main().unwrap();
}

#[test]
fn the_program_of_the_front_page_gets_the_page_over_two_failures() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || serve(&listener));

    let began = Instant::now();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "front_page::the_program_runs", "--ignored", "--nocapture"]);
    for name in ["NO_PROXY", "no_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy", "REQUEST_METHOD"] {
        program.env_remove(name);
    }
    let output = program.env("http_proxy", format!("http://{address}")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    server.join().unwrap();

    assert!(text.contains("\nHello.\n"), "{text}");
    assert!(began.elapsed() >= Duration::from_secs(1), "the pause was shorter than `Retry-After`");
    // The front page shows the beginnings of the same lines, with other figures.
    let shown = README.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let logged: Vec<_> = text.lines().filter(|line| line.contains(" WARN ")).collect();
    let shown: Vec<_> = shown.lines().filter(|line| line.contains("WARN ")).collect();
    assert_eq!(logged.len(), shown.len(), "{text}");
    for (logged, shown) in logged.into_iter().zip(shown) {
        let beginning = essence(shown.strip_suffix(" …").unwrap());
        assert!(essence(logged).starts_with(&beginning), "{logged}\n{shown}");
    }
}

/// Returns the words of a line of the log without its figures. If the random part of a delay is next to nothing, the
/// line does not name the wait a second time, and a short delay has words of its own.
fn essence(line: &str) -> String {
    let (_, line) = line.split_once("WARN ").unwrap();
    let line = line.replace(", as the upstream asked", ", the upstream asked for a wait of 1.0s");
    let line = line.replace("retrying within 1ms", "retrying in 1ms");
    let line = line.replace("retrying at once", "retrying in 0ms");
    line.chars().filter(|c| !c.is_ascii_digit() && !".µms ".contains(*c)).collect()
}

#[test]
fn no_drawn_delay_changes_the_essence_of_a_line() {
    let of = |delay: &str| essence(&format!("WARN site: retrying {delay}: 503"));
    assert_eq!(
        of("in 1.0s, as the upstream asked"),
        of("in 1.2s, the upstream asked for a wait of 1.0s")
    );
    assert_eq!([of("within 1ms"), of("at once")], [of("in 100.0ms"), of("in 9.1s")]);
}

/// Refuses the first request for a second, drops the second one, and answers the third.
fn serve(listener: &TcpListener) {
    for answer in [
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n",
        "",
        "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n",
    ] {
        let (mut stream, _) = listener.accept().unwrap();
        let first = request(&stream);
        assert_eq!(first, "GET http://example.com/ HTTP/1.1");
        if !answer.is_empty() {
            write!(stream, "{answer}connection: close\r\n\r\n").unwrap();
            if answer.contains("200") {
                write!(stream, "Hello.").unwrap();
            }
        }
    }
}

/// Reads the head of a request and returns its first line.
fn request(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let first = lines.next().unwrap_or_default();
    lines.find(String::is_empty);
    first
}
