//! One judgement of an error, shared by everything that acts on it.

use std::fmt;
use std::time::Duration;

/// What an error means for the effort that met it.
///
/// One verdict, many consumers: the retry, its budget, breakers, cooldowns and hedges all read the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Trying again may help.
    Retry {
        /// What the peer asked us to wait, if it said: a floor that no delay undercuts.
        after: Option<Duration>,
        /// Why trying again may help.
        cause: Cause,
    },
    /// Trying again cannot help: the request itself is at fault, or nobody knows better.
    Fail,
}

/// Why trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A passing fault: a reset, a timeout, an internal error.
    Transient,
    /// The peer is well and asks for less: a rate limit, an overload.
    Throttled,
}

impl Verdict {
    /// Try again; a passing fault.
    #[must_use]
    pub const fn retry() -> Self {
        Self::Retry { after: None, cause: Cause::Transient }
    }

    /// Try again, no sooner than `after` from now; a passing fault.
    #[must_use]
    pub const fn retry_after(after: Duration) -> Self {
        Self::Retry { after: Some(after), cause: Cause::Transient }
    }

    /// Try again; the peer asks for less, and may have said when to come back.
    #[must_use]
    pub const fn throttled(after: Option<Duration>) -> Self {
        Self::Retry { after, cause: Cause::Throttled }
    }

    /// Do not try again.
    #[must_use]
    pub const fn fail() -> Self {
        Self::Fail
    }

    /// What the peer asked us to wait, if it said.
    #[must_use]
    pub const fn after(&self) -> Option<Duration> {
        match self {
            Self::Retry { after, .. } => *after,
            Self::Fail => None,
        }
    }

    /// Why trying again may help; `None` when it cannot.
    #[must_use]
    pub const fn cause(&self) -> Option<Cause> {
        match self {
            Self::Retry { cause, .. } => Some(*cause),
            Self::Fail => None,
        }
    }

    /// Whether trying again may help.
    #[must_use]
    pub const fn is_retry(&self) -> bool {
        matches!(self, Self::Retry { .. })
    }
}

impl Cause {
    /// A stable word for logs and metrics: `transient`, `throttled`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Throttled => "throttled",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Judges errors of type `E`.
///
/// Closures judge: `|e: &MyError| e.is_transient()` when they return `bool` (true retries, false fails), a
/// [`Verdict`], or an `Option<Verdict>`.
///
/// # Examples
///
/// ```
/// use resile::{Classify, Verdict};
/// use std::{io, time::Duration};
///
/// let resets = |e: &io::Error| (e.kind() == io::ErrorKind::ConnectionReset).then(Verdict::retry);
/// let busy = |e: &io::Error| (e.kind() == io::ErrorKind::WouldBlock).then(|| Verdict::throttled(None));
/// let both = resets.or_else(busy);
///
/// assert_eq!(both.classify(&io::ErrorKind::WouldBlock.into()), Some(Verdict::throttled(None)));
/// assert_eq!(both.classify(&io::ErrorKind::NotFound.into()), None); // no opinion: it will not be retried
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge errors of type `{E}`",
    note = "a classifier is a closure `|error: &{E}| …` that returns `bool`, `Verdict` or `Option<Verdict>`"
)]
pub trait Classify<E: ?Sized> {
    /// The verdict on `error`; `None` is no opinion. What nobody has an opinion on fails.
    fn classify(&self, error: &E) -> Option<Verdict>;

    /// Returns the verdict on an attempt that was cut off before it came to an error of its own: by a timeout, or as its
    /// stream ended early. The upstream may have done all that was asked of it.
    ///
    /// `None` is no opinion. [`Lift`](crate::Lift) then sends such an attempt again.
    fn classify_cut(&self) -> Option<Verdict> {
        None
    }

    /// Asks `other` where this one has no opinion.
    fn or_else<C: Classify<E>>(self, other: C) -> OrElse<Self, C>
    where
        Self: Sized,
    {
        OrElse { first: self, second: other }
    }
}

impl<E: ?Sized, F, V> Classify<E> for F
where
    F: Fn(&E) -> V,
    V: Opinion,
{
    #[inline]
    fn classify(&self, error: &E) -> Option<Verdict> {
        self(error).verdict()
    }
}

/// What a closure that judges may return. Nobody needs to implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no verdict",
    note = "a closure that judges errors returns `bool` (true retries), `Verdict` or `Option<Verdict>`"
)]
pub trait Opinion: sealed::Sealed {
    #[doc(hidden)]
    fn verdict(self) -> Option<Verdict>;
}

impl Opinion for bool {
    #[inline]
    fn verdict(self) -> Option<Verdict> {
        Some(if self { Verdict::retry() } else { Verdict::Fail })
    }
}

impl Opinion for Verdict {
    #[inline]
    fn verdict(self) -> Option<Verdict> {
        Some(self)
    }
}

impl Opinion for Option<Verdict> {
    #[inline]
    fn verdict(self) -> Option<Verdict> {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for bool {}
    impl Sealed for super::Verdict {}
    impl Sealed for Option<super::Verdict> {}
}

/// Retries every error, as a passing fault: the default, right where every failure of an operation passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Always;

impl<E: ?Sized> Classify<E> for Always {
    #[inline]
    fn classify(&self, _: &E) -> Option<Verdict> {
        Some(Verdict::retry())
    }
}

/// Two classifiers, the second asked where the first has no opinion. Made by [`Classify::or_else`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrElse<A, B> {
    first: A,
    second: B,
}

impl<E: ?Sized, A: Classify<E>, B: Classify<E>> Classify<E> for OrElse<A, B> {
    #[inline]
    fn classify(&self, error: &E) -> Option<Verdict> {
        self.first.classify(error).or_else(|| self.second.classify(error))
    }

    #[inline]
    fn classify_cut(&self) -> Option<Verdict> {
        self.first.classify_cut().or_else(|| self.second.classify_cut())
    }
}
