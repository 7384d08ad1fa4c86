//! The program of the README without a key: what fails before `COMMIT` is made again.

use resile::{Classify, StopReason};
use resile_clients::Classifier;
use server::Server;
use tokio::task::JoinSet;

use super::{Admin, Postgres, alone, options};
use crate::row::within;
use crate::sql::recipe::open;
use crate::sql::sale::{Failed, SoldOut, sell};

const TASKS: i64 = 20;
const ROUNDS: i64 = 10;
const PIECES: &str = "SELECT pieces FROM stock WHERE item = 1";

/// Makes each `COMMIT` after an `UPDATE` last 9 s.
const SLOW_COMMIT: &str = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_sleep(9);
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON stock DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION slow()";

/// Starts a server with 1,000 pieces of one item.
async fn shop() -> (Server<Postgres>, Admin) {
    let server = alone(&[]);
    let mut admin = Admin::new(&server).await;
    admin.run("CREATE TABLE stock (item int PRIMARY KEY, pieces bigint NOT NULL)").await;
    admin.run("INSERT INTO stock VALUES (1, 1000)").await;
    (server, admin)
}

#[tokio::test]
async fn a_session_that_is_ended_before_the_commit_is_made_again() {
    within(async {
        let (server, mut admin) = shop().await;
        let mut other = Admin::new(&server).await;
        other.run("BEGIN; UPDATE stock SET pieces = pieces WHERE item = 1").await;
        let shop = open(options(&server));
        let kill = async {
            admin.end("wait_event_type = 'Lock'").await;
            other.run("ROLLBACK").await;
        };
        let (done, ()) = tokio::join!(sell(&shop, 1), kill);
        assert_eq!(done.unwrap(), 999);
        assert!(server.place().log().contains("terminating connection"));
        assert_eq!(admin.one(PIECES).await, 999);
    })
    .await;
}

/// The same code at `COMMIT` may follow work that was done.
#[tokio::test]
async fn a_session_that_is_ended_at_the_commit_is_in_doubt() {
    within(async {
        let (server, mut admin) = shop().await;
        admin.run(SLOW_COMMIT).await;
        let shop = open(options(&server));
        let kill = admin.end("query = 'COMMIT' AND state = 'active'");
        let (done, ()) = tokio::join!(sell(&shop, 1), kill);
        let gave_up = done.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1), "{gave_up:#}");
        assert!(gave_up.is_in_doubt() && !gave_up.is_without_effect(), "{gave_up:#}");
        let failed = gave_up.into_last().unwrap();
        assert!(matches!(failed, Failed::Commit(_)), "{failed:?}");
        let sale = Classifier::non_idempotent();
        assert_eq!(sale.error_type(&failed).as_deref(), Some("57P01"));
    })
    .await;
}

/// The server ends the `COMMIT` after the attempt is cut, so the piece is sold.
#[tokio::test]
async fn a_cut_at_the_commit_is_in_doubt() {
    within(async {
        let (server, mut admin) = shop().await;
        admin.run(SLOW_COMMIT).await;
        let shop = open(options(&server));
        let gave_up = sell(&shop, 1).await.unwrap_err();
        assert_eq!((gave_up.attempts(), gave_up.cut().is_some()), (1, true), "{gave_up:#}");
        assert!(gave_up.is_in_doubt() && !gave_up.is_without_effect(), "{gave_up:#}");
        let words = gave_up.to_string();
        assert!(words.ends_with("did not finish within 7s, its COMMIT was sent)"), "{words}");
        assert_eq!(admin.one(PIECES).await, 1000);
        admin.until_gone("query = 'COMMIT' AND state = 'active'").await;
        assert_eq!(admin.one(PIECES).await, 999);
    })
    .await;
}

/// The row is locked until the total timeout is over, and its last wait is cut.
#[tokio::test]
async fn a_cut_before_the_commit_is_not_in_doubt() {
    within(async {
        let (server, mut admin) = shop().await;
        let mut other = Admin::new(&server).await;
        other.run("BEGIN; UPDATE stock SET pieces = pieces WHERE item = 1").await;
        let shop = open(options(&server));
        let gave_up = sell(&shop, 1).await.unwrap_err();
        assert_eq!(gave_up.reason(), StopReason::Deadline, "{gave_up:#}");
        // The timeout may end between two attempts too.
        let words = gave_up.to_string();
        assert_eq!(words.contains("without effect"), gave_up.cut().is_some(), "{words}");
        assert!(!words.contains("was sent"), "{words}");
        assert!(!gave_up.is_in_doubt() && gave_up.is_without_effect(), "{gave_up:#}");
        other.run("ROLLBACK").await;
        shop.close().await;
        assert_eq!(admin.one(PIECES).await, 1000);
    })
    .await;
}

/// A trigger of the program refuses, with a code that no table knows. Nothing was sold.
#[tokio::test]
async fn a_refusal_before_the_commit_is_not_in_doubt() {
    within(async {
        let (server, mut admin) = shop().await;
        admin
            .run(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    RAISE EXCEPTION 'closed' USING ERRCODE = TG_ARGV[0];
                END $$",
            )
            .await;
        let shop = open(options(&server));
        for code in ["BK001", "57BK1"] {
            admin
                .run(&format!(
                    "CREATE OR REPLACE TRIGGER refuse BEFORE UPDATE ON stock
                        FOR EACH ROW EXECUTE FUNCTION refuse('{code}')"
                ))
                .await;
            let gave_up = sell(&shop, 1).await.unwrap_err();
            let end = (gave_up.reason(), gave_up.attempts(), gave_up.is_in_doubt());
            assert_eq!(end, (StopReason::Fatal, 1, false), "{gave_up:#}");
            assert!(gave_up.is_without_effect());
            assert_eq!(admin.one(PIECES).await, 1000);
        }
    })
    .await;
}

#[tokio::test]
async fn no_piece_is_sold_that_is_not_there() {
    within(async {
        let (server, mut admin) = shop().await;
        admin.run("UPDATE stock SET pieces = 5").await;
        let shop = open(options(&server));
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let shop = shop.clone();
            tasks.spawn(async move { sell(&shop, 1).await });
        }
        let mut sold = 0;
        for outcome in tasks.join_all().await {
            let Err(gave_up) = outcome else {
                sold += 1;
                continue;
            };
            assert!(!gave_up.is_in_doubt() && gave_up.is_without_effect(), "{gave_up:#}");
            assert_eq!(gave_up.reason(), StopReason::Fatal, "{gave_up:#}");
            assert!(matches!(gave_up.into_last(), Some(Failed::Own(SoldOut))));
        }
        assert_eq!((sold, admin.one(PIECES).await), (5, 0));
    })
    .await;
}

/// Each task collides with all others.
#[tokio::test]
async fn twenty_tasks_sell_the_same_item() {
    within(async {
        let (server, mut admin) = shop().await;
        let shop = open(options(&server));
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let shop = shop.clone();
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    sell(&shop, 1).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        assert_eq!(admin.one(PIECES).await, 1000 - TASKS * ROUNDS);
        assert!(server.place().log().contains("could not serialize access"));
    })
    .await;
}
