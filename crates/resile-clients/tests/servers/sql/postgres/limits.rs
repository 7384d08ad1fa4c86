//! No connection: a pool that is used up, a server that is full, and one that is not there.

use std::time::Duration;

use resile::{Classify, Health, Never, ResilienceExt, RetryPolicy, StopReason, Verdict, retry};
use resile_clients::Classifier;
use server::Server;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use tokio::net::TcpListener;
use tokio_postgres::NoTls;
use tokio_postgres::config::TargetSessionAttrs;

use super::session::{CLIENTS, Client, Session};
use super::{Admin, Postgres, alone, options, shared};
use crate::row::{row, within};
use crate::sql::failure::{Failure, NEVER_SENT, NO_CONNECTION, OWN_FAULT, OWN_LIMIT};

/// Returns a pool of one connection.
fn pool(options: PgConnectOptions) -> PgPool {
    let one = PgPoolOptions::new().max_connections(1);
    one.acquire_timeout(Duration::from_millis(100)).connect_lazy_with(options)
}

#[tokio::test]
async fn a_pool_that_is_used_up_and_then_closed() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.table("pooled").await;
        let pool = pool(options(&server));
        let held = pool.acquire().await.unwrap();
        let add = "UPDATE pooled SET n = n + 1";
        let failure = Failure::from(sqlx::query(add).execute(&pool).await.unwrap_err());
        failure.check(NO_CONNECTION, admin.sum("pooled").await != 0);
        drop(held);
        sqlx::query(add).execute(&pool).await.unwrap();
        pool.close().await;
        let failure = Failure::from(sqlx::query(add).execute(&pool).await.unwrap_err());
        failure.check(OWN_FAULT, admin.sum("pooled").await != 2);
    })
    .await;
}

/// A pool waits for a server that is not there, so its error is that of a pool that is used up.
#[tokio::test]
async fn a_server_that_is_not_there() {
    within(async {
        let mut server = alone(&[]);
        server.end("QUIT");
        for client in CLIENTS {
            let refused = Session::open(client, &server, "postgres", "postgres").await;
            refused.err().unwrap().check(NEVER_SENT, false);
        }
        let failure = pool(options(&server)).acquire().await.unwrap_err();
        Failure::from(failure).check(NO_CONNECTION, false);
        // It takes the connection and says nothing.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let options = options(&server).port(silent.local_addr().unwrap().port());
        let failure = pool(options).acquire().await.unwrap_err();
        Failure::from(failure).check(NO_CONNECTION, false);
    })
    .await;
}

/// A call that has waited in vain for a connection has done nothing, whether the pool or the total timeout
/// ends its last wait.
#[tokio::test]
async fn a_call_without_a_connection_has_no_effect() {
    within(async {
        let server = shared();
        let bank = pool(options(&server));
        let held = bank.acquire().await.unwrap();
        let policy = RetryPolicy::contention().with_classifier(Classifier::idempotent());
        for (policy, reason) in [
            (policy.with_attempts(2), StopReason::Attempts),
            (policy.with_total_timeout(Duration::from_millis(50)), StopReason::Deadline),
        ] {
            let begin = async |_| bank.begin().before_sending().await.map(drop);
            let gave_up = retry(begin, policy, Never).await.unwrap_err();
            assert_eq!((gave_up.reason(), gave_up.is_without_effect()), (reason, true));
        }
        drop(held);
        // The server has undone the statement that it refuses, and goes on with the one that is cut.
        for (statement, is_known) in
            [("INSERT INTO nowhere (n) VALUES (1)", true), ("SELECT pg_sleep(9)", false)]
        {
            let ask = |_| sqlx::query(statement).execute(&bank);
            let cut = policy.with_attempts(1).with_attempt_timeout(Duration::from_millis(90));
            let gave_up = retry(ask, cut, Never).await.unwrap_err();
            assert_eq!(gave_up.is_without_effect(), is_known, "{gave_up:?}");
        }
    })
    .await;
}

/// The form that the README names for a server that is PostgreSQL itself.
fn canceled(error: &sqlx::Error) -> Option<Verdict> {
    let is_ended = error.as_database_error()?.code()? == "57014";
    is_ended.then(|| Verdict::fatal().with_health(Health::Unknown).without_effect())
}

