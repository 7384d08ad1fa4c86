//! Errors of real sockets under `io::Classifier`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use resile::io::{Classifier, never_sent};
use resile::{Classify, Health, Never, RetryPolicy, retry};

use super::refusing::refusing;

/// Returns whether both classifiers send the request again, and the health.
fn seen(error: &io::Error) -> (bool, bool, Health) {
    let safe = Classifier::idempotent().classify(error).expect("an opinion");
    let booking = Classifier::non_idempotent().classify(error).expect("an opinion");
    assert_eq!(safe.health(), booking.health());
    (safe.is_again(), booking.is_again(), safe.health())
}

const LOST: (bool, bool, Health) = (true, false, Health::Failing);

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Sends a request to a server that reads `read` bytes of it and closes. Returns the error.
fn ask(read: usize) -> io::Error {
    let (listener, address) = listen();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(&[7; 64]).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut vec![0; read]).unwrap();
    drop(server);
    client.read_exact(&mut [0; 8]).unwrap_err()
}

#[test]
fn a_refused_connection_was_never_sent() {
    let (_socket, address) = refusing();
    let error = TcpStream::connect(address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(seen(&error), (true, true, Health::Failing));
    assert!(never_sent(&error));
}

/// A server that closes with unread bytes resets the connection.
#[test]
fn a_reset_may_follow_the_request() {
    let error = ask(1);
    assert_eq!((error.kind(), seen(&error)), (ErrorKind::ConnectionReset, LOST));
}

#[test]
fn an_early_end_may_follow_the_request() {
    let error = ask(64);
    assert_eq!((error.kind(), seen(&error)), (ErrorKind::UnexpectedEof, LOST));
}

#[test]
fn a_broken_pipe_may_follow_the_request() {
    let (listener, address) = listen();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(&[7; 64]).unwrap();
    drop(listener.accept().unwrap());
    assert!(client.read_exact(&mut [0; 8]).is_err());
    let error = (0..100).find_map(|_| client.write_all(&[7; 64]).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert_eq!(seen(&error), LOST);
}

/// The standard library says `WouldBlock` on Unix and `TimedOut` on Windows.
#[test]
fn a_read_timeout_may_follow_the_request() {
    let (listener, address) = listen();
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    client.write_all(&[7; 64]).unwrap();
    let _server = listener.accept().unwrap();
    let error = client.read_exact(&mut [0; 8]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error:?}");
    assert_eq!(seen(&error), LOST);
}

#[test]
fn a_foreign_address_is_no_fault_of_the_upstream() {
    let error = TcpListener::bind("192.0.2.1:0").unwrap_err(); // of no machine, RFC 5737
    assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
    assert_eq!(seen(&error), (true, true, Health::Unknown));
}

#[test]
fn an_address_in_use_stays_in_use() {
    let (_listener, address) = listen();
    let error = TcpListener::bind(address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert_eq!(seen(&error), (false, false, Health::Unknown));
}

/// A label of a name has at most 63 bytes, so no server of names is asked.
#[test]
fn an_impossible_name_was_never_sent_to() {
    let name = format!("{}.invalid:80", "a".repeat(64));
    let error = name.to_socket_addrs().unwrap_err();
    assert!(never_sent(&error), "{error:?}");
    assert_eq!(seen(&error).2, Health::Unknown);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("resile-{name}-{}.socket", std::process::id()))
    }

    /// A missing file looks the same, so a booking is not repeated.
    #[test]
    fn a_missing_socket_may_come_back() {
        let error = UnixStream::connect(path("missing")).unwrap_err();
        assert_eq!((error.kind(), seen(&error)), (ErrorKind::NotFound, LOST));
    }

    #[test]
    fn a_socket_without_a_listener_refuses() {
        let path = path("stale");
        drop(UnixListener::bind(&path).unwrap());
        let error = UnixStream::connect(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(seen(&error), (true, true, Health::Failing));
    }
}

/// The words of the connector of `hyper-util` and a refused connection, through a real client.
#[tokio::test]
async fn the_chain_of_a_real_client_is_read() {
    let (listener, address) = listen();
    drop(listener);
    let error = reqwest::Client::builder().no_proxy().build().unwrap();
    let error = error.get(format!("http://{address}")).send().await.unwrap_err();
    assert!(never_sent(&error), "{error:?}");
    let booking = Classifier::non_idempotent();
    assert!(booking.verdict(&error).unwrap().is_again());
}

/// A server that closes each connection after the request: the booking is sent once, the read again.
#[tokio::test]
async fn a_booking_is_sent_once() {
    for (classifier, attempts) in [(Classifier::non_idempotent(), 1), (Classifier::idempotent(), 3)]
    {
        let policy =
            RetryPolicy::new().with_backoff(resile::Backoff::none()).with_classifier(classifier);
        let gave_up = retry(|_| async { Err::<(), _>(ask(64)) }, policy, Never).await.unwrap_err();
        assert_eq!(gave_up.attempts(), attempts);
    }
}
