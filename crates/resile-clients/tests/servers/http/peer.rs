//! A peer over TCP that a test scripts. It counts the requests that reached it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running peer. It ends with this value.
#[derive(Debug)]
pub(super) struct Peer {
    port: u16,
    taken: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Peer {
    /// Starts a peer that serves each connection so.
    pub(super) async fn start<F>(serve: impl Fn(Wire) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let taken = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&taken);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Wire { stream, taken: Arc::clone(&count) }));
            }
        });
        Self { port, taken, task }
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Returns the number of requests whose head arrived. They may have been executed.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a port where nobody listens.
pub(super) async fn nobody() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    listener.local_addr().unwrap().port()
}

/// A connection of a client.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    taken: Arc<AtomicUsize>,
}

impl Wire {
    /// Reads the head of a request of HTTP/1.
    pub(super) async fn head(&mut self) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.unwrap());
        }
        self.taken.fetch_add(1, Ordering::SeqCst);
    }

    /// Reads the frames of HTTP/2 up to the head of a request.
    pub(super) async fn headers(&mut self) {
        let mut preface = [0; 24];
        self.stream.read_exact(&mut preface).await.unwrap();
        loop {
            let mut frame = [0; 9];
            self.stream.read_exact(&mut frame).await.unwrap();
            let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.stream.read_exact(&mut payload).await.unwrap();
            if frame[3] == 1 {
                self.taken.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }

    /// Waits until the client closes the connection.
    pub(super) async fn until_closed(mut self) {
        let mut bytes = [0; 1024];
        while self.stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
    }
}