/// A statement without a key is ended by its timeout or by an operator.
#[tokio::test]
async fn a_canceled_statement_is_in_doubt_unless_the_program_knows_the_server() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.table("canceled").await;
        let bank = PgPoolOptions::new().connect_lazy_with(
            options(&server).options([("statement_timeout", "1s")]).application_name("canceled"),
        );
        let order = Classifier::non_idempotent();
        let policy = RetryPolicy::contention();
        let add = "UPDATE canceled SET n = n + 1 WHERE pg_sleep(60) IS NOT NULL";
        let op = |_| sqlx::query(add).execute(&bank);
        let slept = "application_name = 'canceled' AND wait_event = 'PgSleep'";
        for by_hand in [false, true] {
            let cancel = async {
                if by_hand {
                    admin.until_seen(slept).await;
                    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE";
                    admin.run(&format!("{cancel} {slept}")).await;
                }
            };
            let call = retry(op, policy.with_classifier(order), Never);
            let (gave_up, ()) = tokio::join!(call, cancel);
            let gave_up = gave_up.unwrap_err();
            assert!(gave_up.is_in_doubt() && !gave_up.is_without_effect(), "{gave_up:?}");
            assert_eq!(order.error_type(gave_up.last().unwrap()).as_deref(), Some("57014"));
        }
        for pair in [(canceled, order), (canceled, Classifier::keyed())] {
            let gave_up = retry(op, policy.with_classifier(pair), Never).await.unwrap_err();
            let end = (gave_up.reason(), gave_up.is_in_doubt(), gave_up.is_without_effect());
            assert_eq!(end, (StopReason::Fatal, false, true), "{gave_up:?}");
            assert!(gave_up.to_string().contains(", without effect"), "{gave_up}");
        }
        assert_eq!(admin.sum("canceled").await, 0);
    })
    .await;
}

/// Opens sessions until one is refused. Returns those that are open, and the failure.
async fn one_too_many(
    client: Client,
    server: &Server<Postgres>,
    role: &str,
) -> (Vec<Session>, Failure) {
    let mut held = Vec::new();
    loop {
        match Session::open(client, server, role, "postgres").await {
            Ok(session) => held.push(session),
            Err(failure) => return (held, failure),
        }
    }
}

#[tokio::test]
async fn too_many_sessions() {
    within(async {
        let server = alone(&["max_connections=8", "superuser_reserved_connections=3"]);
        let mut admin = Admin::new(&server).await;
        admin.run("CREATE ROLE many LOGIN; CREATE ROLE few LOGIN CONNECTION LIMIT 1").await;
        for client in CLIENTS {
            // "for role": this caller has too many. The others have room.
            let (held, failure) = one_too_many(client, &server, "few").await;
            failure.has("53300");
            failure.check(OWN_LIMIT, false);
            drop(held);
            admin.until_gone("usename = 'few'").await;

            let (held, failure) = one_too_many(client, &server, "many").await;
            failure.check(row("postgres", "53300"), false);
            // A pool waits for a place in the server, and does not say so.
            let failure = pool(options(&server).username("many")).acquire().await.unwrap_err();
            Failure::from(failure).check(NO_CONNECTION, false);
            drop(held);
            admin.until_gone("usename = 'many'").await;
        }
    })
    .await;
}

/// A standby takes the connection, but it does not write. Another server of the list may.
#[tokio::test]
async fn a_server_without_the_rights_that_are_asked_for() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.run("CREATE ROLE reader LOGIN").await;
        admin.run("ALTER ROLE reader SET default_transaction_read_only = on").await;
        let config = &mut tokio_postgres::Config::new();
        config.host("127.0.0.1").port(server.port()).user("reader").dbname("postgres");
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        let refused = config.connect(NoTls).await;
        Failure::from(refused.err().unwrap()).check(NEVER_SENT, false);
        admin.run("DROP ROLE reader").await;
    })
    .await;
}

/// A smart shutdown waits for the sessions that are open, and refuses new ones.
#[tokio::test]
async fn a_server_that_shuts_down() {
    within(async {
        let server = alone(&[]);
        let mut admin = Admin::new(&server).await;
        server.signal("TERM");
        for client in CLIENTS {
            let failure = loop {
                // The signal takes a moment.
                match Session::open(client, &server, "postgres", "postgres").await {
                    Ok(_) => tokio::task::yield_now().await,
                    Err(failure) => break failure,
                }
            };
            failure.check(row("postgres", "57P03"), false);
        }
        admin.run("SELECT 1").await;
    })
    .await;
}
