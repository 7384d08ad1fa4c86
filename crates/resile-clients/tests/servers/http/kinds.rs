//! Kinds of `hyper`, over HTTP/1.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Frame};
use hyper::client::conn::http1::handshake;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use resile_clients::resile::Health;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::peer::{Peer, Wire, nobody};
use super::seen;
use crate::data::Says;
use crate::row::{row, within};

/// Nobody knows whether the request was executed.
pub(super) const DOUBT: Option<Says> = Some((true, false, Health::Failing, false));

type Legacy<B> = Client<HttpConnector, B>;

fn client<B>() -> Legacy<B>
where
    B: Body + Send,
    B::Data: Send,
{
    Client::builder(TokioExecutor::new()).build_http()
}

fn get(url: &str) -> Request<Empty<Bytes>> {
    Request::get(url).body(Empty::new()).unwrap()
}

/// Makes a request that fails.
async fn fails(url: &str) -> hyper_util::client::legacy::Error {
    client().request(get(url)).await.unwrap_err()
}

#[tokio::test]
async fn a_connection_that_is_refused_sent_nothing() {
    within(async {
        let url = format!("http://127.0.0.1:{}/", nobody().await);
        let error = fails(&url).await;
        assert!(error.is_connect());
        assert_eq!(seen(&error), row("hyper", "connect"), "{error:?}");
    })
    .await;
}

/// `hyper-util` calls a wrong URL a failed connection. It stays wrong.
#[tokio::test]
async fn a_url_that_is_wrong_is_not_repeated() {
    let error = fails("ftp://127.0.0.1/").await;
    assert_eq!(seen(&error), Some((false, false, Health::Unknown, false)), "{error:?}");
}

#[tokio::test]
async fn an_end_instead_of_the_answer_leaves_a_doubt() {
    within(async {
        let peer = Peer::start(|mut wire| async move { wire.head().await }).await;
        let error = fails(&peer.url()).await;
        assert_eq!(seen(&error), row("hyper", "incomplete_message"), "{error:?}");
        assert_eq!(peer.taken(), 1);
    })
    .await;
}

/// A peer that closes with bytes that it did not read resets the connection.
#[tokio::test]
async fn a_reset_leaves_a_doubt() {
    within(async {
        let peer = Peer::start(|wire: Wire| async move {
            assert_eq!(wire.stream.peek(&mut [0; 9]).await.unwrap(), 9);
        })
        .await;
        let error = fails(&peer.url()).await;
        assert_eq!(seen(&error), DOUBT, "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_was_closed_before_takes_no_request() {
    within(async {
        let peer = Peer::start(|mut wire| async move {
            wire.head().await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            wire.stream.write_all(answer).await.unwrap();
        })
        .await;
        let stream = TcpStream::connect(("127.0.0.1", peer.port())).await.unwrap();
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        sender.send_request(get("/")).await.unwrap();
        connection.await.unwrap().unwrap(); // the peer closed it
        let error = sender.send_request(get("/")).await.unwrap_err();
        assert!(error.is_canceled());
        assert_eq!(seen(&error), row("hyper", "canceled"), "{error:?}");
        assert_eq!(peer.taken(), 1, "the second one was never sent");
    })
    .await;
}

/// Reads the body of an answer that fails in it.
async fn broken(answer: &'static str) -> (Peer, hyper::Error) {
    let peer = Peer::start(move |mut wire| async move {
        wire.head().await;
        wire.stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let answer = client().request(get(&peer.url())).await.unwrap();
    let error = answer.into_body().collect().await.unwrap_err();
    (peer, error)
}

#[tokio::test]
async fn a_body_that_is_cut_leaves_a_doubt() {
    within(async {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
        ] {
            let (peer, error) = broken(answer).await;
            assert_eq!(seen(&error), row("hyper", "body"), "{error:?}");
            assert_eq!(peer.taken(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_not_asked_for_again() {
    within(async {
        let peer = Peer::start(|mut wire| async move {
            wire.head().await;
            wire.stream.write_all(b"220 mail.example ESMTP\r\n\r\n").await.unwrap();
        })
        .await;
        let error = fails(&peer.url()).await;
        assert_eq!(seen(&error), row("hyper", "parse"), "{error:?}");
        assert_eq!(peer.taken(), 1);
        let chunk = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nab";
        let (_, error) = broken(chunk).await;
        assert_eq!(seen(&error), row("hyper", "parse"), "{error:?}");
    })
    .await;
}

/// A body that fails. Its error looks as if nothing was sent.
#[derive(Debug)]
struct Failing;

impl Body for Failing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(Some(Err(io::ErrorKind::ConnectionRefused.into())))
    }
}

#[tokio::test]
async fn a_body_that_fails_is_the_fault_of_the_program() {
    within(async {
        let peer = Peer::start(Wire::until_closed).await;
        let request = Request::post(peer.url()).body(Failing).unwrap();
        let error = client().request(request).await.unwrap_err();
        assert_eq!(seen(&error), row("hyper", "user"), "{error:?}");
    })
    .await;
}

/// The peer takes the request and does not answer pings.
#[tokio::test]
async fn a_ping_without_an_answer_leaves_a_doubt() {
    const SHORT: Duration = Duration::from_millis(50);
    within(async {
        let peer = Peer::start(|mut wire| async move {
            wire.stream.write_all(super::frames::SETTINGS).await.unwrap();
            wire.headers().await;
            wire.until_closed().await;
        })
        .await;
        let client: Legacy<Empty<Bytes>> = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(SHORT)
            .http2_keep_alive_timeout(SHORT)
            .build_http();
        let error = client.request(get(&peer.url())).await.unwrap_err();
        assert_eq!(seen(&error), row("hyper", "timeout"), "{error:?}");
        assert_eq!(peer.taken(), 1);
    })
    .await;
}
