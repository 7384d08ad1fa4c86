use std::error::Error;
use std::fmt;
use std::time::Duration;

use resile::{GaveUp, Never, RetryPolicy, Upstream, retry};
use resile_clients::Classifier;
use resile_clients::sqlx::{BeforeCommit, TransactionError, commit};
use sqlx::Transaction;
use sqlx::postgres::{PgPool, Postgres};

static BANK: Upstream = Upstream::new("bank");

/// The payer has too little, or an account does not exist.
#[derive(Debug)]
pub(crate) struct Poor;

impl fmt::Display for Poor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not enough money")
    }
}

impl Error for Poor {}

pub(crate) type Failed = TransactionError<Poor>;

const POLICY: RetryPolicy<Classifier> = RetryPolicy::contention()
    .with_attempts(u32::MAX) // the total timeout is the limit
    .with_attempt_timeout(Duration::from_secs(7))
    .with_total_timeout(Duration::from_secs(15))
    .with_classifier(Classifier::keyed().with_place("pay"));

/// Pays an amount from one account to another once, however often it is called with this id.
pub(crate) async fn pay(
    bank: &PgPool,
    id: &str,
    from: i32,
    to: i32,
    amount: i64,
) -> Result<(), GaveUp<Failed>> {
    retry(|_| commit(book(bank, id, from, to, amount)), POLICY, Never).on(&BANK).await
}

/// Does everything before `COMMIT`. If it fails or is cut, it is rolled back.
async fn book(
    bank: &PgPool,
    id: &str,
    from: i32,
    to: i32,
    amount: i64,
) -> Result<(Transaction<'static, Postgres>, ()), BeforeCommit<Poor>> {
    let mut transaction = bank.begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE").await?;
    let insert = "INSERT INTO transfer (id) VALUES ($1) ON CONFLICT DO NOTHING";
    let query = sqlx::query(insert).bind(id);
    if query.execute(&mut *transaction).await?.rows_affected() == 0 {
        return Ok((transaction, ())); // an earlier attempt or call has committed
    }
    let add = "UPDATE account SET amount = amount + $1 WHERE id = $2 AND amount + $1 >= 0";
    let mut changes = [(from, -amount), (to, amount)];
    changes.sort_unstable(); // always lock in one order: opposite payments would deadlock
    for (id, change) in changes {
        let query = sqlx::query(add).bind(change).bind(id);
        if query.execute(&mut *transaction).await?.rows_affected() == 0 {
            return Err(BeforeCommit::Own(Poor));
        }
    }
    Ok((transaction, ()))
}
