//! The chain of sources, by hand. `tests/servers` has the chains of real clients.

use std::error::Error;
use std::fmt;
use std::io;

use resile_clients::hyper::error;
use resile_clients::resile::Health;

use super::rows::{Says, function, says};

/// A link of the chain: its words and its source.
#[derive(Debug)]
struct Link(&'static str, Option<Box<dyn Error>>);

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Link {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref()
    }
}

fn over(words: &'static str, source: impl Into<Box<dyn Error>>) -> Link {
    Link(words, Some(source.into()))
}

fn seen(failed: &Link) -> Option<Says> {
    says(|it| error(failed, it))
}

const CONNECT: &str = "client error (Connect)";
const NEVER: Option<Says> = Some((false, false, Health::Unknown, false));

#[test]
fn a_connection_that_was_not_made_may_come_again_if_that_can_help() {
    let connect = function("hyper", "connect");
    assert_eq!(seen(&Link(CONNECT, None)), connect);
    // Nothing was sent, also if this reads as if something was.
    for kind in [
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::TimedOut,
        io::ErrorKind::UnexpectedEof,
    ] {
        assert_eq!(seen(&over(CONNECT, io::Error::from(kind))), connect, "{kind}");
    }
    // TLS puts one `io::Error` into another.
    let tls = io::Error::new(io::ErrorKind::InvalidData, "invalid peer certificate");
    assert_eq!(seen(&over(CONNECT, io::Error::other(tls))), NEVER);
    let url = Link("invalid URL, scheme is not http", None);
    assert_eq!(seen(&over(CONNECT, url)), NEVER);
    let outer = over("error sending request", over(CONNECT, io::Error::other("words")));
    assert_eq!(seen(&outer), connect);
}

#[test]
fn a_request_that_was_not_begun_may_come_again() {
    let canceled = function("hyper", "canceled");
    assert_eq!(seen(&Link("client error (Canceled)", None)), canceled);
    assert_eq!(seen(&Link("client error (ChannelClosed)", None)), canceled);
    assert_eq!(seen(&Link("client error (UserUnsupportedVersion)", None)), NEVER);
}

#[test]
fn a_request_that_was_sent_leaves_a_doubt() {
    let reset = io::Error::from(io::ErrorKind::ConnectionReset);
    let doubt = Some((true, false, Health::Failing, false));
    assert_eq!(seen(&over("client error (SendRequest)", reset)), doubt);
}

/// Words of a program are no evidence.
#[test]
fn a_chain_without_evidence_has_no_verdict() {
    for words in ["", "client error", "client error (Connected)", "my client error (Connect)"] {
        assert_eq!(seen(&Link(words, None)), None, "{words}");
    }
    let mut long = Link(CONNECT, None);
    for _ in 0..100 {
        long = over("words", long);
    }
    assert_eq!(seen(&long), None);
}
