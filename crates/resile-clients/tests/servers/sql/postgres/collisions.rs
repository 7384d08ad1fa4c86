//! Two transactions collide. The server rolls one of them back, so it is sent again.

use super::session::{CLIENTS, Session};
use super::{Admin, shared};
use crate::row::{row, within};

#[tokio::test]
async fn a_row_that_changed_since_the_snapshot() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        for client in CLIENTS {
            admin.table("snapshot").await;
            let mut late = Session::new(client, &server).await;
            late.run("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
            late.run("UPDATE snapshot SET n = n + 1 WHERE id = 2").await.unwrap();
            admin.run("UPDATE snapshot SET n = 10 WHERE id = 1").await;
            let failure = late.fail("UPDATE snapshot SET n = n + 1 WHERE id = 1").await;
            // A statement after it has another code, which must not decide.
            let later = late.fail("SELECT 1").await;
            later.check(row("postgres", "25P02"), false);
            assert_eq!(later.word, "25P02");
            late.run("COMMIT").await.unwrap(); // the server rolls back
            failure.check(row("postgres", "40001"), admin.sum("snapshot").await != 10);
        }
    })
    .await;
}

/// Each of both reads what the other one changes. The second COMMIT fails.
#[tokio::test]
async fn a_commit_that_cannot_be_serialised() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        for client in CLIENTS {
            admin.table("skew").await;
            let mut one = Session::new(client, &server).await;
            let mut two = Session::new(client, &server).await;
            for session in [&mut one, &mut two] {
                session.run("BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap();
                session.run("SELECT sum(n) FROM skew").await.unwrap();
            }
            one.run("UPDATE skew SET n = 10 WHERE id = 1").await.unwrap();
            two.run("UPDATE skew SET n = 1 WHERE id = 2").await.unwrap();
            one.run("COMMIT").await.unwrap();
            let failure = two.fail("COMMIT").await;
            failure.has("40001");
            failure.check(row("postgres", "40001"), admin.sum("skew").await != 10);
        }
    })
    .await;
}

#[tokio::test]
async fn a_deadlock() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        for client in CLIENTS {
            admin.table("deadlock").await;
            let mut one = Session::new(client, &server).await;
            let mut two = Session::new(client, &server).await;
            one.run("BEGIN").await.unwrap();
            two.run("BEGIN").await.unwrap();
            one.run("UPDATE deadlock SET n = n + 1 WHERE id = 1").await.unwrap();
            two.run("UPDATE deadlock SET n = n + 1 WHERE id = 2").await.unwrap();
            let (first, second) = tokio::join!(
                one.run("UPDATE deadlock SET n = n + 1 WHERE id = 2"),
                two.run("UPDATE deadlock SET n = n + 1 WHERE id = 1"),
            );
            one.run("COMMIT").await.unwrap();
            two.run("COMMIT").await.unwrap();
            let failures: Vec<_> = first.err().into_iter().chain(second.err()).collect();
            assert_eq!(failures.len(), 1, "{failures:?}");
            // One transaction has both of its updates, and the other one has none.
            failures[0].check(row("postgres", "40P01"), admin.sum("deadlock").await != 2);
        }
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_is_not_available() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.table("held").await;
        let mut holder = Session::new(CLIENTS[0], &server).await;
        holder.run("BEGIN").await.unwrap();
        holder.run("UPDATE held SET n = 5 WHERE id = 1").await.unwrap();
        for client in CLIENTS {
            for statement in [
                "SELECT n FROM held WHERE id = 1 FOR UPDATE NOWAIT",
                "UPDATE held SET n = n + 1 WHERE id = 1",
            ] {
                let mut other = Session::new(client, &server).await;
                other.run("SET lock_timeout = '30ms'").await.unwrap();
                other.run("BEGIN").await.unwrap();
                other.run("UPDATE held SET n = n + 1 WHERE id = 2").await.unwrap();
                let failure = other.fail(statement).await;
                other.run("COMMIT").await.unwrap();
                failure.check(row("postgres", "55P03"), admin.sum("held").await != 0);
            }
        }
        holder.run("COMMIT").await.unwrap();
        assert_eq!(admin.sum("held").await, 5);
    })
    .await;
}

#[tokio::test]
async fn a_database_in_use() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.run("CREATE DATABASE used").await;
        let user = Session::open(CLIENTS[0], &server, "postgres", "used").await.unwrap();
        let mut other = Session::new(CLIENTS[0], &server).await;
        // The server waits for five seconds before it says so.
        let failure = other.fail("DROP DATABASE used").await;
        failure.check(row("postgres", "55006"), false);
        drop(user);
        other.run("DROP DATABASE used").await.unwrap();
    })
    .await;
}
