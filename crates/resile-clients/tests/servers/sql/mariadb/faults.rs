//! A statement that is refused.

use super::{MariaDb, Session, options, shared};
use crate::row::{row, within};
use server::Server;

#[tokio::test]
async fn a_statement_that_is_wrong() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        admin.run("DROP TABLE IF EXISTS child").await.unwrap();
        admin.table("wrong").await;
        let child = "CREATE TABLE child (id int REFERENCES wrong (id)) ENGINE = InnoDB;
            INSERT INTO child VALUES (1)";
        admin.run(child).await.unwrap();
        admin.run("ALTER TABLE wrong ADD CHECK (n < 9)").await.unwrap();
        let mut session = Session::new(&server).await;
        session.run("SET sql_mode = 'STRICT_ALL_TABLES'").await.unwrap();
        for (statement, says) in [
            ("INSERT INTO wrong VALUES (1, 1)", row("mysql", "1062")),
            ("UPDATE wrong SET n = NULL", row("mysql", "1048")),
            ("UPDATE wrong SET m = 1", row("mysql", "1054")),
            ("UPDATE wrong SET", row("mysql", "1064")),
            ("UPDATE nothing SET n = 1", row("mysql", "1146")),
            ("DELETE FROM wrong", row("mysql", "1451")),
            ("INSERT INTO child VALUES (7)", row("mysql", "1452")),
            ("UPDATE wrong SET n = 9", row("mysql", "4025")),
        ] {
            session.fail(statement).await.check(says, admin.sum("wrong").await != 0);
        }
        let nowhere = Session::open(options(&server).database("nowhere")).await;
        nowhere.err().unwrap().check(row("mysql", "1049"), false);
        let nobody = Session::open(options(&server).username("nobody")).await;
        nobody.err().unwrap().check(row("mysql", "1045"), false);
    })
    .await;
}

/// A trigger refuses the second row. `InnoDB` undoes the first one too, and a table without transactions keeps
/// it. So a number without a row in the file has no verdict: it does not tell whether the work is undone.
#[tokio::test]
async fn a_statement_that_the_program_refuses() {
    within(async {
        let server = shared();
        let mut admin = Session::new(&server).await;
        // The database `mysql` has no triggers.
        admin.run("CREATE DATABASE IF NOT EXISTS program; USE program").await.unwrap();
        for (engine, kept) in [("InnoDB", 0), ("MyISAM", 1)] {
            admin.table("refused").await;
            let trigger = "CREATE TRIGGER refuse BEFORE INSERT ON refused FOR EACH ROW
                IF NEW.n = 9 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END IF";
            admin.run(&format!("ALTER TABLE refused ENGINE = {engine}")).await.unwrap();
            admin.run(trigger).await.unwrap();
            let session = Session::open(options(&server).database("program")).await;
            let mut session = session.unwrap();
            let failure = session.fail("INSERT INTO refused VALUES (3, 1), (4, 9)").await;
            failure.check(row("mysql", "1644"), false);
            assert_eq!(admin.sum("refused").await, kept, "{engine}");
            let two = session.fail("INSERT INTO refused SELECT 5, (SELECT n FROM refused)").await;
            two.has("1242");
            two.check(None, false);
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_and_a_transaction_that_only_read() {
    within(async {
        let server = Server::start(MariaDb);
        let mut admin = Session::new(&server).await;
        admin.table("read_only").await;
        for statement in [
            "CREATE USER plain@'127.0.0.1'",
            "GRANT SELECT, UPDATE ON mysql.read_only TO plain@'127.0.0.1'",
            "SET GLOBAL read_only = 1",
        ] {
            admin.run(statement).await.unwrap();
        }
        let mut plain = Session::open(options(&server).username("plain")).await.unwrap();
        let failure = plain.fail("UPDATE mysql.read_only SET n = 1").await;
        failure.check(row("mysql", "1290"), admin.sum("read_only").await != 0);
        let denied = Session::open(options(&server).username("plain").database("mysql")).await;
        drop(denied);
        let failure = plain.fail("USE performance_schema").await;
        failure.check(row("mysql", "1044"), false);

        admin.run("START TRANSACTION READ ONLY").await.unwrap();
        let failure = admin.fail("UPDATE read_only SET n = 1").await;
        admin.run("ROLLBACK").await.unwrap();
        failure.check(row("mysql", "1792"), admin.sum("read_only").await != 0);
    })
    .await;
}
