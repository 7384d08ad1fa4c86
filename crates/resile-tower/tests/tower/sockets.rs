//! Real bytes over real sockets: the client of `hyper-util` below the layer.

use std::convert::Infallible;
use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use resile_tower::RetryLayer;
use resile_tower::http::KeptBody;
use resile_tower::resile::{Backoff, RetryPolicy};
use tower::{Layer, ServiceExt};

use super::server::{Does, Server, refusing, streamed};

/// The bound on each call, because a server is real.
const BOUND: Duration = Duration::from_secs(20);

const POLICY: RetryPolicy =
    RetryPolicy::new().with_attempts(4).with_backoff(Backoff::none()).with_total_timeout(BOUND);

type Streamed = BoxBody<Bytes, Infallible>;

fn client<B>() -> Client<HttpConnector, B>
where
    B: http_body::Body<Data: Send> + Send,
{
    Client::builder(TokioExecutor::new()).build_http()
}

/// Sends a body of 64 pieces of 1 KiB, of which `limit` bytes are kept.
async fn put(server: &Server, limit: usize) -> Result<(u16, Bytes), String> {
    let service = RetryLayer::http(POLICY).keeping(limit).layer(client::<KeptBody<Streamed>>());
    let request = Request::put(server.url()).body(streamed(64, 1_024)).unwrap();
    let answer = service
        .oneshot(request)
        .await
        .map_err(|gave_up| gave_up.source().map_or_else(String::new, ToString::to_string))?;
    let status = answer.status().as_u16();
    Ok((status, answer.into_body().collect().await.unwrap().to_bytes()))
}

async fn whole() -> Bytes {
    streamed(64, 1_024).collect().await.unwrap().to_bytes()
}

/// The server closes one connection in the middle of the body, and refuses the next request.
#[tokio::test]
async fn a_streamed_body_is_sent_again_byte_by_byte() {
    let server = Server::start(&[Does::Close, Does::Answer(503), Does::Answer(200)]).await;
    let (status, answer) = put(&server, 64 * 1_024).await.unwrap();
    assert_eq!((status, &*answer), (200, &b"answer 3"[..]));
    let got = server.got();
    assert_eq!(got.len(), 3);
    let whole = whole().await;
    assert_eq!(got[1].body.as_ref(), Some(&whole));
    assert_eq!(got[2].body.as_ref(), Some(&whole));
}

#[tokio::test]
async fn a_streamed_body_above_the_limit_is_sent_once() {
    let server = Server::start(&[Does::Answer(503), Does::Answer(200)]).await;
    let (status, answer) = put(&server, 64 * 1_024 - 1).await.unwrap();
    assert_eq!((status, &*answer), (503, &b"answer 1"[..]));
    assert_eq!(server.got()[0].body, Some(whole().await));
}

/// The first answer comes before the body, so the second attempt begins while the first connection may
/// still send.
#[tokio::test]
async fn an_early_answer_does_not_mix_the_bodies_of_two_attempts() {
    let server = Server::start(&[Does::Early, Does::Early, Does::Answer(200)]).await;
    assert_eq!(put(&server, 64 * 1_024).await.unwrap().0, 200);
    assert_eq!(server.got()[2].body, Some(whole().await));
}

#[tokio::test]
async fn a_server_that_asks_for_a_second_gets_it() {
    let server = Server::start(&[Does::Later("1"), Does::Answer(200)]).await;
    let service = RetryLayer::http(POLICY).layer(client::<Full<Bytes>>());
    let request = Request::post(server.url()).body(Full::from("7")).unwrap();
    let began = std::time::Instant::now();
    assert_eq!(service.oneshot(request).await.unwrap().status(), 200);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert!(server.got().iter().all(|got| got.body.as_deref() == Some(b"7")));
}

/// No server took the connection, so a `POST` is sent again too.
#[tokio::test]
async fn a_refused_connection_is_no_request() {
    let (_socket, address) = refusing();
    let service = RetryLayer::http(POLICY).layer(client::<Full<Bytes>>());
    let request = Request::post(format!("http://{address}/")).body(Full::from("7")).unwrap();
    assert_eq!(service.oneshot(request).await.unwrap_err().attempts(), 4);
}

/// The server may have executed a `POST` whose connection it closed.
#[tokio::test]
async fn a_post_without_an_answer_is_sent_once() {
    let server = Server::start(&[Does::Close]).await;
    let service = RetryLayer::http(POLICY).layer(client::<Full<Bytes>>());
    let post = Request::post(server.url()).body(Full::from("7")).unwrap();
    assert_eq!(service.clone().oneshot(post).await.unwrap_err().attempts(), 1);
    let put = Request::put(server.url()).body(Full::from("7")).unwrap();
    assert_eq!(service.oneshot(put).await.unwrap_err().attempts(), 4);
}
