//! Ctrl-C, in the middle of a call and in the middle of a wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use crate::program::{Running, command};

/// A provider that takes each request and does `then` with it; returns its address, and where it tells of each.
fn provider(then: impl Fn(&mut TcpStream) + Send + 'static) -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 16 << 10];
            _ = stream.read(&mut request).unwrap();
            then(&mut stream);
            open.push(stream);
            if tell.send(()).is_err() {
                return;
            }
        }
    });
    (url, told)
}

fn interrupt(program: &Running) {
    let sent = Command::new("kill").args(["-INT", &program.0.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Its last line, which is the summary, after it has ended with 130.
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
fn in_a_call() {
    let (url, told) = provider(|_| ()); // never answers
    let mut program = Running(command(&["--json"]).env("OPENAI_BASE_URL", url).spawn().unwrap());
    let out = BufReader::new(program.0.stdout.take().unwrap());
    told.recv().unwrap();
    interrupt(&program);
    let summary = stopped(program, out);
    assert_eq!((&summary["attempts"], &summary["waited_ms"]), (&1.into(), &0.into()));
}

#[test]
fn in_a_wait() {
    let answer = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 50\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (url, _told) = provider(move |stream| stream.write_all(answer.as_bytes()).unwrap());
    let mut program = Running(command(&["--json"]).env("OPENAI_BASE_URL", url).spawn().unwrap());
    let mut out = BufReader::new(program.0.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(r#""event":"waiting""#) {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended without a wait");
    }
    interrupt(&program);
    let summary = stopped(program, out);
    assert_eq!((&summary["attempts"], &summary["retries"]), (&1.into(), &0.into()));
    assert!(summary["waited_ms"].as_u64().unwrap() < 50_000, "the rest of the wait is not counted");
}
