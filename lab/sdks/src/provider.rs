//! A server that fails once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// The first answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// These bytes. Then the connection is closed.
    Bytes(Vec<u8>),
    /// These bytes. Then the connection is reset.
    Reset(Vec<u8>),
    /// Nothing at all.
    Silence,
}

/// Returns a whole answer.
#[must_use]
pub fn answer(status: &str, headers: &[&str], body: &str) -> Answer {
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    for header in headers {
        head = head + header + "\r\n";
    }
    Answer::Bytes(format!("{head}connection: close\r\n\r\n{body}").into_bytes())
}

/// Returns an address that refuses connections as long as the socket lives: the port is bound but does not listen, so
/// no other test can take it.
///
/// # Panics
///
/// Panics if the system has no free port.
#[must_use]
pub fn refusing() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// A server that answers the first request with the failure and all others with a good answer.
pub(crate) struct Provider {
    address: SocketAddr,
    pub(crate) requests: Arc<AtomicU32>,
}

impl Provider {
    pub(crate) async fn start(first: Answer, good: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicU32::new(0));
        let count = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let is_first = count.fetch_add(1, SeqCst) == 0;
                let answer = if is_first { first.clone() } else { good.clone() };
                tokio::spawn(serve(stream, answer));
            }
        });
        Self { address, requests }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

/// Reads one request, writes the answer and ends the connection.
async fn serve(mut stream: TcpStream, answer: Answer) {
    let mut read = Vec::new();
    while !is_whole(&read) {
        match stream.read_buf(&mut read).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    match answer {
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Answer::Reset(bytes) => {
            let _ = stream.write_all(&bytes).await;
            // The client has the bytes before the reset.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let _ = stream.set_zero_linger();
        }
        Answer::Silence => std::future::pending().await,
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}
