use std::time::Duration;

use resile::{Budget, GaveUp, Never, RetryPolicy, Upstream, retry};
use resile_clients::Classifier;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

/// The capacity is nine retries for each of ten connections, because collisions come in crowds.
static BANK: Upstream = Upstream::new("bank").with_budget(Budget::new().with_capacity(90));

const POLICY: RetryPolicy = RetryPolicy::contention()
    .with_attempt_timeout(Duration::from_secs(5))
    .with_total_timeout(Duration::from_secs(15));

/// Opens the pool. An attempt waits up to 2 s for a connection and twice 1 s for a lock, which is less
/// than its timeout. So each of these waits ends with an error of its own, after which the transaction
/// is made again, and no attempt is cut in doubt that has only waited.
pub(crate) fn open(bank: PgConnectOptions) -> PgPool {
    PgPoolOptions::new()
        .max_connections(10)
        .acquire_timeout(Duration::from_secs(2))
        .connect_lazy_with(bank.options([("lock_timeout", "1s")]))
}

/// Reads the amount of an account.
pub(crate) async fn amount(bank: &PgPool, id: i32) -> Result<i64, GaveUp<sqlx::Error>> {
    let policy = POLICY.with_classifier(Classifier::idempotent());
    let read = "SELECT amount FROM account WHERE id = $1";
    let query = |_| sqlx::query_scalar(read).bind(id).fetch_one(bank);
    retry(query, policy, Never).on(&BANK).await
}

/// Moves an amount from one account to another.
pub(crate) async fn transfer(
    bank: &PgPool,
    [from, to]: [i32; 2],
    amount: i64,
) -> Result<(), GaveUp<sqlx::Error>> {
    let policy = POLICY.with_classifier(Classifier::non_idempotent());
    retry(|_| attempt(bank, [from, to], amount), policy, Never).on(&BANK).await
}

/// Makes the whole transaction. If it is dropped, it is rolled back.
async fn attempt(bank: &PgPool, [from, to]: [i32; 2], amount: i64) -> sqlx::Result<()> {
    let mut transaction = bank.begin().await?;
    let add = "UPDATE account SET amount = amount + $1 WHERE id = $2";
    for (id, change) in [(from, -amount), (to, amount)] {
        let query = sqlx::query(add).bind(change).bind(id);
        query.execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
