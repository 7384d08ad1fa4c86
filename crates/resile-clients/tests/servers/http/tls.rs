//! A handshake of TLS that fails. `reqwest` calls it a failed connection, so alone it would be repeated.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use resile::http::{Classifier, Failure};
use resile_clients::Idempotency::NotIdempotent;
use resile_clients::hyper;
use resile_clients::resile::{Classify, Health};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::peer::{Peer, Wire};
use super::seen;
use crate::data::Says;
use crate::row::{row, within};

const NEVER: Option<Says> = Some((false, false, Health::Unknown, false));

/// The time for a connection.
pub(super) const SHORT: Duration = Duration::from_millis(100);

/// A client that trusts nobody.
pub(super) fn client() -> Client {
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let builder = Client::builder().no_proxy().tls_backend_preconfigured(tls);
    builder.connect_timeout(SHORT).build().unwrap()
}

async fn fails(peer: &Peer) -> reqwest::Error {
    let url = format!("https://localhost:{}/", peer.port());
    let error = client().post(url).send().await.unwrap_err();
    assert!(error.is_connect());
    // Without the chain it looks as a server that is down.
    let alone = Classifier::non_idempotent().classify(&error).unwrap();
    assert!(alone.is_again());
    error
}

#[tokio::test]
async fn a_certificate_that_nobody_knows_stays_unknown() {
    within(async {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.into()], PrivateKeyDer::from(key))
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let peer = Peer::start(move |wire: Wire| {
            let acceptor = acceptor.clone();
            async move {
                let _ = acceptor.accept(wire.stream).await; // the client refuses
            }
        })
        .await;
        let error = fails(&peer).await;
        assert_eq!(seen(&error), NEVER, "{error:?}");
        // A `Failure` keeps the chain.
        let failure = Failure::from(error);
        let alone = Classifier::non_idempotent().classify(&failure).unwrap();
        let chain = hyper::error(&failure, NotIdempotent).unwrap();
        assert_eq!((alone.is_again(), chain.is_again()), (true, false), "{failure:?}");
    })
    .await;
}

/// An alert, and a server without TLS.
#[tokio::test]
async fn a_peer_that_refuses_tls_is_not_asked_again() {
    within(async {
        for said in [&[21, 3, 3, 0, 2, 2, 40], b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice()] {
            let peer = Peer::start(move |mut wire: Wire| async move {
                wire.stream.readable().await.unwrap();
                wire.stream.write_all(said).await.unwrap();
                let _ = wire.stream.shutdown().await;
                wire.until_closed().await;
            })
            .await;
            let error = fails(&peer).await;
            assert_eq!(seen(&error), NEVER, "{error:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_handshake_that_is_cut_sent_no_request() {
    within(async {
        let peer = Peer::start(|mut wire: Wire| async move {
            wire.stream.readable().await.unwrap();
            let _ = wire.stream.shutdown().await;
            wire.until_closed().await;
        })
        .await;
        let error = fails(&peer).await;
        assert_eq!(seen(&error), row("hyper", "connect"), "{error:?}");
    })
    .await;
}
