//! One classification of each error, shared by everything that acts on it.

use std::sync::Arc;

use crate::verdict::{Cut, Verdict};

/// Classifies errors of type `E`.
///
/// A closure classifies: `|e: &MyError| e.is_transient()` where it returns `bool` (true is [`Verdict::transient`], false
/// is [`Verdict::fatal`]), a [`Verdict`], or an `Option<Verdict>`. A pair asks its second where its first has no
/// opinion. A classifier goes by value, in an `Arc`, or as `&dyn Classify<E>`.
///
/// # Examples
///
/// ```
/// use resile::{Classify, Verdict};
/// use std::io;
///
/// let resets = |e: &io::Error| (e.kind() == io::ErrorKind::ConnectionReset).then(Verdict::transient);
/// let busy = |e: &io::Error| (e.kind() == io::ErrorKind::WouldBlock).then(Verdict::throttled);
/// let both = (resets, busy);
///
/// assert_eq!(both.classify(&io::ErrorKind::WouldBlock.into()), Some(Verdict::throttled()));
/// assert_eq!(both.classify(&io::ErrorKind::NotFound.into()), None); // no opinion: the call ends
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not classify errors of type `{E}`",
    note = "a classifier is a closure `|error: &{E}| …` that returns `bool`, `Verdict` or `Option<Verdict>`, with its argument's type spelled out"
)]
pub trait Classify<E: ?Sized> {
    /// Returns the verdict on `error`. `None` is no opinion: the call ends as
    /// [`Unclassified`](crate::StopReason::Unclassified).
    fn classify(&self, error: &E) -> Option<Verdict>;

    /// Returns the verdict on an attempt that was cut before it came to an error of its own. The upstream may have done
    /// all that was asked of it.
    ///
    /// `None`, the default, is no opinion: such an attempt is sent again, and its upstream is failing.
    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        let _ = cut;
        None
    }

    /// Adds the verdict on attempts that were cut: for a closure, which has no opinion on those.
    ///
    /// # Examples
    ///
    /// A booking that timed out may have been made:
    ///
    /// ```
    /// use resile::{Classify, RetryPolicy, Verdict};
    /// use std::io;
    ///
    /// let refused = |e: &io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
    /// let policy = RetryPolicy::new().with_classifier(refused.cut_is(Verdict::transient().not_again()));
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

/// A reference to a closure is a closure, so a reference to any classifier is one only behind `dyn`.
impl<E: ?Sized> Classify<E> for &(dyn Classify<E> + Send + Sync) {
    fn classify(&self, error: &E) -> Option<Verdict> {
        (**self).classify(error)
    }

    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        (**self).classify_cut(cut)
    }
}

/// What a closure that classifies may return: `bool`, [`Verdict`] or `Option<Verdict>`. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no verdict",
    note = "a closure that classifies errors returns `bool` (true may be sent again), `Verdict` or `Option<Verdict>`"
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

/// Classifies every error as [`Verdict::transient`]. The default, right where every failure of an operation passes.
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
