use std::time::Duration;

use resile::{GaveUp, Never, ResilienceExt, RetryPolicy, Upstream, Verdict, retry};
use resile_clients::Classifier;
use sqlx::Transaction;
use sqlx::postgres::{PgPool, Postgres};

static SHOP: Upstream = Upstream::new("shop");

/// How far the attempt came. Before `COMMIT` was sent, the server keeps nothing of it.
#[derive(Debug)]
pub(crate) enum Failed {
    SoldOut,
    Before(sqlx::Error),
    Commit(sqlx::Error),
}

pub(crate) fn classify(clients: &Classifier, failed: &Failed) -> Option<Verdict> {
    match failed {
        Failed::SoldOut => Some(Verdict::fatal()),
        // An error that the classifier does not know leaves no doubt either.
        Failed::Before(error) => Classifier::idempotent().verdict(error).or(Some(Verdict::fatal())),
        Failed::Commit(error) => clients.verdict(error),
    }
}

/// Sells a piece of an item. The sale has no key.
pub(crate) async fn sell(shop: &PgPool, item: i32) -> Result<(), GaveUp<Failed>> {
    let policy = RetryPolicy::contention()
        .with_attempts(u32::MAX) // the total timeout is the limit
        .with_attempt_timeout(Duration::from_secs(7))
        .with_total_timeout(Duration::from_secs(15))
        .with_classifier(Classifier::non_idempotent().over(classify));
    retry(|_| attempt(shop, item), policy, Never).on(&SHOP).await
}

async fn attempt(shop: &PgPool, item: i32) -> Result<(), Failed> {
    // An attempt that is cut here is not in doubt.
    let transaction = take(shop, item).before_sending().await?;
    transaction.commit().await.map_err(Failed::Commit)
}

/// Does everything before `COMMIT`. If it is dropped, it is rolled back.
async fn take(shop: &PgPool, item: i32) -> Result<Transaction<'static, Postgres>, Failed> {
    let begun = shop.begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE").await;
    let mut transaction = begun.map_err(Failed::Before)?;
    let take = "UPDATE stock SET pieces = pieces - 1 WHERE item = $1 AND pieces > 0";
    let taken = sqlx::query(take).bind(item).execute(&mut *transaction).await;
    match taken.map_err(Failed::Before)?.rows_affected() {
        0 => Err(Failed::SoldOut),
        _ => Ok(transaction),
    }
}
