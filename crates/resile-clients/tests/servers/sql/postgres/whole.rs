//! The program of the README: tasks that collide, and tasks that wait for longer than an attempt may last.

use std::time::Duration;

use resile::StopReason;
use sqlx::postgres::PgPoolOptions;

use super::{Admin, alone, options, shared};
use crate::row::within;
use crate::sql::recipe::{amount, open, transfer};

const ROUNDS: i64 = 5;

/// One task moves an amount from 1 to 2, and the other one from 2 to 1. Each locks its first row, so they
/// run into a deadlock.
#[tokio::test]
async fn two_tasks_that_deadlock_both_commit() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin
            .run(
                "DROP TABLE IF EXISTS account;
                CREATE TABLE account (id int PRIMARY KEY, amount bigint NOT NULL);
                INSERT INTO account VALUES (1, 1000), (2, 1000)",
            )
            .await;
        let pool = PgPoolOptions::new().max_connections(2).connect_with(options(&server));
        let bank = pool.await.unwrap();
        let has_collided = || server.place().log().contains("in relation \"account\"");
        let mut rounds = 0;
        // Without a deadlock this test would show nothing.
        while rounds < ROUNDS || !has_collided() {
            let (one, two) = tokio::join!(transfer(&bank, [1, 2], 7), transfer(&bank, [2, 1], 3));
            one.unwrap();
            two.unwrap();
            rounds += 1;
        }
        assert_eq!(amount(&bank, 1).await.unwrap(), 1000 - 4 * rounds);
        assert_eq!(amount(&bank, 2).await.unwrap(), 1000 + 4 * rounds);
    })
    .await;
}

const TABLE: &str = "CREATE TABLE account (id int PRIMARY KEY, amount bigint NOT NULL);
    INSERT INTO account VALUES (1, 1000), (2, 1000)";

/// Longer than the attempt timeout of the program.
const LONG: Duration = Duration::from_millis(5500);

/// The limits of the pool and of the session end first, so a transfer that has only waited is made again.
#[tokio::test]
async fn a_wait_for_a_connection_or_a_lock_is_not_in_doubt() {
    within(async {
        let server = alone(&[]);
        Admin::new(&server).await.run(TABLE).await;
        let used_up = open(options(&server));
        let mut held = Vec::new();
        for _ in 0..10 {
            held.push(used_up.acquire().await.unwrap());
        }
        let mut other = Admin::new(&server).await;
        other.run("BEGIN; UPDATE account SET amount = amount WHERE id = 1").await;
        let locked = open(options(&server));
        let release = async {
            tokio::time::sleep(LONG).await;
            drop(held);
            other.run("COMMIT").await;
        };
        let calls = (transfer(&used_up, [2, 1], 3), transfer(&locked, [1, 2], 7));
        let (no_connection, no_lock, ()) = tokio::join!(calls.0, calls.1, release);
        no_connection.unwrap();
        no_lock.unwrap();
        assert_eq!(amount(&locked, 1).await.unwrap(), 1000 - 4);
    })
    .await;
}

/// A pool waits for 30 s unless it is told otherwise. Nothing was sent, but the attempt timeout does not
/// know it.
#[tokio::test]
async fn an_attempt_that_is_cut_while_it_waits_for_the_pool_is_in_doubt() {
    within(async {
        let server = alone(&[]);
        Admin::new(&server).await.run(TABLE).await;
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options(&server));
        let held = pool.acquire().await.unwrap();
        let gave_up = transfer(&pool, [1, 2], 7).await.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.is_in_doubt()), (StopReason::Fatal, true));
        drop(held);
        assert_eq!(amount(&pool, 1).await.unwrap(), 1000);
    })
    .await;
}
