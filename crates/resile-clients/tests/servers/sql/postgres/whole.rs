//! Two tasks collide again and again, and each of them is retried until it has committed.

use sqlx::postgres::PgPoolOptions;

use super::{Admin, options, shared};
use crate::row::within;
use crate::sql::recipe::{amount, transfer};

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
