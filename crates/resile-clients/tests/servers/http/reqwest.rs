//! Errors of `reqwest`: what the chain tells, and what the classifier of `resile::http` says alone.

use std::net::Ipv4Addr;

use reqwest::Error;
use resile::http::Classifier;
use resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_clients::hyper::error;
use resile_clients::resile::{Classify, Health};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;

use super::kinds::DOUBT;
use super::peer::{Peer, Wire, nobody};
use super::seen;
use super::tls::{SHORT, client};
use crate::data::{Says, says};
use crate::row::{row, within};

/// Returns what the pair of both classifiers says, as a program has it.
fn pair(failed: &Error) -> Option<Says> {
    says(|it| {
        let http = match it {
            Idempotent => Classifier::idempotent(),
            NotIdempotent => Classifier::non_idempotent(),
        };
        (|failed: &Error| error(failed, it), http).classify(failed)
    })
}

#[tokio::test]
async fn a_connection_that_was_not_made_sent_nothing() {
    within(async {
        let url = format!("http://127.0.0.1:{}/", nobody().await);
        let refused = client().post(url).send().await.unwrap_err();
        assert_eq!(seen(&refused), row("hyper", "connect"), "{refused:?}");

        // A queue of connections that is full: the system drops the next one.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = socket.listen(1).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut held = Vec::new();
        while let Ok(connected) = timeout(SHORT, TcpStream::connect(("127.0.0.1", port))).await {
            held.push(connected.unwrap());
        }
        let silent = client().post(format!("http://127.0.0.1:{port}/")).send().await.unwrap_err();
        assert!(silent.is_connect() && silent.is_timeout());
        assert_eq!(seen(&silent), row("hyper", "connect"), "{silent:?}");
    })
    .await;
}

/// The system says whether a name is missing for now or for good.
#[tokio::test]
async fn a_name_that_was_not_found_tells_nothing_of_the_server() {
    within(async {
        let system = lookup_host("name.invalid:80").await.err().unwrap();
        let passes = system.to_string().contains("Temporary failure");
        let error = client().post("http://name.invalid/").send().await.unwrap_err();
        assert_eq!(seen(&error), Some((passes, passes, Health::Unknown, false)), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn a_request_that_was_taken_leaves_a_doubt() {
    within(async {
        let closes = Peer::start(|mut wire| async move { wire.head().await }).await;
        let error = client().post(closes.url()).send().await.unwrap_err();
        assert_eq!(seen(&error), row("hyper", "incomplete_message"), "{error:?}");
        assert_eq!(closes.taken(), 1);

        let cuts = Peer::start(|mut wire| async move {
            wire.head().await;
            let start = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc";
            wire.stream.write_all(start).await.unwrap();
        })
        .await;
        let error = client().post(cuts.url()).send().await.unwrap().bytes().await.unwrap_err();
        assert_eq!(seen(&error), row("hyper", "body"), "{error:?}");

        // A timeout is no link that the chain knows, so the second classifier speaks.
        let silent = Peer::start(Wire::until_closed).await;
        let late = client().post(silent.url()).timeout(SHORT).send().await.unwrap_err();
        assert_eq!((seen(&late), pair(&late)), (None, DOUBT), "{late:?}");
    })
    .await;
}

/// Answers with a status and headers or a body.
async fn answers(answer: &'static str) -> Peer {
    Peer::start(move |mut wire: Wire| async move {
        loop {
            wire.head().await;
            wire.stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await
}

#[tokio::test]
async fn a_request_that_stays_wrong_does_not_come_again() {
    within(async {
        let circle = answers("HTTP/1.1 307 On\r\nlocation: /\r\ncontent-length: 0\r\n\r\n").await;
        let error = client().post(circle.url()).send().await.unwrap_err();
        assert!(error.is_redirect());
        let answered = Some((false, false, Health::Healthy, false));
        assert_eq!((seen(&error), pair(&error)), (None, answered), "{error:?}");

        let error = client().post("no url").send().await.unwrap_err();
        assert!(error.is_builder());
        let own_fault = Some((false, false, Health::Unknown, false));
        assert_eq!(pair(&error), own_fault, "{error:?}");

        // The answer is whole, and not JSON: the server has executed the request.
        let words = answers("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwords").await;
        let answer = client().post(words.url()).send().await.unwrap();
        let error = answer.json::<u32>().await.unwrap_err();
        assert!(error.is_decode());
        assert_eq!((seen(&error), pair(&error)), (None, answered), "{error:?}");
    })
    .await;
}
