use std::time::Duration;

use resile::{GaveUp, Never, RetryPolicy, Upstream, retry};
use resile_clients::Classifier;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

static BANK: Upstream = Upstream::new("bank");

/// Both calls may be made twice: a read does no harm, and a transfer has its id.
const POLICY: RetryPolicy<Classifier> = RetryPolicy::contention()
    .with_attempt_timeout(Duration::from_secs(7))
    .with_total_timeout(Duration::from_secs(15))
    .with_classifier(Classifier::idempotent());

/// Opens the pool. An attempt waits up to 2 s for a connection and three times 1.5 s for a lock, which is
/// less than its timeout. So each of these waits ends with an error of its own, which says what was
/// missing, and not as "did not finish within 7s". The server ends a statement after 3 s, because it does
/// not see that its client has gone.
pub(crate) fn open(bank: PgConnectOptions) -> PgPool {
    PgPoolOptions::new()
        .max_connections(10)
        .acquire_timeout(Duration::from_secs(2))
        .connect_lazy_with(bank.options([("lock_timeout", "1500ms"), ("statement_timeout", "3s")]))
}

/// Reads the amount of an account.
pub(crate) async fn amount(bank: &PgPool, id: i32) -> Result<i64, GaveUp<sqlx::Error>> {
    let read = "SELECT amount FROM account WHERE id = $1";
    let query = |_| sqlx::query_scalar(read).bind(id).fetch_one(bank);
    retry(query, POLICY, Never).on(&BANK).await
}

/// A transfer from one account to another. Its id belongs to this transfer alone, and each further call
/// for this transfer has the same id.
pub(crate) struct Transfer<'a> {
    pub(crate) id: &'a str,
    pub(crate) from: i32,
    pub(crate) to: i32,
    pub(crate) amount: i64,
}

/// Makes a transfer once, however often it is called.
pub(crate) async fn transfer(
    bank: &PgPool,
    transfer: &Transfer<'_>,
) -> Result<(), GaveUp<sqlx::Error>> {
    retry(|_| attempt(bank, transfer), POLICY, Never).on(&BANK).await
}

/// Makes the whole transaction. If it is dropped, it is rolled back.
async fn attempt(bank: &PgPool, transfer: &Transfer<'_>) -> sqlx::Result<()> {
    let mut transaction = bank.begin().await?;
    // This waits for an earlier attempt whose `COMMIT` is still running.
    let insert = "INSERT INTO transfer (id) VALUES ($1) ON CONFLICT DO NOTHING";
    let query = sqlx::query(insert).bind(transfer.id);
    if query.execute(&mut *transaction).await?.rows_affected() == 0 {
        return Ok(()); // an earlier attempt or call has committed
    }
    let add = "UPDATE account SET amount = amount + $1 WHERE id = $2";
    let mut changes = [(transfer.from, -transfer.amount), (transfer.to, transfer.amount)];
    changes.sort_unstable(); // always lock in one order: opposite transfers would deadlock
    for (id, change) in changes {
        let query = sqlx::query(add).bind(change).bind(id);
        query.execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
