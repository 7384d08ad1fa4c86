//! A server over HTTP that answers as a test wants, and remembers what it was asked.

#![allow(dead_code, reason = "each part uses some of it")]

use std::error::Error;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) type Answer = Response<Full<Bytes>>;

/// A running server. It ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server. `answer` gets the method with the target, and how often that was asked before.
    /// Without an answer the connection is closed.
    pub(crate) async fn start(
        answer: impl Fn(&str, usize) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, memory) = (Arc::new(answer), Arc::clone(&asked));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, memory) = (Arc::clone(&answer), Arc::clone(&memory));
                tokio::spawn(serve(stream, move |target: &str| {
                    let mut asked = memory.lock().unwrap();
                    let before = asked.iter().filter(|it| *it == target).count();
                    asked.push(target.to_owned());
                    answer(target, before)
                }));
            }
        });
        Self { port, asked, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns how often a request was made whose method and target have these words.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|it| it.contains(words)).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, answer: impl Fn(&str) -> Option<Answer>) {
    let service = service_fn(async |request: Request<Incoming>| {
        let target = format!("{} {}", request.method(), request.uri());
        request.into_body().collect().await.unwrap();
        answer(&target).ok_or(Closed)
    });
    // An error is that of a connection that a test closes.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// The connection ends without an answer.
#[derive(Debug)]
struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed without an answer")
    }
}

impl Error for Closed {}

/// Makes a request on a connection of its own.
pub(crate) async fn send<B>(port: u16, request: Request<B>) -> Result<Response<Bytes>, BoxError>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await?.into_parts();
    Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
}

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

pub(crate) fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}
