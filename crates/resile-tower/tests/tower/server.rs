//! A server on a free port, with scripted answers. It ends with its value.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};

/// Returns an address that refuses connections as long as the socket lives: the port is bound but does not listen, so
/// no other test can take it.
pub(crate) fn refusing() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// A request as the server got it.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    /// `None` if the body ended with an error or was not read.
    pub(crate) body: Option<Bytes>,
}

/// The way in which the server handles a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    Answer(u16),
    /// Answers 429 with this `Retry-After`.
    Later(&'static str),
    /// Reads the first piece of the body, and closes the connection.
    Close,
    /// Answers 503 before it reads the body.
    Early,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// The last step repeats.
    pub(crate) async fn start(steps: &'static [Does]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::default();
        let accepting = tokio::spawn(accept(listener, steps, Arc::clone(&got)));
        Self { address, got, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, steps: &'static [Does], got: Arc<Mutex<Vec<Got>>>) {
    let mut connections = JoinSet::new(); // they end with this task
    while let Ok((socket, _)) = listener.accept().await {
        let got = Arc::clone(&got);
        let service = service_fn(move |request| answer(request, steps, Arc::clone(&got)));
        connections.spawn(async move {
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    steps: &'static [Does],
    got: Arc<Mutex<Vec<Got>>>,
) -> Result<Response<Full<Bytes>>, &'static str> {
    let (head, mut body) = request.into_parts();
    let at = {
        let mut got = got.lock().unwrap();
        got.push(Got { method: head.method, headers: head.headers, body: None });
        got.len() - 1
    };
    let does = steps[at.min(steps.len() - 1)];
    if let Does::Close = does {
        let _ = body.frame().await;
        return Err("closed");
    }
    if let Does::Early = does {
        return Ok(Response::builder().status(503).body(Full::default()).unwrap());
    }
    let body = body.collect().await.ok().map(http_body_util::Collected::to_bytes);
    got.lock().unwrap()[at].body = body;
    let answer = match does {
        Does::Answer(status) => Response::builder().status(status),
        Does::Later(wait) => Response::builder().status(429).header("retry-after", wait),
        Does::Close | Does::Early => unreachable!("done above"),
    };
    Ok(answer.body(Full::from(format!("answer {}", at + 1))).unwrap())
}

/// A body in pieces, with a yield between them, whose size is not known.
pub(crate) fn streamed(
    pieces: usize,
    size: usize,
) -> http_body_util::combinators::BoxBody<Bytes, Infallible> {
    Streamed { left: pieces, size, has_yielded: false }.boxed()
}

struct Streamed {
    left: usize,
    size: usize,
    has_yielded: bool,
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        use std::task::Poll;
        if !std::mem::replace(&mut self.has_yielded, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_yielded = false;
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        let letter = b'a' + u8::try_from(self.left % 26).unwrap();
        Poll::Ready(Some(Ok(http_body::Frame::data(vec![letter; self.size].into()))))
    }
}
