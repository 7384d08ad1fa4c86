//! PostgreSQL, with both clients.

mod collisions;
mod cuts;
mod faults;
mod ignored;
mod limits;
mod name;
mod payment;
mod sale;
mod session;
mod standby;
mod whole;

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use server::{Kind, Place, Server, Shared, command_as, give_to, program, run};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions};

/// The user of the system. PostgreSQL refuses to run as root.
const USER: &str = "postgres";

#[derive(Debug)]
pub(crate) struct Postgres {
    /// Settings beyond the common ones, such as `max_connections=5`.
    settings: &'static [&'static str],
    /// The port of the primary, if this server is its standby.
    primary: Option<u16>,
}

/// Returns a server that tests use side by side, each with its own table.
pub(crate) fn shared() -> Arc<Server<Postgres>> {
    static SHARED: Shared<Postgres> = Shared::new();
    SHARED.get(|| Postgres { settings: &[], primary: None })
}

/// Starts a server for one test.
pub(crate) fn alone(settings: &'static [&'static str]) -> Server<Postgres> {
    Server::start(Postgres { settings, primary: None })
}

/// Starts a standby. It cancels a query that holds up the replication.
pub(crate) fn standby(primary: &Server<Postgres>) -> Server<Postgres> {
    let settings = &["max_standby_streaming_delay=0"];
    Server::start(Postgres { settings, primary: Some(primary.port()) })
}

impl Kind for Postgres {
    fn prepare(&self, place: &Place) {
        give_to(USER, &place.folder);
        if let Some(primary) = self.primary {
            let mut command = own(place, "pg_basebackup");
            command.args(["--host=127.0.0.1", "--username=postgres", "--write-recovery-conf"]);
            command.args(["--checkpoint=fast", "--no-sync", &format!("--port={primary}")]);
            return run(command.arg("--pgdata").arg(place.path("data")));
        }
        let mut command = own(place, "initdb");
        command.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"]);
        run(command.arg("--no-sync").arg("--pgdata").arg(place.path("data")));
    }

    fn command(&self, place: &Place) -> Command {
        let mut command = own(place, "postgres");
        command.arg("-D").arg(place.path("data")).args(["-p", &place.port.to_string()]);
        let common = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"];
        let quick = ["deadlock_timeout=50ms", "shared_buffers=16MB"];
        for setting in common.iter().chain(&quick).chain(self.settings) {
            command.args(["-c", setting]);
        }
        command
    }

    /// The file of the process has its state in the last line.
    fn is_up(&self, place: &Place) -> bool {
        let file = fs::read_to_string(place.path("data/postmaster.pid")).unwrap_or_default();
        file.lines().nth(7).is_some_and(|state| ["ready", "standby"].contains(&state.trim()))
    }

    fn last_signal(&self) -> &'static str {
        "QUIT" // at once, and the shared memory is given back
    }
}

/// Returns a command of the newest PostgreSQL. Distributions do not have it in `PATH`.
fn own(place: &Place, name: &str) -> Command {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    let folders: Vec<_> = folders.iter().rev().filter_map(|folder| folder.to_str()).collect();
    let mut command = command_as(USER, &program(name, &folders, "postgresql"));
    command.current_dir(&place.folder);
    command
}

/// Returns how `sqlx` connects.
pub(crate) fn options(server: &Server<Postgres>) -> PgConnectOptions {
    let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(server.port());
    let options = options.username("postgres").database("postgres").ssl_mode(PgSslMode::Disable);
    options.disable_statement_logging()
}

/// A connection that looks at the server.
pub(crate) struct Admin(PgConnection);

impl Admin {
    pub(crate) async fn new(server: &Server<Postgres>) -> Self {
        Self(options(server).connect().await.unwrap())
    }

    /// Connects to a server that may still recover from a crash.
    pub(crate) async fn after_recovery(server: &Server<Postgres>) -> Self {
        loop {
            match options(server).connect().await {
                Ok(connection) => return Self(connection),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Runs statements.
    pub(crate) async fn run(&mut self, sql: &str) {
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.0).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Creates a table with the rows 1 and 2, whose `n` is 0.
    pub(crate) async fn table(&mut self, name: &str) {
        self.run(&format!(
            "DROP TABLE IF EXISTS {name} CASCADE;
            CREATE TABLE {name} (id int PRIMARY KEY, n int NOT NULL);
            INSERT INTO {name} VALUES (1, 0), (2, 0)"
        ))
        .await;
    }

    /// Makes each `COMMIT` after an `INSERT` into this table last so long, by a deferred trigger.
    pub(crate) async fn slow_commit(&mut self, table: &str, seconds: u32) {
        self.run(&format!(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                PERFORM pg_sleep({seconds});
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION slow()"
        ))
        .await;
    }

    /// Ends the sessions that are found, once there is one. The condition is that on `pg_stat_activity`.
    pub(crate) async fn end(&mut self, condition: &str) {
        self.until_seen(condition).await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE";
        self.run(&format!("{end} pid <> pg_backend_pid() AND {condition}")).await;
    }

    /// Returns the sum of `n`.
    pub(crate) async fn sum(&mut self, name: &str) -> i64 {
        self.one(&format!("SELECT sum(n) FROM {name}")).await
    }

    async fn one(&mut self, sql: &str) -> i64 {
        let one = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.0).await;
        one.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Waits until sessions are found. The condition is that on `pg_stat_activity`.
    pub(crate) async fn until_seen(&mut self, condition: &str) {
        self.until(condition, |sessions| sessions > 0).await;
    }

    /// Waits until no session is found.
    pub(crate) async fn until_gone(&mut self, condition: &str) {
        self.until(condition, |sessions| sessions == 0).await;
    }

    async fn until(&mut self, condition: &str, is_reached: fn(i64) -> bool) {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND {condition}"
        );
        while !is_reached(self.one(&sql).await) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
