//! The program of the README with a key and an error of its own, under `SERIALIZABLE`.

use resile::{Classify, StopReason};
use resile_clients::Classifier;
use resile_clients::sqlx::queued;
use server::Server;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use super::{Admin, Postgres, alone, options};
use crate::row::within;
use crate::sql::payment::{Failed, Poor, pay};
use crate::sql::recipe::open;

/// Starts a server with 100 on account 1 and nothing on account 2.
async fn bank() -> (Server<Postgres>, Admin) {
    let server = alone(&[]);
    let mut admin = Admin::new(&server).await;
    admin.run("CREATE TABLE account (id int PRIMARY KEY, amount bigint NOT NULL)").await;
    admin.run("CREATE TABLE transfer (id text PRIMARY KEY)").await;
    admin.run("INSERT INTO account VALUES (1, 100), (2, 0)").await;
    (server, admin)
}

/// Twenty payments of 10 from an account with 100: ten are made, and of the others surely nothing was kept.
#[tokio::test]
async fn what_an_account_cannot_pay_has_no_effect() {
    within(async {
        let (server, mut admin) = bank().await;
        let bank = open(options(&server));
        let mut payments = JoinSet::new();
        for number in 0..20 {
            let bank = bank.clone();
            let id = number.to_string();
            payments.spawn(async move { (pay(&bank, &id, 1, 2, 10).await, id) });
        }
        let mut paid = Vec::new();
        for (end, id) in payments.join_all().await {
            match end {
                Ok(()) => paid.push(id),
                Err(gave_up) => {
                    assert!(matches!(gave_up.last(), Some(Failed::Own(Poor))), "{gave_up:#}");
                    assert!(gave_up.is_without_effect() && !gave_up.is_in_doubt());
                    assert!(gave_up.to_string().contains(", without effect"), "{gave_up}");
                    assert!(format!("{gave_up:#}").ends_with("not enough money"), "{gave_up:#}");
                    let word = Classifier::idempotent().error_type(gave_up.last().unwrap());
                    assert!(word.unwrap().ends_with("::Poor"));
                }
            }
        }
        assert_eq!(paid.len(), 10);
        for id in &paid {
            pay(&bank, id, 1, 2, 10).await.unwrap();
        }
        assert_eq!(admin.one("SELECT amount FROM account WHERE id = 1").await, 0);
        assert_eq!(admin.one("SELECT amount FROM account WHERE id = 2").await, 100);
        assert_eq!(admin.one("SELECT count(*) FROM transfer").await, 10);
    })
    .await;
}

/// One session is ended at its `UPDATE`, and both timeouts cut the attempts after it in their waits for a lock.
#[tokio::test]
async fn what_ends_before_the_commit_has_no_effect() {
    within(async {
        let (server, mut admin) = bank().await;
        let mut other = Admin::new(&server).await;
        other.run("BEGIN; UPDATE account SET amount = amount WHERE id = 1").await;
        // Without the limits of `open` the waits are cut.
        let bank = PgPoolOptions::new().connect_lazy_with(options(&server));
        let end = admin.end("wait_event_type = 'Lock'");
        let (done, ()) = tokio::join!(pay(&bank, "a", 1, 2, 10), end);
        let gave_up = done.unwrap_err();
        let end = (gave_up.reason(), gave_up.cut().is_some());
        assert_eq!(end, (StopReason::Deadline, true), "{gave_up:#}");
        assert!(gave_up.is_without_effect() && !gave_up.is_in_doubt(), "{gave_up:#}");
        assert!(server.place().log().contains("terminating connection"));
        other.run("ROLLBACK").await;
        admin.until_gone("wait_event_type = 'Lock'").await;
        bank.close().await;
        assert_eq!(admin.one("SELECT amount FROM account WHERE id = 1").await, 100);
        assert_eq!(admin.one("SELECT count(*) FROM transfer").await, 0);
    })
    .await;
}

/// A statement that waits for a lock or works for too long has one code, and the call ends with it.
#[tokio::test]
async fn a_slow_statement_has_its_code_in_the_log() {
    within(async {
        let (server, mut admin) = bank().await;
        admin
            .run(
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_sleep(60);
                    RETURN NEW;
                END $$;
                CREATE TRIGGER slow BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION slow()",
            )
            .await;
        let bank = open(options(&server));
        let gave_up = pay(&bank, "a", 1, 2, 10).await.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1), "{gave_up:#}");
        assert!(gave_up.is_without_effect() && !gave_up.is_in_doubt(), "{gave_up:#}");
        let words = "before COMMIT: error returned from database: canceling statement";
        assert!(format!("{gave_up:#}").contains(words), "{gave_up:#}");
        let failed = gave_up.into_last().unwrap();
        let clients = Classifier::idempotent();
        assert_eq!(clients.error_type(&failed).as_deref(), Some("57014"));
        // The form that the README names for one that waits again.
        let pair = (queued, clients);
        assert_eq!(pair.error_type(&failed).as_deref(), Some("57014"));
        let again = pair.classify(&failed).unwrap();
        assert!(again.is_again() && again.is_without_effect());
        let over =
            clients.over(|clients, failed: &Failed| queued(failed).or(clients.verdict(failed)));
        assert_eq!(over.error_type(&failed).as_deref(), Some("57014"));
        assert_eq!(over.classify(&failed), Some(again));
    })
    .await;
}

/// Payments in both directions collide, and none waits so long for its turn that its statement is ended.
#[tokio::test]
async fn payments_in_both_directions_wait_for_their_turn() {
    within(async {
        let (server, mut admin) = bank().await;
        admin.run("UPDATE account SET amount = 1000").await;
        admin.slow_commit("transfer", 1).await;
        let bank = open(options(&server));
        let mut payments = JoinSet::new();
        for number in 0..6 {
            let bank = bank.clone();
            let (from, to) = if number % 2 == 0 { (1, 2) } else { (2, 1) };
            payments.spawn(async move { pay(&bank, &number.to_string(), from, to, 10).await });
        }
        for end in payments.join_all().await {
            end.unwrap();
        }
        let log = server.place().log();
        assert!(log.contains("could not serialize access"), "{log}");
        assert!(!log.contains("deadlock detected") && !log.contains("statement timeout"), "{log}");
        assert_eq!(admin.one("SELECT count(*) FROM account WHERE amount = 1000").await, 2);
    })
    .await;
}
