//! The words of the log for a server that is away.

use resile::fleet::State;
use resile_redis::Fleet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::crew::{Mate, all_share, limited, until};
use crate::log::capture_at;
use crate::proxy::{Proxy, Way};
use crate::server::Server;

/// Joins and waits for the reason of the outage. Returns that of the snapshot, which is in the
/// warning too.
async fn reason(url: &str, word: &str) -> String {
    let (lines, _guard) = capture_at(tracing::Level::WARN);
    let mate = Mate::join(&Fleet::new(url).unwrap(), limited(100, 10));
    mate.becomes(State::Safe).await;
    let error = || mate.member.snapshot().last_error.unwrap_or_default();
    until("the reason", || error().contains(word), error).await;
    let told = || lines.with("no exchange with the store has succeeded yet");
    until("the warning", || !told().is_empty(), || format!("{:?}", lines.with(""))).await;
    let (line, words) = (told().remove(0), error());
    assert!(line.contains(&format!("Raise `with_least_members`: {words}")), "{line}");
    words
}

#[tokio::test]
async fn a_host_without_an_address_has_no_connection() {
    let words = reason("redis://nowhere.invalid:6379", "lookup").await;
    assert!(words.starts_with("no connection to the server: failed to lookup address"), "{words}");
}

#[tokio::test]
async fn a_wrong_password_is_a_refused_login() {
    let Some(server) = Server::start(&["--requirepass", "secret"]) else { return };
    for (login, code) in [(":wrong@", "WRONGPASS"), ("", "NOAUTH")] {
        let url = format!("redis://{login}127.0.0.1:{}", server.port());
        let words = reason(&url, code).await;
        assert!(
            words.starts_with(&format!("the server refused the login: \"{code}\": ")),
            "{words}"
        );
    }
}

#[tokio::test]
async fn a_port_of_another_program_is_no_redis() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 1_024]).await;
                let page = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
                let _ = stream.write_all(page).await;
            });
        }
    });
    let words = reason(&format!("redis://127.0.0.1:{port}"), "Parse").await;
    let expected = "the answer is not that of a Redis server: Parse error at 1";
    assert!(words.starts_with(expected), "{words}");
    assert!(!words.contains(char::is_control), "{words:?}");
}

/// The time without an answer grows from try to try. It is one fault all the time.
#[tokio::test]
async fn a_silent_server_is_one_reason() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::DEBUG);
    let proxy = Proxy::start(server.port()).await;
    let mate = Mate::join(&Fleet::new(&proxy.url()).unwrap(), limited(100, 10));
    all_share(std::slice::from_ref(&mate)).await;
    let told = || lines.with("fleet: an exchange failed (");
    let before = told().len();
    proxy.set(Way::Silent);
    mate.becomes(State::Safe).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let failed = told().split_off(before);
    for exchange in ["requests", "members", "limits", "learned"] {
        let is_its = |line: &&String| {
            let (_, list) = line.split_once("exchange=\"").unwrap();
            let mut words = list.split('"').next().unwrap().split(", ");
            words.any(|word| word == exchange)
        };
        let count = failed.iter().filter(is_its).count();
        assert!(count <= 1, "{exchange}: {failed:#?}"); // it may have failed before
    }
    assert!(failed.iter().any(|line| line.contains(": no answer within ")), "{failed:#?}");
}
