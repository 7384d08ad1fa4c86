//! SQLite, with `sqlx`. Its server is a file.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use resile::{Never, RetryPolicy, retry};
use resile_clients::Classifier;
use server::Place;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, SqlitePool};

use super::failure::Failure;
use crate::row::{row, within};

/// Returns how `sqlx` opens a file. It does not wait for a lock.
fn options(place: &Place, journal: SqliteJournalMode) -> SqliteConnectOptions {
    let options = SqliteConnectOptions::new().filename(place.path("file"));
    let options = options.create_if_missing(true).journal_mode(journal);
    options.busy_timeout(Duration::ZERO).disable_statement_logging()
}

struct Session(SqliteConnection);

impl Session {
    async fn open(options: &SqliteConnectOptions) -> Result<Self, Failure> {
        Ok(Self(options.connect().await?))
    }

    async fn new(options: &SqliteConnectOptions) -> Self {
        Self::open(options).await.unwrap()
    }

    async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.0).await?;
        Ok(())
    }

    async fn fail(&mut self, sql: &str) -> Failure {
        match self.run(sql).await {
            Ok(()) => panic!("{sql} was executed"),
            Err(failure) => failure,
        }
    }

    /// Creates the table `t` with the rows 1 and 2, whose `n` is 0.
    async fn table(&mut self) {
        let table = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INT NOT NULL);
            INSERT INTO t VALUES (1, 0), (2, 0)";
        self.run(table).await.unwrap();
    }

    /// Returns the sum of `n`.
    async fn sum(&mut self) -> i64 {
        sqlx::query_scalar("SELECT sum(n) FROM t").fetch_one(&mut self.0).await.unwrap()
    }
}

#[tokio::test]
async fn a_file_in_use() {
    within(async {
        let place = Place::new();
        let options = options(&place, SqliteJournalMode::Delete);
        let mut one = Session::new(&options).await;
        one.table().await;
        let mut two = Session::new(&options).await;
        one.run("BEGIN IMMEDIATE").await.unwrap();
        let failure = two.fail("UPDATE t SET n = 1").await;
        failure.check(row("sqlite", "5*"), one.sum().await != 0);
        one.run("COMMIT").await.unwrap();

        // At COMMIT: it alone may be repeated, or the whole transaction after a rollback.
        for last in ["COMMIT", "ROLLBACK"] {
            one.run("BEGIN").await.unwrap();
            let before = one.sum().await;
            two.run("BEGIN; UPDATE t SET n = n + 1 WHERE id = 1").await.unwrap();
            let failure = two.fail("COMMIT").await;
            failure.check(row("sqlite", "5*"), one.sum().await != before);
            one.run("COMMIT").await.unwrap();
            two.run(last).await.unwrap();
            assert_eq!(one.sum().await - before, i64::from(last == "COMMIT"));
        }
    })
    .await;
}

#[tokio::test]
async fn a_row_that_changed_since_the_snapshot() {
    within(async {
        let place = Place::new();
        let options = options(&place, SqliteJournalMode::Wal);
        let mut one = Session::new(&options).await;
        one.table().await;
        let mut late = Session::new(&options).await;
        late.run("BEGIN").await.unwrap();
        assert_eq!(late.sum().await, 0);
        one.run("UPDATE t SET n = 5 WHERE id = 1").await.unwrap();
        let failure = late.fail("UPDATE t SET n = n + 1 WHERE id = 2").await;
        failure.check(row("sqlite", "517"), one.sum().await != 5);
        // The statement alone never passes.
        let again = late.fail("UPDATE t SET n = n + 1 WHERE id = 2").await;
        again.check(row("sqlite", "517"), one.sum().await != 5);
        late.run("ROLLBACK; UPDATE t SET n = n + 1 WHERE id = 2").await.unwrap();
        assert_eq!(one.sum().await, 6);
    })
    .await;
}

