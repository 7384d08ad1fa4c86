//! A forwarder of TCP, as a proxy or a moving address is. It can hold answers back and cut connections.

#![allow(dead_code, reason = "each part uses some of it")]

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A forwarder. It ends with this value.
#[derive(Debug)]
pub(crate) struct Forwarder {
    port: u16,
    target: Arc<AtomicU16>,
    holds: watch::Sender<bool>,
    cuts: watch::Sender<u64>,
    task: JoinHandle<()>,
}

impl Forwarder {
    /// Forwards a port of its own to `target`.
    pub(crate) async fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Arc::new(AtomicU16::new(target));
        let (holds, cuts) = (watch::Sender::new(false), watch::Sender::new(0));
        let task = tokio::spawn(accept(
            listener,
            Arc::clone(&target),
            holds.subscribe(),
            cuts.subscribe(),
        ));
        Self { port, target, holds, cuts, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sends new connections to another port. Open ones remain.
    pub(crate) fn point_to(&self, target: u16) {
        self.target.store(target, Ordering::SeqCst);
    }

    /// Holds all answers back from now on, or lets them through. Requests go on.
    pub(crate) fn hold_answers(&self, holds: bool) {
        self.holds.send_replace(holds);
    }

    /// Closes all connections. Answers that are held are lost.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    target: Arc<AtomicU16>,
    holds: watch::Receiver<bool>,
    cuts: watch::Receiver<u64>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let target = target.load(Ordering::SeqCst);
        let (holds, mut cuts) = (holds.clone(), cuts.clone());
        cuts.mark_unchanged();
        tokio::spawn(async move {
            tokio::select! {
                _ = cuts.changed() => {}
                _ = connect(client, target, holds) => {}
            }
        });
    }
}

async fn connect(client: TcpStream, target: u16, holds: watch::Receiver<bool>) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let down = async {
        let mut holds = holds;
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = from_server.read(&mut bytes).await?;
            holds.wait_for(|holds| !holds).await.map_err(io::Error::other)?;
            if count == 0 {
                return to_client.shutdown().await;
            }
            to_client.write_all(&bytes[..count]).await?;
        }
    };
    tokio::try_join!(up, down).map(|_| ())
}
