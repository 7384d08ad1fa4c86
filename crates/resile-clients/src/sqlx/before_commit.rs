use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use super::TransactionError;

/// The error of the part of a transaction before its `COMMIT`.
///
/// The part returns it to [`commit`](super::commit()), which makes a [`TransactionError`] of it. `?` turns an
/// error of `sqlx` into it, so the statements of the part need no `map_err`. Give a refusal of your own to
/// `Own`.
///
/// It has the words and the sources of the error in it.
#[derive(Debug)]
pub enum BeforeCommit<E = Infallible> {
    /// An error of `BEGIN` or of a statement.
    Sqlx(sqlx::Error),
    /// An error of your own, which ends the transaction.
    Own(E),
}

impl<E> From<sqlx::Error> for BeforeCommit<E> {
    fn from(error: sqlx::Error) -> Self {
        Self::Sqlx(error)
    }
}

impl<E> From<BeforeCommit<E>> for TransactionError<E> {
    fn from(error: BeforeCommit<E>) -> Self {
        match error {
            BeforeCommit::Sqlx(error) => Self::Before(error),
            BeforeCommit::Own(error) => Self::Own(error),
        }
    }
}

impl<E: fmt::Display> fmt::Display for BeforeCommit<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlx(error) => error.fmt(f),
            Self::Own(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for BeforeCommit<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Sqlx(error) => error.source(),
            Self::Own(error) => error.source(),
        }
    }
}
