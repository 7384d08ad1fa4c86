use crate::error::BadUrl;

/// Says which part of a URL is wrong.
macro_rules! wrong {
    ($part:literal) => {
        BadUrl(concat!(
            "not the URL of a Redis server, because ",
            $part,
            ": use redis://user:password@host:6379/0, or rediss:// for TLS"
        ))
    };
}

pub(super) const NONE: BadUrl = BadUrl("no URL of a Redis server: name at least one server");
pub(super) const SOCKET: BadUrl = wrong!("a socket has no host");
const NO_TLS: BadUrl = BadUrl("rediss:// needs TLS: enable the feature `tls` of resile-redis");

/// Names the wrong part of a URL that the client does not accept. Prints nothing of it, because a part
/// may be a password.
pub(super) fn fault(url: &str) -> BadUrl {
    let url = url.trim();
    if url.is_empty() {
        return wrong!("it is empty");
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return wrong!("it does not begin with a scheme and `://`");
    };
    let scheme = scheme.to_ascii_lowercase();
    let is_tls = matches!(&*scheme, "rediss" | "valkeys");
    match &*scheme {
        "rediss" | "valkeys" if !cfg!(feature = "tls") => return NO_TLS,
        "redis" | "valkey" | "rediss" | "valkeys" => {}
        "unix" | "redis+unix" | "valkey+unix" => {
            return wrong!("the socket or its setting is wrong");
        }
        _ => return wrong!("its scheme is not `redis` or `rediss`"),
    }
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let server = authority.rsplit_once('@').map(|(_, server)| server);
    if server.is_none() && rest.contains('@') {
        return wrong!("a `/`, `?` or `#` of its user or password is not percent-encoded");
    }
    let (host, port) = host_and_port(server.unwrap_or(authority));
    let database = rest.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
    if host.is_empty() {
        wrong!("it has no host")
    } else if !port.is_empty() && port.parse::<u16>().is_err() {
        wrong!("its port is not a number up to 65535")
    } else if matches!(host, "0.0.0.0" | "[::]") {
        wrong!("its host is not the address of one server")
    } else if !database.is_empty() && database.parse::<i64>().is_err() {
        wrong!("its database, the part after the host, is not a number")
    } else if is_tls && rest.contains('#') {
        wrong!("only `#insecure` may follow a `#`")
    } else {
        wrong!("its host, user, password or setting has a wrong character")
    }
}

/// Splits a server into its host and the text of its port, which is empty without one.
fn host_and_port(server: &str) -> (&str, &str) {
    // An address of IPv6 has colons too.
    let address = server.rfind(']').map_or(0, |at| at + 1);
    match server[address..].find(':') {
        Some(colon) => (&server[..address + colon], &server[address + colon + 1..]),
        None => (server, ""),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fault;
    use crate::Fleet;

    fn words(url: &str) -> String {
        Fleet::new(url).map(|_| ()).expect_err(url).to_string()
    }

    #[test]
    fn each_mistake_names_the_wrong_part() {
        for (url, part) in [
            ("", "it is empty"),
            ("127.0.0.1:6379", "it does not begin with a scheme and `://`"),
            ("redis:localhost", "it does not begin with a scheme and `://`"),
            ("http://localhost:6379", "its scheme is not `redis` or `rediss`"),
            ("redis://:6379", "it has no host"),
            ("redis://user:password@", "it has no host"),
            ("redis://localhost:port", "its port is not a number up to 65535"),
            ("redis://user:password@[::1]:65536/0", "its port is not a number up to 65535"),
            ("redis://0.0.0.0:6379", "its host is not the address of one server"),
            ("redis://localhost/db", "its database, the part after the host, is not a number"),
            (
                "redis://user:p/w@localhost",
                "a `/`, `?` or `#` of its user or password is not percent-encoded",
            ),
            ("redis://local host", "its host, user, password or setting has a wrong character"),
        ] {
            let wanted = format!(
                "not the URL of a Redis server, because {part}: use \
                 redis://user:password@host:6379/0, or rediss:// for TLS"
            );
            assert_eq!(words(url), wanted, "{url}");
        }
        let none: [&str; 0] = [];
        let words = Fleet::cluster(none).unwrap_err().to_string();
        assert_eq!(words, "no URL of a Redis server: name at least one server");
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn a_url_of_tls_names_the_feature() {
        let wanted = "rediss:// needs TLS: enable the feature `tls` of resile-redis";
        assert_eq!(words("rediss://localhost"), wanted);
    }

    proptest! {
        #[test]
        fn any_text_has_a_fault(url in "(rediss?://)?[a-z0-9:@/?#%\\[\\]é ]{0,20}") {
            prop_assert!(!fault(&url).to_string().is_empty());
        }
    }
}
