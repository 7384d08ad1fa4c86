use std::time::Duration;

use resile::{GaveUp, Never, ResilienceExt, RetryPolicy, Upstream, Verdict, retry};
use resile_clients::Classifier;
use sqlx::postgres::PgPool;

static BANK: Upstream = Upstream::new("bank");

#[derive(Debug)]
pub(crate) enum Failed {
    Poor,
    Bank(sqlx::Error),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Bank(error)
    }
}

fn classify(clients: &Classifier, failed: &Failed) -> Option<Verdict> {
    match failed {
        // The transaction is dropped, so it is rolled back.
        Failed::Poor => Some(Verdict::fatal().without_effect()),
        Failed::Bank(error) => clients.verdict(error),
    }
}

/// Takes an amount from an account once, however often it is called with this id.
pub(crate) async fn pay(
    bank: &PgPool,
    id: &str,
    account: i32,
    amount: i64,
) -> Result<(), GaveUp<Failed>> {
    let policy = RetryPolicy::contention()
        .with_attempts(u32::MAX) // the total timeout is the limit
        .with_attempt_timeout(Duration::from_secs(7))
        .with_total_timeout(Duration::from_secs(15))
        .with_classifier(Classifier::idempotent().over(classify));
    retry(|_| attempt(bank, id, account, amount), policy, Never).on(&BANK).await
}

async fn attempt(bank: &PgPool, id: &str, account: i32, amount: i64) -> Result<(), Failed> {
    let begin = bank.begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE");
    let mut transaction = begin.before_sending().await?;
    let insert = "INSERT INTO transfer (id) VALUES ($1) ON CONFLICT DO NOTHING";
    let query = sqlx::query(insert).bind(id);
    if query.execute(&mut *transaction).await?.rows_affected() == 0 {
        return Ok(()); // an earlier attempt or call has committed
    }
    let take = "UPDATE account SET amount = amount - $1 WHERE id = $2 AND amount >= $1";
    let query = sqlx::query(take).bind(amount).bind(account);
    if query.execute(&mut *transaction).await?.rows_affected() == 0 {
        return Err(Failed::Poor);
    }
    Ok(transaction.commit().await?)
}
