//! Frames of HTTP/2 that end a request.

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::io::AsyncWriteExt;

use super::kinds::DOUBT;
use super::peer::Peer;
use super::seen;
use crate::data::Says;
use crate::row::{row, within};

/// A frame of settings without settings.
pub(super) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// The peer resets the stream of the request.
fn reset(code: u8) -> Vec<u8> {
    vec![0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, code]
}

/// The peer ends the connection. It has processed no stream above `last`.
fn goaway(last: u8, code: u8) -> Vec<u8> {
    vec![0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last, 0, 0, 0, code]
}

/// Makes a request to a peer that takes it and sends a frame. Returns what the function says.
async fn ended(frame: Vec<u8>) -> Option<Says> {
    let peer = Peer::start(move |mut wire| {
        let frame = frame.clone();
        async move {
            wire.stream.write_all(SETTINGS).await.unwrap();
            wire.headers().await;
            wire.stream.write_all(&frame).await.unwrap();
            let _ = wire.stream.shutdown().await;
            wire.until_closed().await;
        }
    })
    .await;
    let request = Request::post(peer.url()).body(Empty::<Bytes>::new()).unwrap();
    let mut builder = Client::builder(TokioExecutor::new());
    let client = builder.http2_only(true).build_http();
    let error = client.request(request).await.unwrap_err();
    assert_eq!(peer.taken(), 1);
    seen(&error)
}

#[tokio::test]
async fn a_stream_that_the_peer_resets_has_the_verdict_of_its_code() {
    within(async {
        assert_eq!(ended(reset(7)).await, row("http2", "7"));
        assert_eq!(ended(reset(11)).await, row("http2", "11"));
        assert_eq!(ended(reset(8)).await, row("http2", "8"));
        assert_eq!(ended(reset(2)).await, row("http2", "2"));
        assert_eq!(ended(reset(13)).await, row("http2", "13"));
        assert_eq!(ended(reset(0)).await, DOUBT, "NO_ERROR tells nothing");
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_the_peer_ends_has_not_executed_what_is_above_its_last_stream() {
    within(async {
        assert_eq!(ended(goaway(0, 0)).await, row("http2-goaway", "0+unprocessed"));
        assert_eq!(ended(goaway(0, 11)).await, row("http2-goaway", "11"));
        // It covers the stream, which then ends without the code.
        assert_eq!(ended(goaway(1, 0)).await, DOUBT);
        assert_eq!(ended(goaway(1, 11)).await, DOUBT);
    })
    .await;
}
