//! Errors of the client `tokio-postgres`: it talks to a peer in memory that speaks the protocol.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use resile_clients::resile::Health;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, Error, NoTls};

use super::data::{classified, word};
use super::rows::{Says, rows, says};

fn seen(error: &Error) -> Option<Says> {
    says(|it| resile_clients::tokio_postgres::error(error, it))
}

const DOUBT: Option<Says> = Some((true, false, Health::Failing, false));
const OWN_FAULT: Option<Says> = Some((false, false, Health::Unknown, false));
const GARBLED: Option<Says> = Some((false, false, Health::Failing, false));

/// A peer that takes everything, says something, and then closes or loses the connection.
struct Peer {
    says: Vec<u8>,
    last: Option<io::ErrorKind>,
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = buffer.remaining().min(self.says.len());
        match self.last {
            Some(kind) if most == 0 => return Poll::Ready(Err(kind.into())),
            _ => buffer.put_slice(&self.says.drain(..most).collect::<Vec<_>>()),
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A message of the server: its kind, its length and its body.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

/// An error of the server: its code and the function that reports it.
fn refusal(code: &str, routine: &str) -> Vec<u8> {
    let body = format!("SERROR\0VERROR\0C{code}\0Mwords\0R{routine}\0\0");
    message(b'E', body.as_bytes())
}

/// Connects to a peer, and returns the error.
async fn error(says: Vec<u8>, last: Option<io::ErrorKind>) -> Error {
    let connected = Config::new().user("postgres").connect_raw(Peer { says, last }, NoTls).await;
    connected.err().unwrap()
}

#[tokio::test]
async fn each_code_has_the_verdict_of_its_row() {
    for row in rows().into_iter().filter(|row| row.family == "postgres") {
        let code = if row.code == "*" { "BK001".into() } else { row.code.replace('*', "000") };
        let error = error(refusal(&code, "ExecSimpleQuery"), None).await;
        assert_eq!(seen(&error), Some(row.says), "{code}");
    }
    assert_eq!(seen(&error(refusal("XXZZZ", "Never"), None).await), None);
}

/// The name of the function tells what the code does not.
#[tokio::test]
async fn a_routine_refines_its_code() {
    let role = error(refusal("53300", "InitializeSessionUserId"), None).await;
    assert_eq!(seen(&role), Some((true, true, Health::Throttling, true)));
    let plan = error(refusal("0A000", "RevalidateCachedQuery"), None).await;
    assert_eq!(seen(&plan), Some((true, true, Health::Healthy, false)));
    // It belongs to its code alone.
    let other = error(refusal("42601", "RevalidateCachedQuery"), None).await;
    assert_eq!(seen(&other), Some((false, false, Health::Healthy, false)));
}

#[tokio::test]
async fn a_connection_that_ends_leaves_a_doubt() {
    let closed = error(Vec::new(), None).await;
    assert!(closed.is_closed());
    assert_eq!(seen(&closed), DOUBT);
    for kind in [
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::TimedOut,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::Other,
    ] {
        let error = error(Vec::new(), Some(kind)).await;
        assert_eq!(seen(&error), DOUBT, "{kind}");
        assert_eq!(classified(&error), DOUBT, "{kind}");
        let word = word(&error);
        assert_eq!(word.is_empty(), kind == io::ErrorKind::Other, "{kind}: {word}");
    }
}

/// The client of the package `postgres` makes it.
#[test]
fn a_timeout_leaves_a_doubt() {
    assert_eq!(seen(&Error::__private_api_timeout()), DOUBT);
}

/// No connection was made, but the next one will lack TLS too.
#[tokio::test]
async fn a_peer_without_tls_is_not_asked_again() {
    let config = &mut Config::new();
    let config = config.user("postgres").ssl_mode(SslMode::Require);
    let peer = Peer { says: b"N".to_vec(), last: None };
    let error = config.connect_raw(peer, NoTls).await.err().unwrap();
    assert_eq!(seen(&error), OWN_FAULT, "{error}");
}

#[tokio::test]
async fn a_peer_of_another_protocol_is_not_asked_again() {
    let unexpected = error(message(b'Z', b"I"), None).await;
    assert_eq!(seen(&unexpected), GARBLED, "{unexpected}");
    assert_eq!((classified(&unexpected), word(&unexpected)), (GARBLED, String::new()));
    let garbled = error(message(b'E', b"C"), None).await;
    assert_eq!(seen(&garbled), GARBLED, "{garbled}");
}

#[tokio::test]
async fn a_fault_of_the_program_is_not_repeated() {
    let unsupported = error(message(b'R', &7_u32.to_be_bytes()), None).await;
    assert_eq!(seen(&unsupported), OWN_FAULT, "{unsupported}");
    let password = error(message(b'R', &3_u32.to_be_bytes()), None).await;
    assert_eq!(seen(&password), OWN_FAULT, "{password}");
    let unreadable = "port=none".parse::<Config>().unwrap_err();
    assert_eq!(seen(&unreadable), OWN_FAULT, "{unreadable}");
}
