use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::policy::StopReason;
use crate::upstream::Name;
use crate::verdict::{Cut, Verdict};

/// A call ended without success: why, what was spent on it, and the last error of the operation.
///
/// `Display` prints this level only; the last error is the [`source`](Error::source). It is one word: the rest is boxed,
/// which only a call that was given up pays for.
///
/// # With `anyhow` and `Box<dyn Error>`
///
/// `?` converts a `GaveUp<E>` where `E` is an `Error`. Where `E` itself is an `anyhow::Error`, a `Box<dyn Error>` or a
/// `String`, [`into_boxed`](Self::into_boxed) makes it one:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Never, RetryPolicy, retry};
///
/// # async fn fetch() -> anyhow::Result<u32> { anyhow::bail!("down") }
/// async fn answer() -> anyhow::Result<u32> {
///     Ok(retry(|_| fetch(), RetryPolicy::new(), Never).await.map_err(|gave_up| gave_up.into_boxed())?)
/// }
/// let error = answer().await.unwrap_err();
/// assert!(format!("{error:#}").ends_with("no attempts left: down"));
/// # }
/// ```
pub struct GaveUp<E>(Box<Inner<E>>);

#[derive(Clone)]
pub(super) struct Inner<E> {
    pub(super) reason: StopReason,
    pub(super) attempts: u32,
    pub(super) elapsed: Duration,
    pub(super) retry_after: Option<Duration>,
    pub(super) verdict: Option<Verdict>,
    pub(super) cut: Option<Cut>,
    pub(super) last: Option<E>,
    pub(super) upstream: Option<Name>,
}

impl<E> GaveUp<E> {
    #[cold]
    pub(super) fn new(inner: Inner<E>) -> Self {
        Self(Box::new(inner))
    }

    /// Returns why the call ended.
    #[must_use]
    pub const fn reason(&self) -> StopReason {
        self.0.reason
    }

    /// Returns how many attempts were begun, one that was cut included. 0 where the first was refused, or the token was
    /// cancelled from the start.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Returns how long the call took, at most 584 years. As exact as [`Attempt::elapsed`](crate::Attempt::elapsed).
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// Returns the verdict on the last attempt that failed. `None`: none did, or the classifier had no opinion.
    ///
    /// An outer layer that reads it does not have to classify the error again.
    #[must_use]
    pub const fn verdict(&self) -> Option<Verdict> {
        self.0.verdict
    }

    /// Returns what cut the last attempt, if it came to no error of its own. [`last`](Self::last) is then the error of an
    /// earlier attempt, if any came to one.
    #[must_use]
    pub const fn cut(&self) -> Option<Cut> {
        self.0.cut
    }

    /// Returns the error of the last attempt that had one.
    #[must_use]
    pub const fn last(&self) -> Option<&E> {
        self.0.last.as_ref()
    }

    /// Returns the error of the last attempt that had one, by value.
    #[must_use]
    pub fn into_last(self) -> Option<E> {
        self.0.last
    }

    /// Returns the name of the upstream that the call went to, if it went to one.
    #[must_use]
    pub fn upstream(&self) -> Option<&str> {
        self.0.upstream.as_ref().map(Name::as_str)
    }

    /// Returns how long it is worth waiting before the next call, counted from the end of this one and at most 584 years,
    /// where it is known and was not waited out:
    /// * what the upstream asked for with the last error: it was more than the hint cap or the deadline allowed, no
    ///   attempt or budget was left for afterwards, or the token was cancelled by then. A call that is cancelled later,
    ///   in the wait itself, does not say how much of it was left;
    /// * with [`StopReason::Open`], when the breaker will let calls through;
    /// * with [`StopReason::Deadline`], how long a cooldown holds the next attempt, where that did not fit.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Replaces the error by what `map` makes of it.
    pub fn map<F>(self, map: impl FnOnce(E) -> F) -> GaveUp<F> {
        let Inner { reason, attempts, elapsed, retry_after, verdict, cut, last, upstream } =
            *self.0;
        let last = last.map(map);
        GaveUp::new(Inner { reason, attempts, elapsed, retry_after, verdict, cut, last, upstream })
    }

