//! Errors of the driver.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_clients::mongodb::error;
use resile_clients::resile::Health;
use tokio::net::TcpSocket;

use super::server::{Server, client};
use crate::data::{Says, classified, rows, says, word};
use crate::row::{row, within};

fn seen(failed: &Error) -> Option<Says> {
    says(|it| error(failed, it))
}

/// An error of the server with a code and labels.
fn refusal(code: i32, labels: &[&str]) -> Document {
    doc! { "ok": 0, "code": code, "codeName": "Name", "errmsg": "words", "errorLabels": labels }
}

/// Makes a command that fails, and looks how often it arrived.
async fn command(answer: impl Fn() -> Option<Document> + Send + Sync + 'static) -> Error {
    let server = Server::start(move |_| answer()).await;
    let database = server.client(false).database("d");
    let failed = database.run_command(doc! { "increment": 1 }).await.unwrap_err();
    assert_eq!(server.commands(), 1);
    failed
}

/// The driver passes on each code and each label of the file.
#[tokio::test]
async fn each_row_of_a_server_has_its_verdict() {
    within(async {
        let mut found = 0;
        for wanted in rows().into_iter().filter(|row| row.family == "mongodb") {
            let number = wanted.code.parse::<i32>().ok();
            let labels: Vec<_> = wanted.code.split('+').filter(|_| number.is_none()).collect();
            // A row of labels has no code, and the driver wants one: it is unknown.
            let code = number.unwrap_or(54_321);
            let answer = refusal(code, &labels);
            let failed = command(move || Some(answer.clone())).await;
            assert_eq!(seen(&failed), Some(wanted.says), "{}: {failed:?}", wanted.code);
            assert_eq!(classified(&failed), Some(wanted.says), "{}: {failed:?}", wanted.code);
            assert_eq!(word(&failed), "Name");
            found += 1;
        }
        assert!(found > 30, "{found}");
        assert_eq!(seen(&command(|| Some(refusal(54_321, &[]))).await), None);
    })
    .await;
}

#[tokio::test]
async fn an_overload_sets_twice_the_base_of_the_delays() {
    within(async {
        let overloaded = ["SystemOverloadedError", "RetryableError"];
        for (hint, base) in [(None, 200), (Some(250_i64), 500)] {
            let failed = command(move || {
                let mut answer = refusal(462, &overloaded);
                answer.extend(hint.map(|hint| ("baseBackoffMS".to_owned(), hint.into())));
                Some(answer)
            })
            .await;
            let verdict = error(&failed, NotIdempotent).unwrap();
            assert!(verdict.is_again());
            assert_eq!(verdict.base(), Some(Duration::from_millis(base)), "{failed:?}");
        }
        // The server is not asked again, so there is no delay.
        let failed = command(|| Some(refusal(462, &["SystemOverloadedError"]))).await;
        let verdict = error(&failed, Idempotent).unwrap();
        assert!(!verdict.is_again() && verdict.base().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_closes_leaves_a_doubt() {
    within(async {
        let failed = command(|| None).await;
        assert_eq!(seen(&failed), row("mongodb-kind", "Io"), "{failed:?}");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_there_got_nothing() {
    within(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = socket.local_addr().unwrap().port();
        let database = client(port, false).database("d");
        let failed = database.run_command(doc! { "increment": 1 }).await.unwrap_err();
        assert_eq!(seen(&failed), row("mongodb-kind", "ServerSelection"), "{failed:?}");
    })
    .await;
}

/// An insert that was written, and whose concern failed.
#[tokio::test]
async fn what_was_written_is_not_written_again() {
    within(async {
        // A code that is always sent again, if a command has it.
        let concern = doc! { "code": 112, "codeName": "WriteConflict", "errmsg": "words" };
        let server = Server::start(move |_| {
            Some(doc! { "ok": 1, "n": 1, "writeConcernError": concern.clone() })
        })
        .await;
        let rooms = server.client(false).database("d").collection::<Document>("rooms");
        let one = rooms.insert_one(doc! { "_id": 1 }).await.unwrap_err();
        let doubt = Some((true, false, Health::Healthy, false));
        assert_eq!(seen(&one), doubt, "{one:?}");
        let many = rooms.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).await.unwrap_err();
        assert_eq!(seen(&many), doubt, "{many:?}");
        assert_eq!(server.commands(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_fault_of_the_program_is_not_repeated() {
    within(async {
        let server = Server::start(|_| Some(doc! { "ok": 1 })).await;
        let database = server.client(false).database("d");
        let failed = database.run_command(doc! {}).await.unwrap_err();
        assert_eq!(seen(&failed), row("mongodb-kind", "InvalidArgument"), "{failed:?}");
        assert_eq!(server.commands(), 0);
    })
    .await;
}

/// So the table of the guide says it, and so it multiplies with ours.
#[tokio::test]
async fn the_driver_repeats_a_write_by_itself() {
    within(async {
        for (retries, sent) in [(true, 2), (false, 1)] {
            let server = Server::start(|_| Some(refusal(91, &["RetryableWriteError"]))).await;
            let rooms = server.client(retries).database("d").collection::<Document>("rooms");
            let failed = rooms.insert_one(doc! { "_id": 1 }).await.unwrap_err();
            assert_eq!(server.commands(), sent, "{failed:?}");
            assert_eq!(seen(&failed), Some((true, false, Health::Failing, false)), "{failed:?}");
        }
    })
    .await;
}
