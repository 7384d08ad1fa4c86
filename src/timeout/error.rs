use std::borrow::Cow;
use std::fmt;

use super::Elapsed;
use crate::classify::{CUT, Classify};
use crate::upstream::NotError;
use crate::upstream::markers::Operation;
use crate::verdict::{Cut, Verdict};

/// An error of an operation under a [timeout](crate::ResilienceExt::timeout): its own error, or the
/// missed limit. Use it instead of an enum of your own.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::ResilienceExt;
/// use resile::timeout::Error;
/// use std::{io, time::Duration};
///
/// # async fn fetch() -> io::Result<u8> { std::future::pending().await }
/// let call = async { fetch().await.map_err(Error::Operation) };
/// let outcome = call.timeout(Duration::from_secs(5)).await;
/// assert!(matches!(outcome, Err(Error::Elapsed(_))));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error<E> {
    /// The operation itself failed.
    Operation(E),
    /// The operation did not finish within its limit.
    Elapsed(Elapsed),
}

impl<E> Error<E> {
    /// Returns the operation's own error, or `None` for a missed limit.
    pub fn into_operation(self) -> Option<E> {
        match self {
            Self::Operation(error) => Some(error),
            Self::Elapsed(_) => None,
        }
    }
}

impl<E> From<Elapsed> for Error<E> {
    fn from(elapsed: Elapsed) -> Self {
        Self::Elapsed(elapsed)
    }
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(error) => error.fmt(f),
            Self::Elapsed(elapsed) => elapsed.fmt(f),
        }
    }
}

/// Transparent: the error displays the inner error and returns the source of the inner error.
impl<E: std::error::Error> std::error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Operation(error) => error.source(),
            Self::Elapsed(_) => None,
        }
    }
}

/// Prints the error around an error that is not an `Error`, such as an `anyhow::Error`.
impl<E: NotError<M>, M> NotError<Operation<M>> for Error<E> {
    fn explain(error: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match error {
            Self::Operation(error) => E::explain(error, f),
            Self::Elapsed(elapsed) => write!(f, "{elapsed}"),
        }
    }

    fn as_error(error: &Self) -> Option<&(dyn std::error::Error + 'static)> {
        match error {
            Self::Operation(error) => E::as_error(error),
            Self::Elapsed(elapsed) => Some(elapsed),
        }
    }
}

/// A classifier of [`Error<E>`] that wraps a classifier of `E`.
///
/// | variant | verdict |
/// |---|---|
/// | `Operation` | the verdict of the inner classifier |
/// | `Elapsed` | the inner classifier's [`classify_cut`](Classify::classify_cut), because the upstream may have executed an attempt that was cut |
///
/// In a pair of two `ClassifyOperation`s both members are asked about `Elapsed`, as a pair of
/// their inner classifiers would be about a cut. So `Elapsed` is not repeated if one of them
/// wraps `http::Classifier::non_idempotent()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassifyOperation<C>(pub C);

impl<E, C: Classify<E>> Classify<Error<E>> for ClassifyOperation<C> {
    fn classify(&self, error: &Error<E>) -> Option<Verdict> {
        match error {
            Error::Operation(error) => self.0.classify(error),
            Error::Elapsed(elapsed) => {
                let cut = Cut::AttemptTimeout(elapsed.limit());
                Some(self.0.classify_cut(cut).unwrap_or(CUT).on_cut())
            }
        }
    }

    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        self.0.classify_cut(cut)
    }

    fn error_type<'e>(&self, error: &'e Error<E>) -> Option<Cow<'e, str>> {
        match error {
            Error::Operation(error) => self.0.error_type(error),
            Error::Elapsed(_) => Some(Cow::Borrowed("timeout")),
        }
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.0.place()
    }
}
