//! A ready-made error type for operations under adapters.

use std::fmt;

use crate::breaker::Open;
use crate::bulkhead::Full;
use crate::classify::{Classify, Verdict};
#[cfg(feature = "stream")]
use crate::stream::CutOff;
use crate::timeout::Elapsed;

/// An operation's own error, or the refusal of an adapter around it: for callers who do not want to write that
/// enum themselves.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Error, Lift, Never, ResilienceExt, RetryPolicy, retry};
/// use std::{io, time::Duration};
///
/// # async fn fetch() -> io::Result<u8> { std::future::pending().await }
/// let policy = RetryPolicy::new().with_classify(Lift(|e: &io::Error| e.kind() == io::ErrorKind::ConnectionReset));
/// let outcome = retry(
///     |_| async { fetch().await.map_err(Error::Operation) }.timeout(Duration::from_secs(5)),
///     &policy,
///     Never,
/// )
/// .await;
/// assert!(matches!(outcome.unwrap_err().into_last(), Some(Error::Elapsed(_))));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error<E> {
    /// The operation itself failed.
    Operation(E),
    /// The operation did not finish within its limit.
    Elapsed(Elapsed),
    /// A circuit breaker refused it.
    Open(Open),
    /// The operation was not begun, as its bulkhead had no room.
    Full(Full),
    /// The stream ended without the item that was to be its last.
    #[cfg(feature = "stream")]
    CutOff(CutOff),
}

impl<E> Error<E> {
    /// The operation's own error, if it is one.
    pub fn into_operation(self) -> Option<E> {
        match self {
            Self::Operation(error) => Some(error),
            Self::Elapsed(_) | Self::Open(_) | Self::Full(_) => None,
            #[cfg(feature = "stream")]
            Self::CutOff(_) => None,
        }
    }
}

impl<E> From<Elapsed> for Error<E> {
    fn from(elapsed: Elapsed) -> Self {
        Self::Elapsed(elapsed)
    }
}

impl<E> From<Open> for Error<E> {
    fn from(open: Open) -> Self {
        Self::Open(open)
    }
}

impl<E> From<Full> for Error<E> {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

#[cfg(feature = "stream")]
impl<E> From<CutOff> for Error<E> {
    fn from(cut_off: CutOff) -> Self {
        Self::CutOff(cut_off)
    }
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(error) => error.fmt(f),
            Self::Elapsed(elapsed) => elapsed.fmt(f),
            Self::Open(open) => open.fmt(f),
            Self::Full(full) => full.fmt(f),
            #[cfg(feature = "stream")]
            Self::CutOff(cut_off) => cut_off.fmt(f),
        }
    }
}

/// Transparent: it prints as what it holds and has its source.
impl<E: std::error::Error> std::error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Operation(error) => error.source(),
            Self::Elapsed(_) | Self::Open(_) | Self::Full(_) => None,
            #[cfg(feature = "stream")]
            Self::CutOff(_) => None,
        }
    }
}

/// Lifts a classifier of `E` to one of [`Error<E>`]: it classifies the operation's own errors.
///
/// | variant | verdict |
/// |---|---|
/// | `Operation` | the classifier's |
/// | `Elapsed`, `CutOff` | the classifier's [`classify_cut`](Classify::classify_cut); without an opinion, a retry |
/// | `Full` | a retry, not throttled: the upstream asked for nothing, so no other call needs to wait |
/// | `Open` | a retry no sooner than the breaker says; a failure where it does not say |
///
/// An attempt that was cut off may have been executed. So give `Lift` a classifier that knows whether the request may be
/// sent again, such as [`http::Classifier`](crate::http::Classifier). A closure has no opinion on attempts that were cut
/// off, also where it asks such a classifier inside: compose them by [`or_else`](Classify::or_else) inside of `Lift`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lift<C>(pub C);

impl<C> Lift<C> {
    /// The verdict on an attempt that was cut off.
    fn cut<E>(&self) -> Verdict
    where
        C: Classify<E>,
    {
        self.0.classify_cut().unwrap_or(Verdict::retry())
    }
}

impl<E, C: Classify<E>> Classify<Error<E>> for Lift<C> {
    fn classify(&self, error: &Error<E>) -> Option<Verdict> {
        match error {
            Error::Operation(error) => self.0.classify(error),
            Error::Elapsed(_) => Some(self.cut::<E>()),
            Error::Full(_) => Some(Verdict::retry()),
            Error::Open(open) => Some(open.retry_after().map_or(Verdict::Fail, Verdict::retry_after)),
            #[cfg(feature = "stream")]
            Error::CutOff(_) => Some(self.cut::<E>()),
        }
    }

    fn classify_cut(&self) -> Option<Verdict> {
        self.0.classify_cut()
    }
}
