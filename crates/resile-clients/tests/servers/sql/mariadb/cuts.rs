//! A statement is cut, or its session, or the server.

use std::time::Duration;

use resile::Classify;
use resile::classify::Cut;
use resile_clients::Classifier;
use server::Server;

use super::{MariaDb, Session, options, shared};
use crate::row::{row, within};
use crate::sql::failure::{DOUBT, NEVER_SENT};

#[tokio::test]
async fn a_statement_that_takes_too_long() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        admin.table("slow").await;
        let mut session = Session::new(&server).await;
        session.run("SET max_statement_time = 0.05").await.unwrap();
        let failure = session.fail("UPDATE slow SET n = 1 + sleep(60)").await;
        failure.check(row("mysql", "1969"), admin.sum("slow").await != 0);

        let mut session = Session::new(&server).await;
        let id = session.id().await;
        let cut =
            tokio::spawn(async move { session.fail("UPDATE slow SET n = 1 + sleep(60)").await });
        admin.until(id, "User sleep").await;
        admin.run(&format!("KILL QUERY {id}")).await.unwrap();
        let failure = cut.await.unwrap();
        failure.check(row("mysql", "1317"), admin.sum("slow").await != 0);
    })
    .await;
}

/// Two statements, each of which commits. The session or the server goes away during the second one, so
/// the first one was executed. The client has an `io::Error` in both cases.
#[tokio::test]
async fn a_session_and_a_server_that_go_away() {
    within(async {
        let mut server = Server::start(MariaDb);
        let mut admin = Session::new(&server).await;
        admin.table("cut").await;
        for is_server in [false, true] {
            let before = admin.sum("cut").await;
            let mut session = Session::new(&server).await;
            let id = session.id().await;
            let both = "UPDATE cut SET n = n + 1 WHERE id = 1; SELECT sleep(60)";
            let cut = tokio::spawn(async move { session.fail(both).await });
            admin.until(id, "User sleep").await;
            if is_server {
                server.kill();
                let refused = Session::open(options(&server)).await;
                refused.err().unwrap().check(NEVER_SENT, false);
                server.restart();
                admin = Session::new(&server).await;
            } else {
                admin.run(&format!("KILL {id}")).await.unwrap();
            }
            let failure = cut.await.unwrap();
            failure.has("Io(");
            failure.check(DOUBT, admin.sum("cut").await > before);
        }
    })
    .await;
}

/// The server closes an idle session. The next statement was not executed, but nothing tells this.
#[tokio::test]
async fn a_session_that_was_idle() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        admin.table("idle").await;
        let mut session = Session::new(&server).await;
        let id = session.id().await;
        session.run("SET wait_timeout = 1").await.unwrap();
        admin.until_gone(id).await;
        let failure = session.fail("UPDATE idle SET n = 1").await;
        failure.has("Io(");
        failure.check(DOUBT, admin.sum("idle").await != 0);
    })
    .await;
}

/// The caller's limit ends the wait for a lock. The server knows nothing of that, and executes the
/// statement later.
#[tokio::test]
async fn a_statement_that_the_caller_cuts() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        admin.table("late").await;
        admin.run("BEGIN; SELECT * FROM late FOR UPDATE").await.unwrap();
        let mut session = Session::new(&server).await;
        let add = session.run("UPDATE late SET n = n + 1 WHERE id = 1");
        let cut = tokio::time::timeout(Duration::from_millis(300), add).await;
        assert!(cut.is_err());
        let classifier: &dyn Classify<sqlx::Error> = &Classifier::non_idempotent();
        assert!(!classifier.classify_cut(Cut::Deadline).unwrap().is_again());
        admin.run("COMMIT").await.unwrap();
        while admin.sum("late").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