    /// Boxes the error, so that `?` converts the whole into `anyhow::Error` and `Box<dyn Error>` whatever `E` is.
    #[must_use]
    pub fn into_boxed(self) -> GaveUp<Boxed>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.map(|error| Boxed(error.into()))
    }
}

/// Of calls within calls.
impl<E> GaveUp<GaveUp<E>> {
    /// Makes one level of two: the attempts and the time of the outer call, and the error of the last inner one.
    ///
    /// Where the outer call ended because its inner calls failed ([`Fatal`](StopReason::Fatal),
    /// [`Unclassified`](StopReason::Unclassified), [`Attempts`](StopReason::Attempts),
    /// [`Alternatives`](StopReason::Alternatives)), the rest is what the last inner call says. Where it ended for a reason of
    /// its own, such as its total timeout, that stays.
    #[must_use]
    pub fn flatten(self) -> GaveUp<E> {
        let Inner { reason, attempts, elapsed, retry_after, verdict, cut, last, upstream } =
            *self.0;
        let by_inner = cut.is_none()
            && matches!(
                reason,
                StopReason::Fatal
                    | StopReason::Unclassified
                    | StopReason::Attempts
                    | StopReason::Alternatives
            );
        let last = match last {
            Some(inner) if by_inner => return GaveUp::new(Inner { attempts, elapsed, ..*inner.0 }),
            Some(inner) => inner.0.last,
            None => None,
        };
        GaveUp::new(Inner { reason, attempts, elapsed, retry_after, verdict, cut, last, upstream })
    }
}

impl<E: Clone> Clone for GaveUp<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: fmt::Debug> fmt::Debug for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GaveUp")
            .field("reason", &self.reason())
            .field("attempts", &self.attempts())
            .field("elapsed", &self.elapsed())
            .field("retry_after", &self.retry_after())
            .field("verdict", &self.verdict())
            .field("cut", &self.cut())
            .field("upstream", &self.upstream())
            .field("last", &self.last())
            .finish()
    }
}

impl<E> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.upstream() {
            write!(f, "{name}: ")?;
        }
        let attempts = self.attempts();
        let plural = if attempts == 1 { "" } else { "s" };
        write!(f, "gave up after {attempts} attempt{plural}")?;
        if !self.elapsed().is_zero() {
            write!(f, " in {:.1?}", self.elapsed())?;
        }
        write!(f, ": {}", self.reason())?;
        if let Some(cut) = self.cut() {
            write!(f, " (attempt {attempts}: {cut})")?;
        }
        if let Some(after) = self.retry_after() {
            write!(f, " (try again in {after:.1?})")?;
        }
        Ok(())
    }
}

impl<E: Source> Error for GaveUp<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.last().map(Source::as_source)
    }
}

/// What can be the source of an error: every error, and [`Boxed`]. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no `Error`, so `GaveUp<{Self}>` is none either",
    note = "for `anyhow::Error`, `Box<dyn Error + Send + Sync>` and `String` take `.map_err(GaveUp::into_boxed)`"
)]
pub trait Source: fmt::Debug + sealed::Sealed {
    #[doc(hidden)]
    fn as_source(&self) -> &(dyn Error + 'static);
}

mod sealed {
    pub trait Sealed {}
    impl<E: std::error::Error + 'static> Sealed for E {}
    impl Sealed for super::Boxed {}
}

impl<E: Error + 'static> Source for E {
    fn as_source(&self) -> &(dyn Error + 'static) {
        self
    }
}

/// An error of any type. Made by [`GaveUp::into_boxed`].
///
/// It is no `Error` itself, so that the chain of a `GaveUp<Boxed>` goes on with the error and not with its box.
pub struct Boxed(Box<dyn Error + Send + Sync>);

impl Boxed {
    /// Returns the error.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

impl Source for Boxed {
    fn as_source(&self) -> &(dyn Error + 'static) {
        &*self.0
    }
}

impl fmt::Debug for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
