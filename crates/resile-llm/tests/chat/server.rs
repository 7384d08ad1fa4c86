//! A provider that follows a script, on real sockets, and a clock that runs with the program.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A part of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// These bytes.
    Send(String),
    /// Nothing for some seconds.
    Wait(u64),
    /// The connection is reset. Otherwise it is closed.
    Reset,
}

/// The answers of the first model, in their order. After the last one it gives it again. All other
/// models give `GOOD`.
pub(crate) struct Provider {
    pub(crate) base: String,
    /// The model of each request.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    pub(crate) async fn start(first: &'static str, answers: &[Vec<Step>], good: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let mut answers = VecDeque::from(answers.to_vec());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(model) = read_model(&mut stream).await else { continue };
                let answer = match answers.front() {
                    Some(answer) if model == first => answer.clone(),
                    _ => good.clone(),
                };
                if model == first && answers.len() > 1 {
                    answers.pop_front();
                }
                seen.lock().unwrap().push(model);
                tokio::spawn(write(stream, answer));
            }
        });
        Self { base, requests }
    }
}

/// Reads a request. Returns the model that it names.
async fn read_model(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((_, body)) = text.split_once("\r\n\r\n") {
            if let Ok(body) = serde_json::from_str::<serde_json::Value>(body) {
                return Some(body["model"].as_str()?.to_owned());
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

async fn write(mut stream: TcpStream, answer: Vec<Step>) {
    for step in answer {
        match step {
            Step::Send(bytes) => {
                if stream.write_all(bytes.as_bytes()).await.is_err() {
                    return;
                }
            }
            Step::Wait(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            Step::Reset => {
                // The client has the bytes before the reset.
                tokio::time::sleep(Duration::from_millis(500)).await;
                let _ = stream.set_zero_linger();
            }
        }
    }
}

/// Lets tokio's paused clock run with the turns of the runtime, and not with the time of the machine. A
/// busy machine makes both slower. An exchange of bytes takes some turns, which are less than a second
/// of this clock.
pub(crate) fn run_clock() -> tokio::task::JoinHandle<()> {
    tokio::spawn(async {
        loop {
            for _ in 0..32 {
                tokio::task::yield_now().await;
            }
            tokio::time::advance(Duration::from_millis(20)).await;
        }
    })
}
