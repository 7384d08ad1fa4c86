//! MariaDB, with `sqlx`.

mod collisions;
mod cuts;
mod faults;
mod limits;
mod whole;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use server::{Kind, Place, Server, Shared, command_as, give_to, program, run};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions};

use super::failure::Failure;

/// The user of the system. MariaDB refuses to run as root.
const USER: &str = "mysql";
/// The folders in which distributions have the server.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/libexec"];

#[derive(Debug)]
pub(crate) struct MariaDb;

/// Returns a server that tests use side by side, each with its own table.
pub(crate) fn shared() -> Arc<Server<MariaDb>> {
    static SHARED: Shared<MariaDb> = Shared::new();
    SHARED.get(|| MariaDb)
}

impl Kind for MariaDb {
    fn prepare(&self, place: &Place) {
        give_to(USER, &place.folder);
        let mut command = own(place, "mariadb-install-db");
        command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        run(&mut command);
    }

    fn command(&self, place: &Place) -> Command {
        let mut command = own(place, "mariadbd");
        command.arg(format!("--socket={}", place.path("socket").display()));
        command.args([&format!("--port={}", place.port), "--bind-address=127.0.0.1"]);
        // A limit of 0 cannot be changed later.
        command.args(["--skip-name-resolve", "--max-user-connections=100"]);
        command.args(["--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=4M"]);
        command.arg("--innodb-buffer-pool-size=16M");
        command
    }

    fn is_up(&self, place: &Place) -> bool {
        place.log().contains("ready for connections")
    }
}

fn own(place: &Place, name: &str) -> Command {
    let mut command = command_as(USER, &program(name, &FOLDERS, "mariadb-server"));
    command.current_dir(&place.folder).arg("--no-defaults");
    command.arg(format!("--datadir={}", place.path("data").display()));
    // A server that starts removes the temporary tables of others in the common folder.
    command.arg(format!("--tmpdir={}", place.folder.display()));
    command
}

/// Returns how `sqlx` connects.
pub(crate) fn options(server: &Server<MariaDb>) -> MySqlConnectOptions {
    let options = MySqlConnectOptions::new().host("127.0.0.1").port(server.port());
    let options = options.username("root").ssl_mode(MySqlSslMode::Disabled);
    options.disable_statement_logging()
}

/// A connection.
pub(crate) struct Session(MySqlConnection);

impl Session {
    pub(crate) async fn new(server: &Server<MariaDb>) -> Self {
        Self::open(options(server).database("mysql")).await.unwrap()
    }

    pub(crate) async fn open(options: MySqlConnectOptions) -> Result<Self, Failure> {
        Ok(Self(options.connect().await?))
    }

    /// Runs statements.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.0).await?;
        Ok(())
    }

    /// Runs a statement that is refused.
    pub(crate) async fn fail(&mut self, sql: &str) -> Failure {
        match self.run(sql).await {
            Ok(()) => panic!("{sql} was executed"),
            Err(failure) => failure,
        }
    }

    /// Creates a table with the rows 1 and 2, whose `n` is 0.
    pub(crate) async fn table(&mut self, name: &str) {
        let rows = format!(
            "DROP TABLE IF EXISTS {name};
            CREATE TABLE {name} (id int PRIMARY KEY, n bigint NOT NULL) ENGINE = InnoDB;
            INSERT INTO {name} VALUES (1, 0), (2, 0)"
        );
        self.run(&rows).await.unwrap();
    }

    /// Returns the sum of `n`.
    pub(crate) async fn sum(&mut self, name: &str) -> i64 {
        self.one(&format!("SELECT CAST(sum(n) AS SIGNED) FROM {name}")).await
    }

    pub(crate) async fn one(&mut self, sql: &str) -> i64 {
        let one = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.0).await;
        one.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Returns the number that `KILL` needs.
    pub(crate) async fn id(&mut self) -> i64 {
        self.one("SELECT CAST(connection_id() AS SIGNED)").await
    }

    /// Waits until a session is in a state, such as `User sleep`.
    pub(crate) async fn until(&mut self, id: i64, state: &str) {
        let sql = format!(
            "SELECT count(*) FROM information_schema.processlist WHERE id = {id} AND state = '{state}'"
        );
        while self.one(&sql).await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a session is gone.
    pub(crate) async fn until_gone(&mut self, id: i64) {
        let sql = format!("SELECT count(*) FROM information_schema.processlist WHERE id = {id}");
        while self.one(&sql).await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
