//! Two transactions collide.

use super::{Session, shared};
use crate::row::{row, within};

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
