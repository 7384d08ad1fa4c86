//! The program of the README for a row with a unique name: its commit is lost, and the call is made again.

use resile::StopReason;

use super::{Admin, alone, options};
use crate::row::within;
use crate::sql::name::claim;
use crate::sql::recipe::open;

const TABLE: &str = "CREATE TABLE name (name text PRIMARY KEY, owner text NOT NULL)";
const OWNED: &str = "SELECT count(*) FROM name WHERE owner = 'me'";

/// The commit lasts longer than the call. So the next call finds its own row in its first attempt.
#[tokio::test]
async fn the_row_of_an_earlier_call_is_its_own() {
    within(async {
        let server = alone(&[]);
        let mut admin = Admin::new(&server).await;
        admin.run(TABLE).await;
        admin.slow_commit("name", 17).await;
        let users = open(options(&server));
        let gave_up = claim(&users, "ada", "me").await.unwrap_err();
        assert_eq!(gave_up.reason(), StopReason::Deadline, "{gave_up:#}");
        assert!(!gave_up.is_in_doubt() && !gave_up.is_without_effect(), "{gave_up:#}");
        assert_eq!(admin.one(OWNED).await, 0);
        admin.until_gone("query LIKE 'INSERT%' AND state = 'active'").await;
        assert_eq!(admin.one(OWNED).await, 1);
        assert!(claim(&users, "ada", "me").await.unwrap());
        assert!(!claim(&users, "ada", "you").await.unwrap());
        assert_eq!(admin.one("SELECT count(*) FROM name").await, 1);
    })
    .await;
}

/// The server has committed and waits for a standby. It ends the session, so the answer is lost.
#[tokio::test]
async fn the_row_of_an_earlier_attempt_is_its_own() {
    within(async {
        let server = alone(&["synchronous_standby_names=nobody"]);
        let mut admin = Admin::new(&server).await;
        admin.run("SET synchronous_commit = local").await;
        admin.run(TABLE).await;
        let users = open(options(&server));
        let end = admin.end("wait_event = 'SyncRep'");
        let (claimed, ()) = tokio::join!(claim(&users, "ada", "me"), end);
        assert!(claimed.unwrap());
        assert!(server.place().log().contains("has already committed locally"));
        assert!(!claim(&users, "ada", "you").await.unwrap());
        assert_eq!(admin.one(OWNED).await, 1);
    })
    .await;
}