#[tokio::test]
async fn a_shared_cache_that_is_locked() {
    within(async {
        let options = SqliteConnectOptions::new().filename("file:shared?mode=memory&cache=shared");
        let mut one = Session::new(&options).await;
        one.table().await;
        let mut two = Session::new(&options).await;
        one.run("BEGIN; UPDATE t SET n = n + 1").await.unwrap();
        let failure = two.fail("UPDATE t SET n = n + 1").await;
        one.run("COMMIT").await.unwrap();
        failure.check(row("sqlite", "262"), one.sum().await != 2);
    })
    .await;
}

#[tokio::test]
async fn a_statement_that_is_wrong() {
    within(async {
        let place = Place::new();
        let options = options(&place, SqliteJournalMode::Delete);
        let mut one = Session::new(&options).await;
        one.table().await;
        let full = "PRAGMA max_page_count = 3; INSERT INTO t VALUES (3, randomblob(9000))";
        for (statement, says) in [
            ("INSERT INTO t VALUES (1, 1)", row("sqlite", "19*")),
            ("UPDATE t SET m = 1", row("sqlite", "1*")),
            ("INSERT INTO t VALUES ('one', 1)", row("sqlite", "20")),
            (full, row("sqlite", "13")),
        ] {
            one.fail(statement).await.check(says, one.sum().await != 0);
        }
        let mut reader = Session::new(&options.clone().read_only(true)).await;
        let failure = reader.fail("UPDATE t SET n = 1").await;
        failure.check(row("sqlite", "8*"), one.sum().await != 0);
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_no_database() {
    within(async {
        let place = Place::new();
        let file = place.path("file");
        let options = options(&place, SqliteJournalMode::Delete);
        let missing = Session::open(&options.clone().create_if_missing(false)).await;
        missing.err().unwrap().check(row("sqlite", "14*"), false);

        let mut session = Session::new(&options).await;
        session.table().await;
        drop(session);
        let mut page = OpenOptions::new().write(true).open(&file).unwrap();
        page.seek(SeekFrom::Start(4096)).unwrap(); // the second page is the table
        page.write_all(&[0xff; 4096]).unwrap();
        let mut session = Session::new(&options).await;
        let failure = session.fail("UPDATE t SET n = 1").await;
        failure.check(row("sqlite", "11*"), false);
        drop(session);

        fs::write(&file, [b'x'; 4096]).unwrap();
        let broken = Session::open(&options).await;
        broken.err().unwrap().check(row("sqlite", "26"), false);
    })
    .await;
}

const ROUNDS: i64 = 5;

/// Reads and then writes, so the other task may write in between.
async fn attempt(pool: &SqlitePool) -> sqlx::Result<()> {
    let mut transaction = pool.begin().await?;
    let select = sqlx::query_scalar("SELECT n FROM t WHERE id = 1");
    let n: i64 = select.fetch_one(&mut *transaction).await?;
    let update = sqlx::query("UPDATE t SET n = ? WHERE id = 1").bind(n + 1);
    update.execute(&mut *transaction).await?;
    transaction.commit().await
}

#[tokio::test]
async fn two_tasks_that_collide_both_commit() {
    within(async {
        let place = Place::new();
        let options = options(&place, SqliteJournalMode::Wal);
        let mut admin = Session::new(&options).await;
        admin.table().await;
        let pool = SqlitePoolOptions::new().max_connections(2).connect_with(options);
        let pool = &pool.await.unwrap();
        let classifier = Classifier::non_idempotent();
        let policy = RetryPolicy::contention().with_classifier(classifier);
        let attempts = AtomicU32::new(0);
        let task = || {
            let op = |_| {
                attempts.fetch_add(1, Ordering::Relaxed);
                attempt(pool)
            };
            retry(op, &policy, Never).on("file")
        };
        let mut rounds = 0;
        // Without a collision this test would show nothing.
        while rounds < ROUNDS || i64::from(attempts.load(Ordering::Relaxed)) == 2 * rounds {
            let (one, two) = tokio::join!(task(), task());
            one.unwrap();
            two.unwrap();
            rounds += 1;
        }
        assert_eq!(admin.sum().await, 2 * rounds);
    })
    .await;
}
