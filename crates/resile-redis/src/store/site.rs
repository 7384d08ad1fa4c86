use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisError,
};

use super::map::Map;
use super::{cluster, sentinels, url};
use crate::error::BadUrl;

/// Where the servers of a fleet are.
#[derive(Clone)]
pub(crate) struct Site {
    /// The credentials, the TLS settings and, for one server, the address.
    pub(super) info: ConnectionInfo,
    pub(super) guides: Guides,
}

/// The servers that know where the keys are.
#[derive(Clone)]
pub(super) enum Guides {
    /// The address is known.
    None,
    /// They know the primary of this name.
    Sentinels { name: String, seeds: Vec<ConnectionInfo> },
    /// Each knows the whole cluster.
    Nodes(Vec<ConnectionInfo>),
}

impl Site {
    /// One server.
    pub(crate) fn server(url: &str) -> Result<Self, BadUrl> {
        Ok(Self { info: parse(url)?, guides: Guides::None })
    }

    /// The primary that sentinels know by a name. The name may be the host of a URL.
    pub(crate) fn sentinels(urls: &[String], primary: &str) -> Result<Self, BadUrl> {
        let is_url = primary.contains("://");
        let mut info = parse(if is_url { primary } else { "redis://primary" })?;
        // Only a URL can ask for a user, a database or TLS.
        let name = if is_url { host(&info)? } else { primary.to_owned() };
        let address = at(info.addr(), &name, 0);
        info = info.set_addr(address);
        Ok(Self { info, guides: Guides::Sentinels { name, seeds: all(urls)? } })
    }

    /// The nodes of a cluster. Those without a URL here have the credentials of the first one.
    pub(crate) fn cluster(urls: &[String]) -> Result<Self, BadUrl> {
        let seeds = all(urls)?;
        let info = seeds[0].clone();
        host(&info)?;
        Ok(Self { info, guides: Guides::Nodes(seeds) })
    }

    /// Returns the settings of a connection to one of the servers.
    pub(super) fn info_of(&self, address: &ConnectionAddr) -> ConnectionInfo {
        self.info.clone().set_addr(address.clone())
    }

    /// Returns where the keys are, if this is known without a question.
    pub(super) fn map(&self) -> Option<Map> {
        matches!(self.guides, Guides::None).then(|| Map::One(self.info.addr().clone()))
    }

    /// Asks where the keys are. `known` are servers of an earlier answer.
    pub(super) async fn search(&self, known: &[ConnectionAddr]) -> Result<Map, String> {
        match &self.guides {
            Guides::None => Ok(Map::One(self.info.addr().clone())),
            Guides::Sentinels { name, seeds } => {
                let (host, port) = sentinels::primary(seeds, name).await?;
                Ok(Map::One(at(self.info.addr(), &host, port)))
            }
            Guides::Nodes(seeds) => {
                let known = known.iter().map(|address| self.info_of(address));
                let nodes: Vec<_> = seeds.iter().cloned().chain(known).collect();
                cluster::slots(&nodes, self.info.addr()).await.map(Map::Slots)
            }
        }
    }

    /// Returns the time after which the guides are asked again although nothing failed. The old
    /// primary may be cut off from the sentinels only.
    pub(super) const fn patrol(&self) -> Option<Duration> {
        match self.guides {
            Guides::Sentinels { .. } => Some(Duration::from_secs(10)),
            Guides::None | Guides::Nodes(_) => None,
        }
    }

    /// Describes the servers, without secrets.
    pub(crate) fn words(&self) -> String {
        let list = |seeds: &[ConnectionInfo]| {
            let addresses: Vec<_> = seeds.iter().map(|seed| seed.addr().to_string()).collect();
            addresses.join(", ")
        };
        match &self.guides {
            Guides::None => self.info.addr().to_string(),
            Guides::Sentinels { name, seeds } => format!("{name} of {}", list(seeds)),
            Guides::Nodes(seeds) => format!("cluster of {}", list(seeds)),
        }
    }
}

/// Returns an address with the TLS settings of another one.
pub(super) fn at(like: &ConnectionAddr, host: &str, port: u16) -> ConnectionAddr {
    let host = host.to_owned();
    match like {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            let (insecure, tls_params) = (*insecure, tls_params.clone());
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    }
}

fn all(urls: &[String]) -> Result<Vec<ConnectionInfo>, BadUrl> {
    if urls.is_empty() {
        return Err(url::NONE);
    }
    urls.iter().map(|url| parse(url)).collect()
}

fn parse(url: &str) -> Result<ConnectionInfo, BadUrl> {
    // The description of the client's error may have parts of the URL.
    let info = url.into_connection_info().map_err(|_| url::fault(url))?;
    // Messages arrive on the same connection with this protocol. Redis 6 has it.
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    // Without a delay, scripts that are written together cost one round trip.
    let tcp = TcpSettings::default().set_nodelay(true);
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp))
}

/// Creates the client of a server. It connects later.
pub(super) fn client(info: ConnectionInfo) -> Result<Client, RedisError> {
    #[cfg(feature = "tls")]
    if let ConnectionAddr::TcpTls { .. } = info.addr() {
        super::tls::choose_cryptography();
    }
    Client::open(info)
}

/// Returns the host. A socket file has none.
pub(super) fn host(info: &ConnectionInfo) -> Result<String, BadUrl> {
    match info.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => Ok(host.clone()),
        _ => Err(url::SOCKET),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentinels(primary: &str) -> Site {
        Site::sentinels(&["redis://a:1".to_owned(), "redis://b:2".to_owned()], primary).unwrap()
    }

    #[test]
    fn a_connection_sends_each_script_at_once() {
        let site = Site::server("redis://127.0.0.1").unwrap();
        assert!(site.info.tcp_settings().nodelay());
    }

    #[test]
    fn a_primary_has_a_name_or_a_url() {
        let site = sentinels("My_Primary 1");
        assert_eq!(site.words(), "My_Primary 1 of a:1, b:2");
        assert_eq!(site.info.redis_settings().password(), None);
        let site = sentinels("redis://user:secret@mymaster/3");
        assert_eq!(site.words(), "mymaster of a:1, b:2");
        let settings = site.info.redis_settings();
        assert_eq!((settings.username(), settings.db()), (Some("user"), 3));
        assert!(
            !format!("{:?}", crate::Fleet::sentinel(["redis://x:y@a"], "redis://:z@m"))
                .contains(['y', 'z'])
        );
    }

    #[test]
    fn a_list_of_servers_needs_urls_with_hosts() {
        assert!(Site::cluster(&[]).is_err());
        assert!(Site::cluster(&["redis+unix:///socket".to_owned()]).is_err());
        assert!(Site::sentinels(&["a:1".to_owned()], "m").is_err());
        let site = Site::cluster(&["redis://a:1".to_owned(), "redis://b:2".to_owned()]).unwrap();
        assert_eq!(site.words(), "cluster of a:1, b:2");
    }
}
