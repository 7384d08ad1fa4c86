//! A part of a transaction that ignores the error of a statement. PostgreSQL rolls back at `COMMIT`, and `sqlx`
//! returns `Ok` for that.

use resile_clients::Classifier;
use resile_clients::sqlx::{BeforeCommit, TransactionError, commit};
use sqlx::postgres::{PgPool, Postgres};
use sqlx::{Acquire, Transaction};

use super::{Admin, options, shared};
use crate::row::within;
use crate::sql::recipe::open;

type Part = Result<(Transaction<'static, Postgres>, ()), BeforeCommit>;

/// The table does not exist.
const AUDIT: &str = "INSERT INTO audit VALUES (1)";

/// Begins a transaction that adds 1 to a row of its table.
async fn begin(
    pool: &PgPool,
    add: &'static str,
) -> Result<Transaction<'static, Postgres>, BeforeCommit> {
    let mut transaction = pool.begin().await?;
    sqlx::query(add).execute(&mut *transaction).await?;
    Ok(transaction)
}

/// The call ends as `Ok`, and its writes are lost. Nothing that `sqlx` shows tells of it.
#[tokio::test]
async fn an_ignored_error_loses_the_writes_and_the_call_ends_as_ok() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.table("ignored").await;
        let pool = open(options(&server));
        let part = async || -> Part {
            let mut transaction = begin(&pool, "UPDATE ignored SET n = n + 1 WHERE id = 1").await?;
            let _ = sqlx::query(AUDIT).execute(&mut *transaction).await;
            Ok((transaction, ()))
        };
        commit(part()).await.unwrap();
        assert_eq!(admin.sum("ignored").await, 0);
    })
    .await;
}

/// A statement at the end of the part finds it.
#[tokio::test]
async fn a_further_statement_finds_an_ignored_error() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.table("found").await;
        let pool = open(options(&server));
        let part = async || -> Part {
            let mut transaction = begin(&pool, "UPDATE found SET n = n + 1 WHERE id = 1").await?;
            let _ = sqlx::query(AUDIT).execute(&mut *transaction).await;
            sqlx::query("SELECT 1").execute(&mut *transaction).await?;
            Ok((transaction, ()))
        };
        let failed = commit(part()).await.unwrap_err();
        assert!(matches!(failed, TransactionError::Before(_)), "{failed:?}");
        let order = Classifier::non_idempotent();
        assert_eq!(resile::Classify::error_type(&order, &failed).as_deref(), Some("25P02"));
        let verdict = order.verdict(&failed).unwrap();
        assert!(!verdict.is_again() && verdict.is_without_effect(), "{verdict:?}");
        assert_eq!(admin.sum("found").await, 0);
    })
    .await;
}

/// The program of the README.
#[tokio::test]
async fn a_savepoint_keeps_the_writes_before_it() {
    within(async {
        let server = shared();
        let mut admin = Admin::new(&server).await;
        admin.table("kept").await;
        let pool = open(options(&server));
        let part = async || -> Part {
            let mut transaction = begin(&pool, "UPDATE kept SET n = n + 1 WHERE id = 1").await?;
            let audit = sqlx::query(AUDIT);
            let mut savepoint = transaction.begin().await?;
            match audit.execute(&mut *savepoint).await {
                Ok(_) => savepoint.commit().await?,
                Err(_) => savepoint.rollback().await?, // the writes before it stay
            }
            Ok((transaction, ()))
        };
        commit(part()).await.unwrap();
        assert_eq!(admin.sum("kept").await, 1);
    })
    .await;
}
