//! A statement that is refused, because of its words, its values or its session.

use super::session::{CLIENTS, Client, Session};
use super::{Admin, shared};
use crate::row::{row, within};
use crate::sql::failure::{ANSWERED, Failure, OWN_FAULT, PASSES};

#[tokio::test]
async fn a_statement_that_is_wrong() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        for client in CLIENTS {
            admin.table("wrong").await;
            admin
                .run("ALTER TABLE wrong ADD CHECK (n < 100), ADD EXCLUDE (n WITH =) WHERE (n > 50)")
                .await;
            admin.run("UPDATE wrong SET n = 60 WHERE id = 1").await;
            let mut session = Session::new(client, &server).await;
            let cases = [
                ("INSERT INTO wrong VALUES (1, 1)", row("postgres", "23505")),
                ("UPDATE wrong SET n = 60 WHERE id = 2", row("postgres", "23P01")),
                ("UPDATE wrong SET n = 100", row("postgres", "23*")),
                ("UPDATE wrong SET n = n / 0", row("postgres", "22*")),
                ("UPDATE wrong SET m = 0", row("postgres", "42*")),
                ("SELECT sum(n) FROM wrong FOR UPDATE", row("postgres", "0A*")),
                ("DO 'BEGIN RAISE EXCEPTION $$no$$; END'", row("postgres", "P0*")),
                ("SELECT ends()", row("postgres", "2F*")),
            ];
            let body = "RETURNS int LANGUAGE plpgsql AS 'BEGIN END'";
            admin.run(&format!("CREATE OR REPLACE FUNCTION ends() {body}")).await;
            for (statement, says) in cases {
                session.fail(statement).await.check(says, admin.sum("wrong").await != 60);
            }
        }
    })
    .await;
}

/// A function of the program refuses with a code that only the program knows. So does the server with codes
/// that have no row. The statement is undone, also outside of a transaction.
#[tokio::test]
async fn a_code_of_the_program() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        for client in CLIENTS {
            admin.table("refused").await;
            admin
                .run(
                    "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                        RAISE EXCEPTION 'the limit of the day' USING ERRCODE = 'BK001';
                    END $$;
                    CREATE TRIGGER refuse AFTER UPDATE ON refused EXECUTE FUNCTION refuse();
                    CREATE VIEW small AS SELECT * FROM refused WHERE n < 9 WITH CHECK OPTION",
                )
                .await;
            let mut session = Session::new(client, &server).await;
            for (statement, code) in [
                ("UPDATE refused SET n = 1", "BK001"),
                ("INSERT INTO small VALUES (3, 9)", "44000"),
                ("INSERT INTO refused SELECT 3, (SELECT n FROM refused)", "21000"),
                ("SELECT currval('refused_seq')", "55000"),
            ] {
                admin.run("CREATE SEQUENCE IF NOT EXISTS refused_seq").await;
                let failure = session.fail(statement).await;
                assert_eq!(failure.word, code);
                let is_executed = admin.one("SELECT count(*) FROM refused WHERE n = 0").await != 2;
                failure.check(row("postgres", "*"), is_executed);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_database_and_a_role_that_do_not_exist() {
    within(async {
        let server = shared();
        for client in CLIENTS {
            let failure = Session::open(client, &server, "postgres", "nowhere").await;
            failure.err().unwrap().check(row("postgres", "3D*"), false);
            let failure = Session::open(client, &server, "nobody", "postgres").await;
            failure.err().unwrap().check(row("postgres", "28*"), false);
        }
    })
    .await;
}

/// The code is that of a standby, where a new connection may find the primary.
#[tokio::test]
async fn a_transaction_that_only_reads() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.table("read_only").await;
        for client in CLIENTS {
            let mut session = Session::new(client, &server).await;
            session.run("BEGIN READ ONLY").await.unwrap();
            let failure = session.fail("UPDATE read_only SET n = 1").await;
            failure.check(row("postgres", "25006"), admin.sum("read_only").await != 0);
        }
    })
    .await;
}

/// A statement that was prepared no longer fits its table. It was not executed. The session keeps the
/// statement, so it passes only after a fresh prepare.
#[tokio::test]
async fn a_plan_of_another_table() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        for client in CLIENTS {
            admin.table("planned").await;
            let mut session = Session::new(client, &server).await;
            let add = "UPDATE planned SET n = n + 1 RETURNING *";
            session.prepare(add).await;
            admin.run("ALTER TABLE planned ADD COLUMN m int").await;
            let failure = session.run_prepared(add).await.unwrap_err();
            failure.has("0A000");
            failure.check(PASSES, admin.sum("planned").await != 0);
            let again = session.run_prepared(add).await.unwrap_err();
            again.check(PASSES, admin.sum("planned").await != 0);
            session.forget_prepared().await;
            session.prepare(add).await;
            session.run_prepared(add).await.unwrap();
            assert_eq!(admin.sum("planned").await, 2);
        }
    })
    .await;
}

/// The program reads or writes other types than the server. The second statement was executed.
#[tokio::test]
async fn a_value_of_another_type() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.table("typed").await;
        let Session::TokioPostgres(client, _) = Session::new(Client::TokioPostgres, &server).await
        else {
            unreachable!("the session of another client")
        };
        let add = "UPDATE typed SET n = n + $1 WHERE id = 1 RETURNING n";
        let failure = Failure::from(client.query(add, &[&"one"]).await.unwrap_err());
        failure.check(OWN_FAULT, admin.sum("typed").await != 0);
        let failure = Failure::from(client.query(add, &[]).await.unwrap_err());
        failure.check(OWN_FAULT, admin.sum("typed").await != 0);

        let row = client.query_one(add, &[&1]).await.unwrap();
        for failure in [
            row.try_get::<_, &str>(0).unwrap_err(),
            row.try_get::<_, i32>("m").unwrap_err(),
            client.query_one("SELECT n FROM typed", &[]).await.unwrap_err(),
        ] {
            Failure::from(failure).check(ANSWERED, admin.sum("typed").await == 1);
        }
    })
    .await;
}

/// Something else has removed the prepared statement, such as a pooler. A fresh one passes.
#[tokio::test]
async fn a_prepared_statement_that_is_gone() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        for client in CLIENTS {
            admin.table("gone").await;
            let mut session = Session::new(client, &server).await;
            let add = "UPDATE gone SET n = n + 1";
            session.prepare(add).await;
            session.run_raw("DEALLOCATE ALL").await;
            let failure = session.run_prepared(add).await.unwrap_err();
            failure.check(row("postgres", "26000"), admin.sum("gone").await != 0);
            session.forget_prepared().await;
            session.prepare(add).await;
            session.run_prepared(add).await.unwrap();
            assert_eq!(admin.sum("gone").await, 2);
        }
    })
    .await;
}
