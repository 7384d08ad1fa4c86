//! The program of the README: tasks that collide, tasks that only wait, and commits that nobody answers.

use std::time::Duration;

use resile::{Health, StopReason};
use server::Server;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use super::{Admin, Postgres, alone, options};
use crate::row::within;
use crate::sql::recipe::{Transfer, amount, open, transfer};

const TASKS: usize = 20;
const ROUNDS: i64 = 5;

const TABLES: &str = "CREATE TABLE account (id int PRIMARY KEY, amount bigint NOT NULL);
    CREATE TABLE transfer (id text PRIMARY KEY);
    INSERT INTO account VALUES (1, 1000), (2, 1000)";

/// Longer than the attempt timeout of the program.
const LONG: Duration = Duration::from_millis(7500);

/// Starts a server with both accounts.
async fn bank(settings: &'static [&'static str]) -> (Server<Postgres>, Admin) {
    let server = alone(settings);
    let mut admin = Admin::new(&server).await;
    admin.run(TABLES).await;
    (server, admin)
}

/// Returns a transfer from account 1 to account 2.
const fn to_two(id: &str, amount: i64) -> Transfer<'_> {
    Transfer { id, from: 1, to: 2, amount }
}

/// Returns a transfer from account 2 to account 1.
const fn to_one(id: &str, amount: i64) -> Transfer<'_> {
    Transfer { id, from: 2, to: 1, amount }
}

