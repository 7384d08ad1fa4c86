use std::pin::pin;

use resile::ResilienceExt;
use sqlx::{Database, Transaction};

use super::{BeforeCommit, TransactionError};

/// Runs the part of a transaction before its `COMMIT`, then commits it and returns the value of the part.
///
/// The part begins the transaction, makes its statements and returns it. Nothing of it is kept before
/// `COMMIT`, so neither its failure nor a limit or a token that cuts it has an effect. The part runs in
/// [`before_sending`](ResilienceExt::before_sending), so a call knows this of a cut too. From `COMMIT` on,
/// a lost answer or a cut is in doubt unless the transaction is idempotent, and the words of the cut say "its
/// COMMIT was sent".
///
/// The part must return each error of a statement. After an error PostgreSQL answers `COMMIT` by a rollback, and
/// `sqlx` returns `Ok` for that. So if the part ignores the error of its last statement, nothing is kept and this
/// returns `Ok`. Make a statement that may fail within a savepoint: `transaction.begin()` of `sqlx::Acquire`.
/// After a deadlock MariaDB has rolled back the whole transaction and keeps each later statement at once, even if
/// the part fails then.
///
/// The part cannot commit the transaction that it returns. A statement that commits at once must not be in it,
/// such as a `CREATE TABLE` of MariaDB.
///
/// # Errors
///
/// Returns `Before` or `Own` if the part fails, and `Commit` if `COMMIT` fails.
///
/// # Cancel safety
///
/// A transaction that is dropped before `COMMIT` is rolled back. If this is dropped during `COMMIT`, the
/// transaction may be committed.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// use resile_clients::Classifier;
/// use resile_clients::resile::{GaveUp, Never, RetryPolicy, retry};
/// use resile_clients::sqlx::{BeforeCommit, TransactionError, commit};
/// use sqlx::{Database, Pool, Transaction};
///
/// async fn sell<D: Database>(shop: &Pool<D>) -> Result<u64, GaveUp<TransactionError>> {
///     let policy = RetryPolicy::contention()
///         .with_attempt_timeout(Duration::from_secs(7))
///         .with_classifier(Classifier::non_idempotent());
///     retry(|_| commit(take(shop)), policy, Never).await
/// }
///
/// async fn take<D: Database>(
///     shop: &Pool<D>,
/// ) -> Result<(Transaction<'static, D>, u64), BeforeCommit> {
///     let transaction = shop.begin().await?;
///     // Statements on `&mut *transaction`, each with a `?`.
///     Ok((transaction, 1))
/// }
/// ```
///
/// A part that commits its transaction does not compile:
///
/// ```compile_fail,E0382
/// # use resile_clients::sqlx::{BeforeCommit, TransactionError, commit};
/// # use sqlx::{Database, Pool};
/// async fn sell<D: Database>(shop: &Pool<D>) -> Result<(), TransactionError> {
///     commit(async {
///         let transaction = shop.begin().await?;
///         transaction.commit().await?;
///         Ok((transaction, ()))
///     })
///     .await
/// }
/// ```
pub async fn commit<'c, D: Database, T, E>(
    part: impl Future<Output = Result<(Transaction<'c, D>, T), BeforeCommit<E>>>,
) -> Result<T, TransactionError<E>> {
    // It is kept until `COMMIT` has ended, so a call that drops this meanwhile knows that `COMMIT` was sent.
    let mut part = pin!(part.before_sending().of_commit());
    let (transaction, value) = part.as_mut().await?;
    transaction.commit().await.map_err(TransactionError::Commit)?;
    Ok(value)
}
