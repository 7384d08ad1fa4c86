use std::error::Error;
use std::fmt;
use std::time::Duration;

use resile::{GaveUp, Health, Never, RetryPolicy, Upstream, Verdict, retry};
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

/// Waits for longer after each error that is not a collision, because a server that is down may end each
/// connection at once.
fn calm(verdict: Verdict) -> Verdict {
    let is_collision = verdict.health() == Health::Healthy;
    let is_short = verdict.is_again() && !is_collision;
    if is_short { verdict.at_least(Duration::from_millis(500)) } else { verdict }
}

/// Sells a piece of an item and returns how many are left. The sale has no key.
pub(crate) async fn sell(shop: &PgPool, item: i32) -> Result<i64, GaveUp<Failed>> {
    let non_idempotent = Classifier::non_idempotent()
        .with_place("sell")
        .over(|clients, failed: &Failed| clients.verdict(failed).map(calm));
    let policy = RetryPolicy::contention()
        .with_attempts(u32::MAX) // the total timeout is the limit, and `calm` in an outage
        .with_attempt_timeout(Duration::from_secs(7))
        .with_total_timeout(Duration::from_secs(15))
        .with_classifier(non_idempotent);
    retry(|_| commit(take(shop, item)), policy, Never).on(&SHOP).await
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
