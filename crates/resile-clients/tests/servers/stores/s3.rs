//! A server of S3 on files, with faults that a test wants.

use std::error::Error;
use std::mem;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use server::Place;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The server executes it and answers.
    Answered,
    /// The server refuses it with this status and this code.
    Refused(u16, &'static str),
    /// The connection closes before the server executes it.
    Dropped,
    /// The server executes it, and the connection closes before the answer.
    Unanswered,
    /// The server executes it, and the connection closes within the body of the answer.
    Cut,
}

type Fates = dyn Fn(&str, usize) -> Fate + Send + Sync;
type BoxError = Box<dyn Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// A running server with the bucket `bucket`. It ends with this value.
#[derive(Debug)]
pub(super) struct Server {
    place: Place,
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server. `fate` gets the method with the target, and how often that was asked before.
    pub(super) async fn start(fate: impl Fn(&str, usize) -> Fate + Send + Sync + 'static) -> Self {
        let place = Place::new();
        std::fs::create_dir(place.path("bucket")).unwrap();
        let store = S3ServiceBuilder::new(FileSystem::new(&place.folder).unwrap()).build();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (memory, fate): (_, Arc<Fates>) = (Arc::clone(&asked), Arc::new(fate));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, store.clone(), Arc::clone(&memory), Arc::clone(&fate)));
            }
        });
        Self { place, port, asked, task }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns how often a request was made whose method and target have these words.
    pub(super) fn count(&self, words: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|it| it.contains(words)).count()
    }

    /// Returns the object as the server has stored it.
    pub(super) fn stored(&self, key: &str) -> Option<Vec<u8>> {
        std::fs::read(self.place.path("bucket").join(key)).ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    stream: TcpStream,
    store: S3Service,
    asked: Arc<Mutex<Vec<String>>>,
    fate: Arc<Fates>,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let target = format!("{} {}", request.method(), request.uri());
        let fate = {
            let mut asked = asked.lock().unwrap();
            let before = asked.iter().filter(|it| **it == target).count();
            asked.push(target.clone());
            fate(&target, before)
        };
        answer(store.clone(), request, fate)
    });
    // An error is that of a connection that a test closes.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    store: S3Service,
    request: Request<Incoming>,
    fate: Fate,
) -> Result<Answer, BoxError> {
    match fate {
        Fate::Dropped => {
            request.into_body().collect().await?;
            Err("dropped".into())
        }
        Fate::Refused(status, code) => {
            request.into_body().collect().await?;
            let body = format!("<Error><Code>{code}</Code><Message>words</Message></Error>");
            let whole = Full::new(Bytes::from(body)).map_err(Into::into).boxed_unsync();
            Ok(Response::builder().status(status).body(whole)?)
        }
        Fate::Answered | Fate::Unanswered | Fate::Cut => {
            let (parts, body) = Service::call(&store, request).await?.into_parts();
            let whole = body.collect().await?.to_bytes();
            match fate {
                Fate::Unanswered => Err("unanswered".into()),
                // The length stands in the head.
                Fate::Cut => {
                    let half = Half { start: Some(whole.slice(..whole.len() / 2)), is_sent: false };
                    Ok(Response::from_parts(parts, half.boxed_unsync()))
                }
                _ => {
                    let whole = Full::new(whole).map_err(Into::into).boxed_unsync();
                    Ok(Response::from_parts(parts, whole))
                }
            }
        }
    }
}

/// The start of a body, and an error after it was sent.
#[derive(Debug)]
struct Half {
    start: Option<Bytes>,
    is_sent: bool,
}

impl Body for Half {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(start) = self.start.take() {
            return Poll::Ready(Some(Ok(Frame::data(start))));
        }
        // A body that waits is flushed.
        if !mem::replace(&mut self.is_sent, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err("cut".into())))
    }
}
