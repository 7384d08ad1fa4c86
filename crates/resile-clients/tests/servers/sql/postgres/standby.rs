//! A standby reads, and it does not write until it is promoted.

use super::session::{CLIENTS, Session};
use super::{Admin, alone, standby};
use crate::row::{row, within};

#[tokio::test]
async fn a_standby_that_is_promoted() {
    within(async {
        let primary = alone(&[]);
        let mut admin = Admin::new(&primary).await;
        admin.table("copied").await;
        let server = standby(&primary);
        let mut reader = Admin::new(&server).await;
        let mut sessions = Vec::new();
        for client in CLIENTS {
            let mut session = Session::new(client, &server).await;
            let failure = session.fail("UPDATE copied SET n = n + 1").await;
            failure.check(row("postgres", "25006"), reader.sum("copied").await != 0);

            // The primary removes rows that a query on the standby may still read.
            session.run("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
            session.run("SELECT n FROM copied").await.unwrap();
            let cut = tokio::spawn(async move {
                let failure = session.fail("SELECT pg_sleep(60)").await;
                session.run("ROLLBACK").await.unwrap();
                (session, failure)
            });
            reader.until_seen("wait_event = 'PgSleep'").await;
            admin.run("UPDATE copied SET n = n").await;
            admin.run("VACUUM copied").await;
            let (session, failure) = cut.await.unwrap();
            failure.has("conflict with recovery");
            failure.check(row("postgres", "40001"), false);
            sessions.push(session);
        }
        reader.run("SELECT pg_promote()").await;
        for session in &mut sessions {
            session.run("UPDATE copied SET n = n + 1").await.unwrap();
        }
        assert_eq!(reader.sum("copied").await, 4);
    })
    .await;
}
