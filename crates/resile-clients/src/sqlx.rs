//! The client `sqlx` 0.9 (feature `sqlx-0_9`).
//!
//! The code of an error is that of its database, and `sqlx` does not say which database it is. The
//! type of the error does, but a driver has it. So each driver is a feature: `sqlx-0_9-postgres` and
//! `sqlx-0_9-mysql`. A program that uses `sqlx` has its driver already. SQLite needs no feature, because
//! its codes have at most four digits and an SQLSTATE has five characters.
//!
//! Without the feature an SQLSTATE has the verdict of [`postgres::sqlstate`] if it has a row there. But a
//! request that is not idempotent is sent again only after 40001, which is a rollback in each database, and
//! after a code of PostgreSQL alone such as 40P01. MariaDB needs its feature, because most of its errors have
//! the SQLSTATE `HY000`, which has no verdict.

mod before_commit;
mod commit;
mod queued;
mod transaction;

use std::borrow::Cow;

use ::sqlx::Error;
use ::sqlx::error::DatabaseError;
use resile::Verdict;
use resile::io::{Classifier, error_type};

use crate::classifier::classifies;
use crate::rule::State::{Failing, Healthy, Unknown};
use crate::rule::{always, never};
use crate::{Idempotency, postgres, sqlite};

pub use before_commit::BeforeCommit;
pub use commit::commit;
pub use queued::queued;
pub use transaction::TransactionError;

/// Returns the verdict on an error of the client `sqlx`.
///
/// | error | again |
/// |---|---|
/// | `Database` | as the code of the database says. `None` for an unknown code. Without the feature of its driver as the [SQLSTATE](self) says |
/// | `Io` | as `resile::io` says: a refused connection is again, and a lost one may have committed |
/// | `Tls` | the connection was not made, so again if a repetition can help |
/// | `PoolTimedOut` | again: nothing was sent. The health is unknown, because the pool may be used up or the server may be gone |
/// | `WorkerCrashed`, `Protocol` | never, failing |
/// | the others | never: the program is at fault, or the answer has come |
///
/// The unit is the transaction: begin it in the attempt, and return its first error. A `Transaction`
/// that is dropped is rolled back. [`commit`](commit()) also says whether the error or a cut came before
/// `COMMIT`. Statements on the pool itself are not one transaction, so the second
/// one may fail after the first one was executed. A pool waits for up to `acquire_timeout`, 30 s by
/// default, so choose a shorter one below a retry.
///
/// An error of `Pool::begin` and `Pool::acquire` comes before the work. It may be classified as
/// [`Idempotent`](Idempotency::Idempotent), if the attempt has sent nothing before.
///
/// # Examples
///
/// ```
/// use resile::{Classify, RetryPolicy};
/// use resile_clients::Classifier;
///
/// let classifier = Classifier::non_idempotent();
/// assert!(classifier.classify(&sqlx::Error::PoolTimedOut).unwrap().is_again());
/// let policy = RetryPolicy::contention().with_classifier(classifier);
/// # let _ = policy;
/// ```
#[must_use]
pub fn error(error: &Error, idempotency: Idempotency) -> Option<Verdict> {
    let rule = match error {
        Error::Database(error) => return database(&**error, idempotency),
        Error::Io(error) => {
            let classifier = idempotency.io();
            return Some(classifier.verdict(error).unwrap_or(classifier.unanswered()));
        }
        Error::Tls(_) => match Classifier::idempotent().verdict(error) {
            Some(verdict) => return Some(verdict),
            None => never(Unknown),
        },
        Error::PoolTimedOut => return Some(always(Unknown).verdict(idempotency).not_sent()),
        Error::WorkerCrashed | Error::Protocol(_) => never(Failing),
        // The database was not asked.
        Error::PoolClosed => return Some(never(Unknown).verdict(idempotency).not_sent()),
        // The program is at fault.
        Error::Configuration(_)
        | Error::InvalidArgument(_)
        | Error::Encode(_)
        | Error::AnyDriverError(_)
        | Error::InvalidSavePointStatement
        | Error::BeginFailed => never(Unknown),
        // The answer has come.
        Error::RowNotFound
        | Error::TypeNotFound { .. }
        | Error::ColumnIndexOutOfBounds { .. }
        | Error::ColumnNotFound(_)
        | Error::ColumnDecode { .. }
        | Error::Decode(_) => never(Healthy),
        _ => return None,
    };
    Some(rule.verdict(idempotency))
}

fn database(error: &dyn DatabaseError, idempotency: Idempotency) -> Option<Verdict> {
    #[cfg(feature = "sqlx-0_9-postgres")]
    if let Some(error) = error.try_downcast_ref::<::sqlx::postgres::PgDatabaseError>() {
        return crate::postgres::error(error.code(), error.routine(), idempotency);
    }
    #[cfg(feature = "sqlx-0_9-mysql")]
    if let Some(error) = error.try_downcast_ref::<::sqlx::mysql::MySqlDatabaseError>() {
        return crate::mysql::error(error.number(), error.message(), idempotency);
    }
    let code = error.code()?;
    match code.len() {
        5 => sqlstate(&code, idempotency),
        ..5 => sqlite::code(code.parse().ok()?, idempotency),
        _ => None,
    }
}

/// Returns the verdict on an SQLSTATE of a driver that is not known.
fn sqlstate(code: &str, idempotency: Idempotency) -> Option<Verdict> {
    let verdict = postgres::known(code, idempotency)?;
    // By the standard 40001 is a rollback. No other database has codes such as 40P01.
    let is_sure = code == "40001" || code.as_bytes().get(2) == Some(&b'P');
    Some(if is_sure {
        verdict.without_effect()
    } else if idempotency == Idempotency::Idempotent {
        verdict
    } else {
        verdict.not_again()
    })
}

classifies!(Error => error, word);

/// Returns the code of the database, the word for an `io::Error`, or the kind.
fn word(error: &Error) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(match error {
        Error::Database(error) => return code(&**error),
        Error::Io(error) => error_type(error)?,
        Error::Tls(error) => error_type(&**error).unwrap_or("Tls"),
        Error::Configuration(_) => "Configuration",
        Error::InvalidArgument(_) => "InvalidArgument",
        Error::Protocol(_) => "Protocol",
        Error::RowNotFound => "RowNotFound",
        Error::TypeNotFound { .. } => "TypeNotFound",
        Error::ColumnIndexOutOfBounds { .. } => "ColumnIndexOutOfBounds",
        Error::ColumnNotFound(_) => "ColumnNotFound",
        Error::ColumnDecode { .. } => "ColumnDecode",
        Error::Encode(_) => "Encode",
        Error::Decode(_) => "Decode",
        Error::AnyDriverError(_) => "AnyDriverError",
        Error::PoolTimedOut => "PoolTimedOut",
        Error::PoolClosed => "PoolClosed",
        Error::WorkerCrashed => "WorkerCrashed",
        Error::InvalidSavePointStatement => "InvalidSavePointStatement",
        Error::BeginFailed => "BeginFailed",
        _ => return None,
    }))
}

/// Returns the code of the database. The SQLSTATE of MariaDB is the same for most errors, so its number
/// is the code.
fn code(error: &dyn DatabaseError) -> Option<Cow<'_, str>> {
    #[cfg(feature = "sqlx-0_9-mysql")]
    if let Some(error) = error.try_downcast_ref::<::sqlx::mysql::MySqlDatabaseError>() {
        return Some(error.number().to_string().into());
    }
    error.code()
}
