//! A TCP proxy between members and a server, with faults.

#![allow(dead_code, reason = "each test uses some of it")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// What the proxy does with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Passes everything.
    Pass,
    /// Passes each answer after a time.
    Delay(Duration),
    /// Closes all connections, and each new one at once.
    Cut,
    /// Accepts connections and passes nothing. What it got is passed later.
    Silent,
    /// Passes the requests. Replaces the answers by bytes that are none.
    Garbage,
    /// Loses each message of a channel.
    Mute,
}

/// A running proxy, which ends with this value.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    rules: watch::Sender<Rules>,
    notes: Arc<Notes>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    way: Way,
    target: u16,
    /// The number of the first connection that is served.
    served_from: u64,
}

/// What the proxy has seen.
#[derive(Debug, Default)]
struct Notes {
    connections: AtomicU64,
    requests: Mutex<Vec<u8>>,
}

/// One connection.
struct Line {
    number: u64,
    rules: watch::Receiver<Rules>,
    notes: Arc<Notes>,
}

impl Proxy {
    /// Starts a proxy in front of a server on 127.0.0.1.
    pub(crate) async fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (rules, seen) = watch::channel(Rules { way: Way::Pass, target, served_from: 0 });
        let notes = Arc::<Notes>::default();
        let task = tokio::spawn(accept(listener, seen, Arc::clone(&notes)));
        Self { port, rules, notes, task }
    }

    /// Returns the address for a client without credentials.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn set(&self, way: Way) {
        self.rules.send_modify(|rules| rules.way = way);
    }

    /// Sends new connections to another server. Earlier connections stay.
    pub(crate) fn switch(&self, target: u16) {
        self.rules.send_modify(|rules| rules.target = target);
    }

    /// Serves the present connections never again and does not close them, as if their server had
    /// lost its power. New connections are served.
    pub(crate) fn strand(&self) {
        let connections = self.notes.connections.load(Ordering::Relaxed);
        self.rules.send_modify(|rules| rules.served_from = connections);
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.notes.connections.load(Ordering::Relaxed)
    }

    /// Returns the bytes of all requests so far.
    pub(crate) fn requests(&self) -> Vec<u8> {
        lock(&self.notes.requests).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, rules: watch::Receiver<Rules>, notes: Arc<Notes>) {
    // The connections end with the proxy.
    let mut lines = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let number = notes.connections.fetch_add(1, Ordering::Relaxed);
        let line = Line { number, rules: rules.clone(), notes: Arc::clone(&notes) };
        lines.spawn(line.serve(client));
        while lines.try_join_next().is_some() {}
    }
}

impl Line {
    /// Serves the connection until one end closes it.
    async fn serve(self, client: TcpStream) {
        let Rules { way, target, .. } = *self.rules.borrow();
        if way == Way::Cut {
            return;
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, target));
        let Ok(server) = TcpStream::connect(address).await else { return };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let (sender, receiver) = unbounded_channel();
        let mut rules = self.rules.clone();
        tokio::select! {
            _ = rules.wait_for(|rules| rules.way == Way::Cut) => {}
            () = self.pass_requests(from_client, to_server) => {}
            () = self.read_answers(from_server, sender) => {}
            () = pass_answers(receiver, to_client) => {}
        }
    }

    /// Waits until the connection is served. Returns what to do with it.
    async fn way(&self) -> Way {
        let mut rules = self.rules.clone();
        let is_served =
            |rules: &Rules| rules.way != Way::Silent && self.number >= rules.served_from;
        match rules.wait_for(is_served).await {
            Ok(rules) => rules.way,
            Err(_) => Way::Cut, // the proxy is gone, and this task with it
        }
    }

    async fn pass_requests(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let bytes = &buffer[..count];
            lock(&self.notes.requests).extend_from_slice(bytes);
            self.way().await;
            if to.write_all(bytes).await.is_err() {
                return;
            }
        }
    }

    async fn read_answers(&self, mut from: OwnedReadHalf, to: UnboundedSender<(Instant, Vec<u8>)>) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let mut bytes = buffer[..count].to_vec();
            let mut at = Instant::now();
            match self.way().await {
                Way::Delay(delay) => at += delay,
                Way::Garbage => bytes.fill(b'?'),
                Way::Mute => bytes = without_messages(bytes),
                Way::Pass | Way::Cut | Way::Silent => {}
            }
            if to.send((at, bytes)).is_err() {
                return;
            }
        }
    }
}

async fn pass_answers(mut from: UnboundedReceiver<(Instant, Vec<u8>)>, mut to: OwnedWriteHalf) {
    while let Some((at, bytes)) = from.recv().await {
        sleep_until(at).await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Removes the messages of channels. Each is expected to be whole.
fn without_messages(mut bytes: Vec<u8>) -> Vec<u8> {
    const START: &[u8] = b">3\r\n$7\r\nmessage\r\n";
    while let Some(start) = bytes.windows(START.len()).position(|window| window == START) {
        // The channel and the payload have two lines each.
        let mut lines = bytes[start + START.len()..].iter().enumerate();
        let end = lines.by_ref().filter(|(_, byte)| **byte == b'\n').nth(3);
        let length = end.map_or(bytes.len() - start, |(index, _)| START.len() + index + 1);
        bytes.drain(start..start + length);
    }
    bytes
}
