//! A session of either client.

use server::Server;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, SqlSafeStr};
use tokio_postgres::{NoTls, Statement};

use super::{Postgres, options};
use crate::sql::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Sqlx,
    TokioPostgres,
}

pub(crate) const CLIENTS: [Client; 2] = [Client::Sqlx, Client::TokioPostgres];

pub(crate) enum Session {
    Sqlx(PgConnection),
    TokioPostgres(tokio_postgres::Client, Option<Statement>),
}

impl Session {
    pub(crate) async fn new(client: Client, server: &Server<Postgres>) -> Self {
        Self::open(client, server, "postgres", "postgres").await.unwrap()
    }

    /// Connects as a role to a database.
    pub(crate) async fn open(
        client: Client,
        server: &Server<Postgres>,
        role: &str,
        database: &str,
    ) -> Result<Self, Failure> {
        match client {
            Client::Sqlx => {
                let options = options(server).username(role).database(database);
                Ok(Self::Sqlx(options.connect().await?))
            }
            Client::TokioPostgres => {
                let mut config = tokio_postgres::Config::new();
                config.host("127.0.0.1").port(server.port()).user(role).dbname(database);
                let (client, connection) = config.connect(NoTls).await?;
                tokio::spawn(connection);
                Ok(Self::TokioPostgres(client, None))
            }
        }
    }

    /// Prepares a statement and runs it.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        match self {
            Self::Sqlx(connection) => {
                sqlx::query(AssertSqlSafe(sql)).execute(connection).await?;
            }
            Self::TokioPostgres(client, _) => {
                client.execute(sql, &[]).await?;
            }
        }
        Ok(())
    }

    /// Prepares a statement for [`run_prepared`](Self::run_prepared).
    pub(crate) async fn prepare(&mut self, sql: &str) {
        match self {
            Self::Sqlx(connection) => {
                connection.prepare(AssertSqlSafe(sql).into_sql_str()).await.unwrap();
            }
            Self::TokioPostgres(client, prepared) => {
                *prepared = Some(client.prepare(sql).await.unwrap());
            }
        }
    }

    /// Runs the statement that was prepared. `sqlx` finds it by its words.
    pub(crate) async fn run_prepared(&mut self, sql: &str) -> Result<(), Failure> {
        match self {
            Self::TokioPostgres(client, Some(prepared)) => {
                client.execute(prepared, &[]).await?;
                Ok(())
            }
            _ => self.run(sql).await,
        }
    }

    /// Forgets what was prepared.
    pub(crate) async fn forget_prepared(&mut self) {
        match self {
            Self::Sqlx(connection) => connection.clear_cached_statements().await.unwrap(),
            Self::TokioPostgres(_, prepared) => *prepared = None,
        }
    }

    /// Runs a statement without preparing it.
    pub(crate) async fn run_raw(&mut self, sql: &str) {
        match self {
            Self::Sqlx(connection) => {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap();
            }
            Self::TokioPostgres(client, _) => client.batch_execute(sql).await.unwrap(),
        }
    }

    /// Runs a statement that is refused.
    #[track_caller]
    pub(crate) fn fail<'s>(&'s mut self, sql: &'s str) -> impl Future<Output = Failure> + 's {
        let caller = std::panic::Location::caller();
        async move {
            match self.run(sql).await {
                Ok(()) => panic!("{sql} was executed at {caller}"),
                Err(failure) => failure,
            }
        }
    }
}
