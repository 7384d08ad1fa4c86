//! Two tasks collide, and each of them is retried until it has committed.

use resile::{Never, RetryPolicy, retry};
use resile_clients::Classifier;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};

use super::{Session, options, shared};
use crate::row::within;

const ROUNDS: i64 = 5;

async fn attempt(pool: &MySqlPool, ids: [i32; 2]) -> sqlx::Result<()> {
    let mut transaction = pool.begin().await?;
    for id in ids {
        let add = sqlx::query("UPDATE counted SET n = n + 1 WHERE id = ?").bind(id);
        add.execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

#[tokio::test]
async fn two_tasks_that_deadlock_both_commit() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        admin.table("counted").await;
        let status = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status
            WHERE variable_name = 'innodb_deadlocks'";
        let before = admin.one(status).await;
        let pool = MySqlPoolOptions::new().max_connections(2);
        let pool = &pool.connect_with(options(&server).database("mysql")).await.unwrap();
        let classifier = Classifier::non_idempotent();
        let policy = RetryPolicy::contention().with_classifier(classifier);
        let task = |ids| retry(move |_| attempt(pool, ids), &policy, Never).on("counted");
        let mut rounds = 0;
        // Without a deadlock this test would show nothing.
        while rounds < ROUNDS || admin.one(status).await == before {
            let (one, two) = tokio::join!(task([1, 2]), task([2, 1]));
            one.unwrap();
            two.unwrap();
            rounds += 1;
        }
        assert_eq!(admin.sum("counted").await, 4 * rounds);
    })
    .await;
}
