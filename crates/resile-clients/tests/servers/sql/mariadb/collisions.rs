//! Two transactions collide.

use sqlx::mysql::MySqlPoolOptions;

use super::{Session, options, shared};
use crate::row::{row, within};
use crate::sql::failure::Failure;

#[tokio::test]
async fn a_deadlock() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        admin.table("deadlock").await;
        let mut one = Session::new(&server).await;
        let mut two = Session::new(&server).await;
        one.run("BEGIN; UPDATE deadlock SET n = n + 1 WHERE id = 1").await.unwrap();
        two.run("BEGIN; UPDATE deadlock SET n = n + 1 WHERE id = 2").await.unwrap();
        let (first, second) = tokio::join!(
            one.run("UPDATE deadlock SET n = n + 1 WHERE id = 2"),
            two.run("UPDATE deadlock SET n = n + 1 WHERE id = 1"),
        );
        one.run("COMMIT").await.unwrap();
        two.run("COMMIT").await.unwrap();
        let failures: Vec<_> = first.err().into_iter().chain(second.err()).collect();
        assert_eq!(failures.len(), 1, "{failures:?}");
        // One transaction has both of its updates, and the other one has none.
        failures[0].check(row("mysql", "1213"), admin.sum("deadlock").await != 2);
        assert_eq!(failures[0].word, "1213");
    })
    .await;
}

/// The server keeps the earlier statements, and the next `BEGIN` commits them. `NOWAIT` has the same
/// number here.
#[tokio::test]
async fn a_lock_that_is_not_available() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        for statement in [
            "SELECT n FROM held WHERE id = 1 FOR UPDATE NOWAIT",
            "SET innodb_lock_wait_timeout = 1; UPDATE held SET n = n + 1 WHERE id = 1",
        ] {
            admin.table("held").await;
            let mut holder = Session::new(&server).await;
            holder.run("BEGIN; UPDATE held SET n = n + 10 WHERE id = 1").await.unwrap();
            let mut other = Session::new(&server).await;
            other.run("BEGIN; UPDATE held SET n = n + 1 WHERE id = 2").await.unwrap();
            let failure = other.fail(statement).await;
            holder.run("ROLLBACK").await.unwrap();
            other.run("BEGIN; ROLLBACK").await.unwrap();
            let is_kept = admin.sum("held").await == 1;
            assert!(is_kept);
            failure.check(row("mysql", "1205"), is_kept);
        }
    })
    .await;
}

/// A `Transaction` that is dropped is rolled back before the connection is used again.
#[tokio::test]
async fn a_transaction_that_is_dropped_keeps_nothing() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        admin.table("dropped").await;
        let mut holder = Session::new(&server).await;
        holder.run("BEGIN; UPDATE dropped SET n = n + 10 WHERE id = 1").await.unwrap();
        let pool = MySqlPoolOptions::new().max_connections(1);
        let pool = pool.connect_with(options(&server).database("mysql")).await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        let add = "UPDATE dropped SET n = n + 1 WHERE id = 2";
        sqlx::query(add).execute(&mut *transaction).await.unwrap();
        let select = sqlx::query("SELECT n FROM dropped WHERE id = 1 FOR UPDATE NOWAIT");
        let failure = Failure::from(select.execute(&mut *transaction).await.unwrap_err());
        drop(transaction);
        pool.begin().await.unwrap().commit().await.unwrap();
        holder.run("ROLLBACK").await.unwrap();
        failure.check(row("mysql", "1205"), admin.sum("dropped").await != 0);
    })
    .await;
}

#[tokio::test]
async fn a_row_that_changed_since_the_snapshot() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        admin.table("snapshot").await;
        let mut late = Session::new(&server).await;
        late.run("SET innodb_snapshot_isolation = 1; BEGIN; SELECT * FROM snapshot").await.unwrap();
        late.run("UPDATE snapshot SET n = n + 1 WHERE id = 2").await.unwrap();
        admin.run("UPDATE snapshot SET n = 10 WHERE id = 1").await.unwrap();
        let failure = late.fail("UPDATE snapshot SET n = n + 1 WHERE id = 1").await;
        late.run("COMMIT").await.unwrap(); // all of it was rolled back
        failure.check(row("mysql", "1020"), admin.sum("snapshot").await != 10);
    })
    .await;
}

/// All of the transaction was rolled back, so a statement after an ignored error is kept at once, without a `COMMIT`.
#[tokio::test]
async fn a_statement_after_an_ignored_error_is_kept() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        admin.table("ignored").await;
        let pool = MySqlPoolOptions::new().max_connections(1);
        let pool = pool.connect_with(options(&server).database("mysql")).await.unwrap();
        sqlx::raw_sql("SET innodb_snapshot_isolation = 1").execute(&pool).await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        let [add, read, late, again] = [
            "UPDATE ignored SET n = n + 1 WHERE id = 2",
            "SELECT * FROM ignored",
            "UPDATE ignored SET n = n + 1 WHERE id = 1",
            "UPDATE ignored SET n = n + 100 WHERE id = 2",
        ];
        sqlx::query(add).execute(&mut *transaction).await.unwrap();
        sqlx::query(read).execute(&mut *transaction).await.unwrap();
        admin.run("UPDATE ignored SET n = 10 WHERE id = 1").await.unwrap();
        let failure = sqlx::query(late).execute(&mut *transaction).await.unwrap_err();
        assert_eq!(Failure::from(failure).word, "1020");
        sqlx::query(again).execute(&mut *transaction).await.unwrap();
        drop(transaction);
        pool.begin().await.unwrap().commit().await.unwrap();
        assert_eq!(admin.sum("ignored").await, 110);
    })
    .await;
}
