use std::any::type_name;
use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use resile::{Health, Verdict};

use super::{error, word};
use crate::Idempotency;
use crate::classifier::classifies;
use crate::rule::State::Failing;
use crate::rule::if_idempotent;

/// The error of a transaction: whether it came before `COMMIT` or from it.
///
/// A database keeps nothing of a transaction before `COMMIT` was sent, so the verdict of a
/// [`Classifier`](crate::Classifier) reads where the error came from:
///
/// | error | verdict |
/// |---|---|
/// | `Before` | that of [`error`](super::error) on an idempotent request, without effect. An unknown error is final |
/// | `Commit` | that of [`error`](super::error): after a lost answer only an idempotent transaction is sent again. So it is after 53300 and 57P03, which PostgreSQL gives at the start of a session only. A pooler may give them here after the server has committed |
/// | `Own` | final, without effect. The health is [`Healthy`](resile::Health::Healthy), because the database has answered and your program has refused. An error of `sqlx` within your own type would be healthy too, so its outage would have no retry and no alert: return it as it is, by `?`. For another verdict put a classifier of your own before this one, as a pair, such as for an error of another service that the part asks |
///
/// Drop the transaction after each error before `COMMIT`, because this rolls it back. A statement that commits at
/// once must not be in it, such as a `CREATE TABLE` of MariaDB.
///
/// [`commit`](super::commit()) returns it. No `From<sqlx::Error>` exists, because `?` would then make an error
/// of `COMMIT` one without effect.
///
/// # Examples
///
/// ```
/// use resile_clients::Classifier;
/// use resile_clients::resile::{RetryPolicy, Verdict};
/// use resile_clients::sqlx::TransactionError;
///
/// let lost = || sqlx::Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
/// let before: TransactionError = TransactionError::Before(lost());
/// let commit: TransactionError = TransactionError::Commit(lost());
///
/// let sale = Classifier::non_idempotent();
/// let verdict = sale.verdict(&before).unwrap();
/// assert!(verdict.is_again() && verdict.is_without_effect());
/// assert!(!sale.verdict(&commit).unwrap().is_again());
/// let policy = RetryPolicy::contention().with_classifier(sale);
/// # let _ = policy;
/// ```
///
/// If you do without the function `commit`, say where each error came from. That of `COMMIT` is a `Commit`:
///
/// ```
/// # use resile_clients::sqlx::TransactionError;
/// # use sqlx::{Database, Transaction};
/// async fn end<D: Database>(transaction: Transaction<'_, D>) -> Result<(), TransactionError> {
///     transaction.commit().await.map_err(TransactionError::Commit)
/// }
/// ```
///
/// `?` alone does not compile:
///
/// ```compile_fail,E0277
/// # use resile_clients::sqlx::TransactionError;
/// # use sqlx::{Database, Transaction};
/// async fn end<D: Database>(transaction: Transaction<'_, D>) -> Result<(), TransactionError> {
///     transaction.commit().await?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub enum TransactionError<E = Infallible> {
    /// An error of `BEGIN` or of a statement. Nothing was committed.
    Before(sqlx::Error),
    /// An error of `COMMIT`. If its answer is lost, the transaction may be committed.
    Commit(sqlx::Error),
    /// An error of your own, which ends the transaction before `COMMIT`.
    Own(E),
}

impl<E: fmt::Display> fmt::Display for TransactionError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(_) => f.write_str("before COMMIT"),
            Self::Commit(_) => f.write_str("at COMMIT"),
            Self::Own(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for TransactionError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Before(error) | Self::Commit(error) => Some(error),
            Self::Own(error) => error.source(),
        }
    }
}

fn verdict<E>(failed: &TransactionError<E>, idempotency: Idempotency) -> Option<Verdict> {
    let verdict = match failed {
        TransactionError::Commit(failed) if is_of_start(failed) => {
            return Some(if_idempotent(Failing).verdict(idempotency));
        }
        TransactionError::Commit(failed) => return error(failed, idempotency),
        TransactionError::Before(failed) => error(failed, Idempotency::Idempotent),
        TransactionError::Own(_) => Some(Verdict::fatal().with_health(Health::Healthy)),
    };
    // An error that the classifier does not know has no effect either.
    Some(verdict.unwrap_or(Verdict::fatal()).without_effect())
}

/// Returns true for an error that PostgreSQL gives at the start of a session only, so a pooler has made it.
fn is_of_start(failed: &sqlx::Error) -> bool {
    let code = failed.as_database_error().and_then(sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("53300" | "57P03"))
}

/// Returns the word of `sqlx`, or the name of the Rust type of your error.
fn name<E>(failed: &TransactionError<E>) -> Option<Cow<'_, str>> {
    match failed {
        TransactionError::Before(failed) | TransactionError::Commit(failed) => word(failed),
        TransactionError::Own(_) => Some(Cow::Borrowed(type_name::<E>())),
    }
}

classifies!([E] TransactionError<E> => verdict, name);
