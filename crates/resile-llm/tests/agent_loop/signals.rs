//! Ctrl-C during a call and during a wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use crate::program::{Running, command};

/// Starts a provider that calls `then` for each request. Returns its address and a channel with one
/// message for each request.
fn provider(then: impl Fn(&mut TcpStream) + Send + 'static) -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (report, requests) = mpsc::channel();
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 16 << 10];
            _ = stream.read(&mut request).unwrap();
            then(&mut stream);
            open.push(stream);
            if report.send(()).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

fn interrupt(program: &Running) {
    let sent = Command::new("kill").args(["-INT", &program.0.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Returns the summary, which is the last line, after the program has ended with 130.
fn stopped(mut program: Running, out: impl BufRead) -> serde_json::Value {
    let last = out.lines().map(Result::unwrap).last().unwrap();
    assert_eq!(program.0.wait().unwrap().code(), Some(130));
    let summary: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&summary["state"], &summary["success"]), (&"stopped".into(), &false.into()));
    assert_eq!(
        summary["attempts"].as_u64(),
        summary["calls"].as_u64().zip(summary["retries"].as_u64()).map(|(a, b)| a + b)
    );
    summary
}

#[test]
fn ctrl_c_ends_a_call() {
    let (url, requests) = provider(|_| ()); // never answers
    let mut program = Running(command(&["--json"]).env("OPENAI_BASE_URL", url).spawn().unwrap());
    let out = BufReader::new(program.0.stdout.take().unwrap());
    requests.recv().unwrap();
    interrupt(&program);
    let summary = stopped(program, out);
    assert_eq!((&summary["attempts"], &summary["waited_ms"]), (&1.into(), &0.into()));
}

#[test]
fn ctrl_c_ends_a_wait() {
    let answer = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 50\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (url, _requests) = provider(move |stream| stream.write_all(answer.as_bytes()).unwrap());
    let mut program = Running(command(&["--json"]).env("OPENAI_BASE_URL", url).spawn().unwrap());
    let mut out = BufReader::new(program.0.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(r#""event":"waiting""#) {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "the program ended without a wait");
    }
    interrupt(&program);
    let summary = stopped(program, out);
    assert_eq!((&summary["attempts"], &summary["retries"]), (&1.into(), &0.into()));
    assert!(summary["waited_ms"].as_u64().unwrap() < 50_000, "the rest of the wait is not counted");
}