/// Twenty tasks make transfers between two accounts in both directions, with the settings of a new server.
/// All lock in one order, so no deadlock comes about, and each transfer only waits for its turn.
#[tokio::test]
async fn transfers_in_both_directions_do_not_deadlock() {
    within(async {
        let (server, _admin) = bank(&["deadlock_timeout=1s"]).await;
        let bank = open(options(&server));
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let bank = bank.clone();
            tasks.spawn(async move {
                for round in 0..ROUNDS {
                    let id = format!("{task} {round}");
                    let call = if task % 4 == 0 { to_one(&id, 3) } else { to_two(&id, 7) };
                    transfer(&bank, &call).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let moved = ROUNDS * (15 * 7 - 5 * 3);
        assert_eq!(amount(&bank, 1).await.unwrap(), 1000 - moved);
        assert_eq!(amount(&bank, 2).await.unwrap(), 1000 + moved);
        assert!(!server.place().log().contains("deadlock detected"));
    })
    .await;
}

/// Another program locks in the other order. The server finds the deadlock before the transfer stops
/// waiting for its lock, so one of both is rolled back and the other one commits.
#[tokio::test]
async fn a_deadlock_with_another_program_is_made_again() {
    within(async {
        let (server, mut admin) = bank(&["deadlock_timeout=1s"]).await;
        let mut other = Admin::new(&server).await;
        // The session that looks for the deadlock first is rolled back.
        other.run("SET deadlock_timeout = '60s'").await;
        other.run("BEGIN; UPDATE account SET amount = amount WHERE id = 2").await;
        let bank = open(options(&server));
        let collide = async {
            admin.until_seen("wait_event_type = 'Lock'").await;
            other.run("UPDATE account SET amount = amount WHERE id = 1").await;
            other.run("COMMIT").await;
        };
        let call = to_two("a", 7);
        let (done, ()) = tokio::join!(transfer(&bank, &call), collide);
        done.unwrap();
        let log = server.place().log();
        assert!(log.contains("deadlock detected") && !log.contains("lock timeout"), "{log}");
        assert_eq!(amount(&bank, 1).await.unwrap(), 1000 - 7);
    })
    .await;
}

/// The limits of the pool and of the session end first, so the errors say what was missing.
#[tokio::test]
async fn a_wait_for_a_connection_or_a_lock_is_made_again() {
    within(async {
        let (server, mut other) = bank(&[]).await;
        let used_up = open(options(&server));
        let mut held = Vec::new();
        for _ in 0..10 {
            held.push(used_up.acquire().await.unwrap());
        }
        other.run("BEGIN; UPDATE account SET amount = amount WHERE id = 1").await;
        let locked = open(options(&server));
        let release = async {
            tokio::time::sleep(LONG).await;
            drop(held);
            other.run("COMMIT").await;
        };
        let both = (to_one("a", 3), to_two("b", 7));
        let calls = (transfer(&used_up, &both.0), transfer(&locked, &both.1));
        let (no_connection, no_lock, ()) = tokio::join!(calls.0, calls.1, release);
        no_connection.unwrap();
        no_lock.unwrap();
        assert_eq!(amount(&locked, 1).await.unwrap(), 1000 - 4);
    })
    .await;
}

/// A pool waits for 30 s unless it is told otherwise, so both timeouts cut the attempts. Nobody must find
/// out what happened.
#[tokio::test]
async fn a_call_that_only_waited_for_the_pool_is_not_in_doubt() {
    within(async {
        let (server, _admin) = bank(&[]).await;
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options(&server));
        let held = pool.acquire().await.unwrap();
        let call = to_two("a", 7);
        let (gave_up, read) = tokio::join!(transfer(&pool, &call), amount(&pool, 1));
        for gave_up in [gave_up.unwrap_err().into_boxed(), read.unwrap_err().into_boxed()] {
            assert_eq!((gave_up.reason(), gave_up.is_in_doubt()), (StopReason::Deadline, false));
            assert!(gave_up.is_without_effect(), "{gave_up:#}");
            // The pool may be used up or the server may be gone, so no breaker counts it.
            assert_eq!(gave_up.verdict().unwrap().health(), Health::Unknown, "{gave_up:#}");
        }
        drop(held);
        assert_eq!(amount(&pool, 1).await.unwrap(), 1000);
    })
    .await;
}

/// The code of a session that is ended before its `COMMIT` is that of one which has committed.
#[tokio::test]
async fn a_session_that_is_ended_before_the_commit_is_made_again() {
    within(async {
        let (server, mut admin) = bank(&[]).await;
        let mut other = Admin::new(&server).await;
        other.run("BEGIN; UPDATE account SET amount = amount WHERE id = 1").await;
        let bank = open(options(&server));
        let end = async {
            admin.end("wait_event_type = 'Lock'").await;
            other.run("COMMIT").await;
        };
        let call = to_two("a", 7);
        let (done, ()) = tokio::join!(transfer(&bank, &call), end);
        done.unwrap();
        assert!(server.place().log().contains("terminating connection"));
        assert_eq!(amount(&bank, 1).await.unwrap(), 1000 - 7);
    })
    .await;
}

/// A client that is lost within its transaction sends no `COMMIT`, and neither does one whose `COMMIT` is lost. The
/// server ends its session, so the row of the key is free before a call with this key gives up.
#[tokio::test]
async fn a_session_of_a_lost_client_does_not_keep_the_key() {
    within(async {
        let (server, _admin) = bank(&[]).await;
        let bank = open(options(&server));
        let mut lost = bank.begin().await.unwrap();
        let insert = "INSERT INTO transfer (id) VALUES ('a')";
        sqlx::query(insert).execute(&mut *lost).await.unwrap();
        transfer(&bank, &to_two("a", 7)).await.unwrap();
        assert!(server.place().log().contains("idle-in-transaction timeout"));
        assert_eq!(amount(&bank, 1).await.unwrap(), 1000 - 7);
    })
    .await;
}

/// An `UPDATE` in a queue waits once for each transaction before it, and `lock_timeout` limits one wait only.
/// So the server ends the statement, and the transfer waits again.
#[tokio::test]
async fn a_queue_for_one_row_ends_no_call() {
    within(async {
        let (server, mut admin) = bank(&[]).await;
        admin.slow_commit("transfer", 1).await;
        let bank = open(options(&server));
        let mut tasks = JoinSet::new();
        for task in 0..8 {
            let bank = bank.clone();
            tasks.spawn(async move {
                transfer(&bank, &to_two(&task.to_string(), 7)).await.map_err(|it| format!("{it:#}"))
            });
        }
        let failed: Vec<_> = tasks.join_all().await.into_iter().filter_map(Result::err).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        let log = server.place().log();
        assert!(log.contains("canceling statement due to statement timeout"), "{log}");
        assert_eq!(amount(&bank, 1).await.unwrap(), 1000 - 8 * 7);
    })
    .await;
}

/// `statement_timeout` does not limit the work within `COMMIT`, such as a deferred trigger.
#[tokio::test]
async fn a_commit_lasts_longer_than_the_timeout_of_a_statement() {
    within(async {
        let (_server, mut admin) = bank(&[]).await;
        admin.slow_commit("transfer", 1).await;
        admin.run("SET statement_timeout = '100ms'; BEGIN").await;
        admin.run("INSERT INTO transfer (id) VALUES ('a')").await;
        admin.run("COMMIT").await;
        assert_eq!(admin.one("SELECT count(*) FROM transfer").await, 1);
        // A statement outside a transaction is committed too. Only its own work has the limit.
        admin.run("INSERT INTO transfer (id) VALUES ('b')").await;
        assert_eq!(admin.one("SELECT count(*) FROM transfer").await, 2);
        assert!(sqlx::raw_sql("SELECT pg_sleep(1)").execute(&mut admin.0).await.is_err());
    })
    .await;
}

/// The attempt is cut during its `COMMIT`, which goes on: no timeout of the pool ends it. Meanwhile the table
/// says that nothing was done.
#[tokio::test]
async fn a_commit_that_is_cut_is_not_made_twice() {
    within(async {
        let (server, mut admin) = bank(&[]).await;
        admin.slow_commit("transfer", 9).await;
        let bank = open(options(&server));
        let look = async {
            tokio::time::sleep(LONG).await;
            admin.one("SELECT count(*) FROM transfer").await
        };
        let call = to_two("a", 7);
        let (done, seen) = tokio::join!(transfer(&bank, &call), look);
        done.unwrap();
        assert_eq!(seen, 0, "the look came too late to show anything");
        assert_eq!(amount(&bank, 1).await.unwrap(), 1000 - 7);
        transfer(&bank, &call).await.unwrap();
        assert_eq!(amount(&bank, 1).await.unwrap(), 1000 - 7);
        assert_eq!(admin.one("SELECT count(*) FROM transfer").await, 1);
    })
    .await;
}

/// The `COMMIT` lasts longer than the call. The call has failed and is not in doubt, because it may be made
/// again. But its transfer is made all the same.
#[tokio::test]
async fn a_transfer_may_be_made_after_its_call_gave_up() {
    within(async {
        let (server, mut admin) = bank(&[]).await;
        admin.slow_commit("transfer", 17).await;
        let bank = open(options(&server));
        let call = to_two("a", 7);
        let gave_up = transfer(&bank, &call).await.unwrap_err();
        assert!(!gave_up.is_in_doubt() && gave_up.cut().is_some(), "{gave_up}");
        assert!(!gave_up.is_without_effect());
        let count = "SELECT count(*) FROM transfer";
        // The next call speaks of itself alone.
        let closed = open(options(&server));
        closed.close().await;
        assert!(transfer(&closed, &call).await.unwrap_err().is_without_effect());
        assert_eq!(admin.one(count).await, 0);
        transfer(&bank, &call).await.unwrap();
        assert_eq!(admin.one(count).await, 1);
        assert_eq!(amount(&bank, 1).await.unwrap(), 1000 - 7);
    })
    .await;
}

/// The server does not stop a statement when its client goes away. Its own timeout does.
#[tokio::test]
async fn no_statement_is_left_after_its_attempt() {
    within(async {
        let (server, mut admin) = bank(&[]).await;
        admin.run("ALTER TABLE account RENAME TO stored").await;
        let slow = "CREATE VIEW account AS SELECT stored.* FROM stored, pg_sleep(60)";
        admin.run(slow).await;
        let bank = open(options(&server));
        let cut = tokio::time::timeout(Duration::from_secs(1), amount(&bank, 1)).await;
        assert!(cut.is_err());
        let runs = "state = 'active' AND query LIKE '%FROM account%'";
        admin.until_seen(runs).await;
        let soon = Duration::from_secs(5);
        tokio::time::timeout(soon, admin.until_gone(runs)).await.expect("it still runs");
        // It is not made again, because it would last as long again.
        let gave_up = amount(&bank, 1).await.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1), "{gave_up:#}");
        assert!(gave_up.elapsed() < Duration::from_secs(6), "{gave_up:#}");
        tokio::time::timeout(soon, admin.until_gone(runs)).await.expect("it still runs");
    })
    .await;
}
