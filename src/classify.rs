//! Classification of errors, shared by all parts of a call.

use std::sync::Arc;

use crate::verdict::{Cut, Verdict};

/// A classifier of errors of type `E`.
///
/// A closure such as `|e: &MyError| e.is_transient()` is a classifier. It may return a `bool` (true
/// is [`Verdict::transient`], false is [`Verdict::fatal`]), a [`Verdict`] or an `Option<Verdict>`
/// (`None` is no opinion). A pair of classifiers asks the second one if the first one has no
/// opinion. A classifier can be passed by value, in an `Arc` or as `&dyn Classify<E>`.
///
/// # Examples
///
/// ```
/// use resile::{Classify, Verdict};
/// use std::io;
///
/// let resets = |e: &io::Error| {
///     (e.kind() == io::ErrorKind::ConnectionReset).then(Verdict::transient)
/// };
/// let busy = |e: &io::Error| {
///     (e.kind() == io::ErrorKind::WouldBlock).then(Verdict::throttled)
/// };
/// let both = (resets, busy);
///
/// let verdict = both.classify(&io::ErrorKind::WouldBlock.into());
/// assert_eq!(verdict, Some(Verdict::throttled()));
/// let verdict = both.classify(&io::ErrorKind::NotFound.into());
/// assert_eq!(verdict, None); // no opinion: the call ends
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot classify errors of type `{E}`",
    note = "use a closure `|error: &{E}| …` with its argument type written out, returning `bool`, `Verdict` or `Option<Verdict>`"
)]
pub trait Classify<E: ?Sized> {
    /// Returns the verdict on `error`. Without an opinion (`None`) the call ends as
    /// [`Unclassified`](crate::StopReason::Unclassified).
    fn classify(&self, error: &E) -> Option<Verdict>;

    /// Returns the verdict on an attempt that was cut before it returned an error.
    ///
    /// The upstream may have executed the whole request. The default returns `None` for no opinion.
    /// The attempt is then repeated and its upstream counts as failing.
    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        let _ = cut;
        None
    }

    /// Adds a verdict on attempts that were cut. A closure alone has no opinion on such attempts.
    ///
    /// # Examples
    ///
    /// A booking that timed out may have been executed:
    ///
    /// ```
    /// use resile::{Classify, RetryPolicy, Verdict};
    /// use std::io;
    ///
    /// let refused = |e: &io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
    /// let classifier = refused.cut_is(Verdict::transient().not_again());
    /// let policy = RetryPolicy::new().with_classifier(classifier);
    /// # let _ = policy;
    /// ```
    fn cut_is(self, verdict: Verdict) -> CutIs<Self>
    where
        Self: Sized,
    {
        CutIs { classifier: self, verdict }
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

impl<E: ?Sized, A: Classify<E>, B: Classify<E>> Classify<E> for (A, B) {
    #[inline]
    fn classify(&self, error: &E) -> Option<Verdict> {
        self.0.classify(error).or_else(|| self.1.classify(error))
    }

    #[inline]
    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        self.0.classify_cut(cut).or_else(|| self.1.classify_cut(cut))
    }
}

impl<E: ?Sized, C: Classify<E> + ?Sized> Classify<E> for Arc<C> {
    #[inline]
    fn classify(&self, error: &E) -> Option<Verdict> {
        (**self).classify(error)
    }

    #[inline]
    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        (**self).classify_cut(cut)
    }
}

/// This implementation covers references to `dyn Classify` only. A reference to a closure is itself
/// a closure. An implementation for every `&C` would overlap with the one for closures.
impl<E: ?Sized> Classify<E> for &(dyn Classify<E> + Send + Sync) {
    fn classify(&self, error: &E) -> Option<Verdict> {
        (**self).classify(error)
    }

    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        (**self).classify_cut(cut)
    }
}

/// A return type of classifying closures: `bool`, [`Verdict`] or `Option<Verdict>`. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a verdict: return `bool`, `Verdict` or `Option<Verdict>`",
    note = "`true` means that the same request may be sent again"
)]
pub trait Opinion: sealed::Sealed {
    #[doc(hidden)]
    fn verdict(self) -> Option<Verdict>;
}

impl Opinion for bool {
    #[inline]
    fn verdict(self) -> Option<Verdict> {
        Some(if self { Verdict::transient() } else { Verdict::fatal() })
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

/// A classifier that returns [`Verdict::transient`] for every error. This is the default. Use it if
/// every failure of the operation is temporary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Always;

impl<E: ?Sized> Classify<E> for Always {
    #[inline]
    fn classify(&self, _: &E) -> Option<Verdict> {
        Some(Verdict::transient())
    }
}

/// A classifier with a verdict on attempts that were cut. Made by [`Classify::cut_is`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutIs<C> {
    classifier: C,
    verdict: Verdict,
}

impl<E: ?Sized, C: Classify<E>> Classify<E> for CutIs<C> {
    #[inline]
    fn classify(&self, error: &E) -> Option<Verdict> {
        self.classifier.classify(error)
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.verdict)
    }
}
