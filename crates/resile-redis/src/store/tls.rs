use std::fmt;

use redis::{Client, ClientTlsConfig, ConnectionInfo, TlsCertificates};
use rustls::crypto::{CryptoProvider, aws_lc_rs};

use super::site::{Guides, Site};
use crate::error::BadTls;

/// The certificates of connections over TLS, for [`Fleet::with_tls`](crate::Fleet::with_tls). In
/// PEM form.
///
/// # Examples
///
/// ```no_run
/// use resile_redis::{Fleet, Tls};
///
/// # fn fleet() -> Result<Fleet, Box<dyn std::error::Error>> {
/// let ca = std::fs::read("/etc/redis/ca.pem")?;
/// let fleet = Fleet::new("rediss://redis.internal:6380")?.with_tls(&Tls::new().with_ca(&ca))?;
/// # Ok(fleet)
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    ca: Option<Vec<u8>>,
    identity: Option<ClientTlsConfig>,
}

impl Tls {
    /// Creates the settings of a process without a certificate of its own. It trusts the certificate
    /// authorities of the system.
    #[must_use]
    pub const fn new() -> Self {
        Self { ca: None, identity: None }
    }

    /// Trusts these certificate authorities only.
    #[must_use]
    pub fn with_ca(mut self, certificates: &[u8]) -> Self {
        self.ca = Some(certificates.to_vec());
        self
    }

    /// Sets the certificate of this process and its private key, for servers that ask for it.
    #[must_use]
    pub fn with_identity(mut self, certificate: &[u8], key: &[u8]) -> Self {
        let (client_cert, client_key) = (certificate.to_vec(), key.to_vec());
        self.identity = Some(ClientTlsConfig { client_cert, client_key });
        self
    }
}

/// Chooses the cryptography of the process, unless the program has chosen one. If other crates enable a
/// second one, `rustls` does not choose and panics at the first connection.
pub(super) fn choose_cryptography() {
    if CryptoProvider::get_default().is_none() {
        let _ = aws_lc_rs::default_provider().install_default();
    }
}

impl Site {
    /// Sets the certificates of all connections over TLS.
    pub(crate) fn with_tls(mut self, tls: &Tls) -> Result<Self, BadTls> {
        let apply = |info: &ConnectionInfo| {
            let certificates =
                TlsCertificates { client_tls: tls.identity.clone(), root_cert: tls.ca.clone() };
            Client::build_with_tls(info.clone(), certificates)
                .map(|client| client.get_connection_info().clone())
                .map_err(|error| BadTls(error.to_string()))
        };
        let is_tls =
            |info: &ConnectionInfo| matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. });
        // Sentinels may be without TLS, and the server with it.
        let (Guides::Sentinels { seeds, .. } | Guides::Nodes(seeds)) = &mut self.guides else {
            self.info = apply(&self.info)?;
            return Ok(self);
        };
        let mut count = 0;
        for info in seeds.iter_mut().chain([&mut self.info]).filter(|info| is_tls(info)) {
            *info = apply(info)?;
            count += 1;
        }
        if count == 0 {
            return Err(BadTls("no URL begins with rediss://".to_owned()));
        }
        Ok(self)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("has_ca", &self.ca.is_some())
            .field("has_identity", &self.identity.is_some())
            .finish_non_exhaustive()
    }
}
