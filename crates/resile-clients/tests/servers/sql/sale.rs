use std::error::Error;
use std::fmt;
use std::time::Duration;

use resile::{GaveUp, Never, RetryPolicy, Upstream, retry};
use resile_clients::Classifier;
use resile_clients::sqlx::{BeforeCommit, TransactionError, commit};
use sqlx::Transaction;
use sqlx::postgres::{PgPool, Postgres};

static SHOP: Upstream = Upstream::new("shop");

/// No piece is left.
#[derive(Debug)]
pub(crate) struct SoldOut;

impl fmt::Display for SoldOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sold out")
    }
}

impl Error for SoldOut {}

pub(crate) type Failed = TransactionError<SoldOut>;

const POLICY: RetryPolicy<Classifier> = RetryPolicy::contention()
    .with_attempts(u32::MAX) // the total timeout is the limit
    .with_attempt_timeout(Duration::from_secs(7))
    .with_total_timeout(Duration::from_secs(15))
    .with_classifier(Classifier::non_idempotent().with_place("sell"));

/// Sells a piece of an item and returns how many are left. The sale has no key.
pub(crate) async fn sell(shop: &PgPool, item: i32) -> Result<i64, GaveUp<Failed>> {
    retry(|_| commit(take(shop, item)), POLICY, Never).on(&SHOP).await
}

/// Does everything before `COMMIT`. If it fails or is cut, it is rolled back.
async fn take(
    shop: &PgPool,
    item: i32,
) -> Result<(Transaction<'static, Postgres>, i64), BeforeCommit<SoldOut>> {
    let mut transaction = shop.begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE").await?;
    let take = "UPDATE stock SET pieces = pieces - 1 WHERE item = $1 AND pieces > 0
        RETURNING pieces";
    let query = sqlx::query_scalar(take).bind(item);
    let left = query.fetch_optional(&mut *transaction).await?;
    Ok((transaction, left.ok_or(BeforeCommit::Own(SoldOut))?))
}
