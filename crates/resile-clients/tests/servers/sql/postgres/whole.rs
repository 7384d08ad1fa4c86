//! The program of the README: tasks that collide, tasks that only wait, and commits that nobody answers.

use std::time::Duration;

use resile::StopReason;
use server::Server;
use sqlx::postgres::PgPoolOptions;

use super::{Admin, Postgres, alone, options, shared};
use crate::row::within;
use crate::sql::recipe::{Transfer, amount, open, transfer};

const ROUNDS: i64 = 5;

const TABLES: &str = "DROP TABLE IF EXISTS account, transfer;
    CREATE TABLE account (id int PRIMARY KEY, amount bigint NOT NULL);
    CREATE TABLE transfer (id text PRIMARY KEY);
    INSERT INTO account VALUES (1, 1000), (2, 1000)";

/// Longer than the attempt timeout of the program.
const LONG: Duration = Duration::from_millis(6500);

/// Starts a server with both accounts.
async fn bank() -> (Server<Postgres>, Admin) {
    let server = alone(&[]);
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

/// One task moves an amount from 1 to 2, and the other one from 2 to 1. Each locks its first row, so they
/// run into a deadlock.
#[tokio::test]
async fn two_tasks_that_deadlock_both_commit() {
    within(async {
        let server = shared();
        Admin::new(&server).await.run(TABLES).await;
        let pool = PgPoolOptions::new().max_connections(2).connect_with(options(&server));
        let bank = pool.await.unwrap();
        let has_collided = || server.place().log().contains("in relation \"account\"");
        let mut rounds = 0;
        // Without a deadlock this test would show nothing.
        while rounds < ROUNDS || !has_collided() {
            let ids = [format!("{rounds} there"), format!("{rounds} back")];
            let both = (to_two(&ids[0], 7), to_one(&ids[1], 3));
            let (one, two) = tokio::join!(transfer(&bank, &both.0), transfer(&bank, &both.1));
            one.unwrap();
            two.unwrap();
            rounds += 1;
        }
        assert_eq!(amount(&bank, 1).await.unwrap(), 1000 - 4 * rounds);
        assert_eq!(amount(&bank, 2).await.unwrap(), 1000 + 4 * rounds);
    })
    .await;
}

/// The limits of the pool and of the session end first, so the errors say what was missing.
#[tokio::test]
async fn a_wait_for_a_connection_or_a_lock_is_made_again() {
    within(async {
        let (server, mut other) = bank().await;
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
        let (server, _admin) = bank().await;
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options(&server));
        let held = pool.acquire().await.unwrap();
        let gave_up = transfer(&pool, &to_two("a", 7)).await.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.is_in_doubt()), (StopReason::Deadline, false));
        drop(held);
        assert_eq!(amount(&pool, 1).await.unwrap(), 1000);
    })
    .await;
}

/// The code of a session that is ended before its `COMMIT` is that of one which has committed.
#[tokio::test]
async fn a_session_that_is_ended_before_the_commit_is_made_again() {
    within(async {
        let (server, mut admin) = bank().await;
        let mut other = Admin::new(&server).await;
        other.run("BEGIN; UPDATE account SET amount = amount WHERE id = 1").await;
        let bank = open(options(&server));
        let end = async {
            let waits = "wait_event_type = 'Lock'";
            admin.until_seen(waits).await;
            let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE";
            admin.run(&format!("{ended} {waits}")).await;
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

/// A trigger at `COMMIT` that takes longer than the attempt may.
const SLOW_COMMIT: &str = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_sleep(8);
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON transfer DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION slow()";

/// The attempt is cut during its `COMMIT`, which goes on. Meanwhile the table says that nothing was done.
#[tokio::test]
async fn a_commit_that_is_cut_is_not_made_twice() {
    within(async {
        let (server, mut admin) = bank().await;
        admin.run(SLOW_COMMIT).await;
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
