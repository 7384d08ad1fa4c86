//! Servers with TLS, certificates of a private authority, and a user with few rights.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use resile::fleet::State;
use resile_redis::{Fleet, Tls};

use crate::cluster::{self, Cluster, NAMES, shares_on_the_way};
use crate::crew::{Mate, all_share, limited, until};
use crate::rights::grant;
use crate::server::{Server, free_port, new_folder};

/// A certificate authority of the test.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        // With the name of the certificates it would be none of their issuers.
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Returns a certificate for a name or an address, and its private key.
    fn certify(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Starts a server with a TLS port. Returns its `rediss://` URL too.
    fn start(&self, asks_clients: bool) -> Option<(Server, String)> {
        let asks = ["--tls-auth-clients", if asks_clients { "yes" } else { "no" }];
        let (server, port) = self.start_with(&asks, Server::start)?;
        Some((server, format!("rediss://127.0.0.1:{port}/")))
    }

    /// Starts a server with a TLS port by a function of its arguments. Returns this port too.
    pub(crate) fn start_with(
        &self,
        more: &[&str],
        start: impl FnOnce(&[&str]) -> Option<Server>,
    ) -> Option<(Server, u16)> {
        let folder = new_folder();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (certificate, key) = self.certify("127.0.0.1");
        let (certificate, key) = (write("cert", &certificate), write("key", &key));
        let (ca, port) = (write("ca", &self.pem), free_port());
        let number = port.to_string();
        let args = [
            "--tls-port",
            &number,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
        ];
        let server = start(&[&args, more].concat());
        let _ = std::fs::remove_dir_all(&folder); // the server has read them
        Some((server?, port))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_authority_and_a_user_with_few_rights() {
    let authority = Authority::new();
    let Some((server, url)) = authority.start(false) else { return };
    grant(&server, &[]).await;
    let url = url.replace("rediss://", "rediss://resile:password@");
    let tls = Tls::new().with_ca(authority.pem.as_bytes());
    // The first exchange waits for the handshake.
    let patience = Duration::from_secs(1);
    let fleet = || Fleet::new(&url).unwrap().with_tls(&tls).unwrap().with_timeout(patience);
    let crew: Vec<_> = (0..2).map(|_| Mate::join(&fleet(), limited(100, 10))).collect();
    all_share(&crew).await;
    for mate in &crew {
        mate.upstream.admit(resile::Never).await.unwrap().succeeded();
        assert_eq!(mate.member.snapshot().last_error, None);
    }

    // Another authority has not signed the certificate.
    let other = Tls::new().with_ca(Authority::new().pem.as_bytes());
    let wrong = Fleet::new(&url).unwrap().with_tls(&other).unwrap();
    let mate = Mate::join(&wrong, limited(100, 10));
    mate.becomes(State::Safe).await;
    let error = || mate.member.snapshot().last_error.unwrap_or_default();
    until("the reason", || error().contains("certificate"), error).await;
    assert!(!error().contains("password"), "{}", error());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_for_the_certificate_of_the_client() {
    let authority = Authority::new();
    let Some((_server, url)) = authority.start(true) else { return };
    let anonymous = Tls::new().with_ca(authority.pem.as_bytes());
    let (certificate, key) = authority.certify("worker");
    let known = anonymous.clone().with_identity(certificate.as_bytes(), key.as_bytes());
    let join =
        |tls: &Tls| Mate::join(&Fleet::new(&url).unwrap().with_tls(tls).unwrap(), limited(100, 10));
    let mate = join(&known);
    all_share(std::slice::from_ref(&mate)).await;
    join(&anonymous).becomes(State::Safe).await;
}

/// The nodes of a cluster name each other by their TLS ports, also for a slot on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_over_tls() {
    let authority = Authority::new();
    let Some(cluster) = Cluster::start_with_tls(&authority).await else { return };
    let tls = Tls::new().with_ca(authority.pem.as_bytes());
    let join = |node: usize| {
        let url = format!("rediss://resile:password@127.0.0.1:{}", cluster.ports[node]);
        // The first exchange with a node waits for the handshake.
        let fleet = Fleet::cluster([url]).unwrap().with_timeout(Duration::from_secs(1));
        Mate::join(&fleet.with_tls(&tls).unwrap(), cluster::upstream(NAMES[0]))
    };
    let crew: Vec<_> = (0..3).map(join).collect();
    shares_on_the_way(&cluster, &crew).await;
    crew[0].upstream.hold(Duration::from_secs(3));
    let all = || crew.iter().all(|mate| mate.upstream.held().is_some());
    let took = until("the hold", all, || format!("{:?}", crew[1].member.snapshot())).await;
    assert!(took < Duration::from_millis(500), "{took:?}: by the message");
}

#[test]
fn certificates_that_cannot_be_used_are_errors() {
    let fleet = || Fleet::new("rediss://127.0.0.1").unwrap();
    let text = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    let error = fleet().with_tls(&Tls::new().with_ca(text.as_bytes())).unwrap_err();
    assert!(error.to_string().starts_with("the certificates cannot be used: "), "{error}");
    assert!(fleet().with_tls(&Tls::new().with_identity(b"", b"")).is_err());
    let plain = Fleet::new("redis://127.0.0.1").unwrap();
    let error = plain.with_tls(&Tls::new()).unwrap_err();
    assert!(error.to_string().contains("rediss://"), "{error}");
    let plain = Fleet::sentinel(["redis://127.0.0.1"], "m").unwrap();
    assert!(plain.with_tls(&Tls::new()).is_err());
    // The sentinels have no TLS, and the server has it.
    let mixed = Fleet::sentinel(["redis://127.0.0.1"], "rediss://m").unwrap();
    assert!(mixed.with_tls(&Tls::new()).is_ok());
}
