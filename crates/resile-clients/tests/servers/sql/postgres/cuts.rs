//! A statement is cut, or its session, or the server. Some of the work was done before.

use std::time::Duration;

use server::Server;

use super::session::{CLIENTS, Client, Session};
use super::{Admin, Postgres, alone, shared};
use crate::row::{row, within};
use crate::sql::failure::{DOUBT, Failure};

#[tokio::test]
async fn a_statement_that_takes_too_long() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.table("slow").await;
        for client in CLIENTS {
            let mut session = Session::new(client, &server).await;
            session.run("SET statement_timeout = '30ms'").await.unwrap();
            let failure = session.fail("UPDATE slow SET n = 1 WHERE pg_sleep(60) IS NULL").await;
            failure.check(row("postgres", "57014"), admin.sum("slow").await != 0);
            // Behind a lock it passes later. The code does not tell.
            admin.run("BEGIN; UPDATE slow SET n = 0").await;
            let failure = session.fail("UPDATE slow SET n = 1").await;
            failure.check(row("postgres", "57014"), false);
            admin.run("ROLLBACK").await;
            session.run("UPDATE slow SET n = 1").await.unwrap();
            admin.run("UPDATE slow SET n = 0").await;
        }
    })
    .await;
}

/// The idle session is closed between two statements. So the next one was not executed, but only `sqlx`
/// reads why.
#[tokio::test]
async fn a_session_that_was_idle() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.table("idle").await;
        let settings = ["idle_in_transaction_session_timeout", "idle_session_timeout"];
        for client in CLIENTS {
            for setting in settings {
                let mut session = Session::new(client, &server).await;
                let name = format!("SET application_name = 'idle_{client:?}'");
                session.run(&name).await.unwrap();
                session.run(&format!("SET {setting} = '100ms'")).await.unwrap();
                if setting == settings[0] {
                    session.run("BEGIN").await.unwrap();
                    session.run("UPDATE idle SET n = n + 1").await.unwrap();
                }
                admin.until_gone(&format!("application_name = 'idle_{client:?}'")).await;
                let failure = session.fail("UPDATE idle SET n = n + 1").await;
                let is_executed = admin.sum("idle").await != 0;
                match (client, setting) {
                    (Client::TokioPostgres, _) => failure.check(DOUBT, is_executed),
                    (_, "idle_session_timeout") => {
                        failure.check(row("postgres", "57P05"), is_executed);
                    }
                    _ => failure.check(row("postgres", "25P03"), is_executed),
                }
            }
        }
    })
    .await;
}

/// Starts a procedure that commits its work and then sleeps, and waits for the commit.
async fn committed(
    client: Client,
    server: &Server<Postgres>,
    admin: &mut Admin,
) -> tokio::task::JoinHandle<Failure> {
    admin.table("cut").await;
    admin
        .run(
            "CREATE OR REPLACE PROCEDURE add_and_sleep() LANGUAGE plpgsql AS $$ BEGIN
                UPDATE cut SET n = n + 1;
                COMMIT;
                PERFORM pg_sleep(60);
            END $$",
        )
        .await;
    let mut session = Session::new(client, server).await;
    let call = tokio::spawn(async move { session.fail("CALL add_and_sleep()").await });
    while admin.sum("cut").await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    call
}

const CALLS: &str = "query LIKE 'CALL%' AND state = 'active'";

/// The work was committed. The same code ends a transaction that was not.
#[tokio::test]
async fn a_session_that_is_terminated_in_a_query() {
    within(async {
        let server = alone(&[]);
        let mut admin = Admin::new(&server).await;
        for client in CLIENTS {
            let call = committed(client, &server, &mut admin).await;
            admin.run(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {CALLS}")).await;
            let failure = call.await.unwrap();
            failure.check(row("postgres", "57P01"), admin.sum("cut").await == 2);

            let mut session = Session::new(client, &server).await;
            let cut = tokio::spawn(async move {
                session.run("BEGIN").await.unwrap();
                session.run("UPDATE cut SET n = n + 1").await.unwrap();
                session.fail("SELECT pg_sleep(60)").await
            });
            admin.until_seen("wait_event = 'PgSleep'").await;
            admin.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'").await;
            let failure = cut.await.unwrap();
            failure.check(row("postgres", "57P01"), admin.sum("cut").await != 2);
        }
    })
    .await;
}

/// The server stops at once, after the work was committed. The client reads no code.
#[tokio::test]
async fn a_server_that_stops_at_once() {
    within(async {
        let mut server = alone(&[]);
        for client in CLIENTS {
            let mut admin = Admin::new(&server).await;
            let call = committed(client, &server, &mut admin).await;
            server.end("QUIT");
            let failure = call.await.unwrap();
            server.restart();
            let mut admin = Admin::new(&server).await;
            failure.check(DOUBT, admin.sum("cut").await == 2);

            // The same words, and nothing was executed.
            let mut session = Session::new(client, &server).await;
            server.end("QUIT");
            let idle = session.fail("UPDATE cut SET n = n + 1").await;
            server.restart();
            let mut admin = Admin::new(&server).await;
            idle.check(DOUBT, admin.sum("cut").await != 2);
            if client == Client::TokioPostgres {
                assert_eq!(idle.text, failure.text);
            }
        }
    })
    .await;
}

/// A crash of one process ends all sessions. Its code 57P02 is sent as a warning, so no client has it.
#[tokio::test]
async fn a_process_that_crashes() {
    within(async {
        let server = alone(&[]);
        for client in CLIENTS {
            let mut admin = Admin::new(&server).await;
            let call = committed(client, &server, &mut admin).await;
            let mut session = Session::new(client, &server).await;
            let pid =
                admin.one(&format!("SELECT pid::bigint FROM pg_stat_activity WHERE {CALLS}")).await;
            let kill =
                std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            assert!(kill.unwrap().success());
            let failure = call.await.unwrap();
            let other = loop {
                // The server takes a moment to end it.
                if let Err(failure) = session.run("UPDATE cut SET n = n + 0").await {
                    break failure;
                }
            };
            let mut admin = Admin::after_recovery(&server).await;
            failure.check(DOUBT, admin.sum("cut").await == 2);
            other.check(DOUBT, admin.sum("cut").await != 2);
        }
    })
    .await;
}
