use resile::io::Classifier;
use resile::{GaveUp, Never, RetryPolicy, retry};
use resile_clients::Idempotency::NotIdempotent;
use sqlx::PgPool;

/// Moves an amount from one account to another.
pub(crate) async fn transfer(
    bank: &PgPool,
    [from, to]: [i32; 2],
    amount: i64,
) -> Result<(), GaveUp<sqlx::Error>> {
    let classifier = Classifier::non_idempotent()
        .over(|_, error| resile_clients::sqlx::error(error, NotIdempotent));
    let policy = RetryPolicy::contention().with_classifier(classifier);
    retry(|_| attempt(bank, [from, to], amount), policy, Never).on("bank").await
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
