use std::borrow::Cow;
use std::sync::Arc;

use super::word::{note_error_type, noted_by};
use crate::verdict::{Cut, Verdict};

#[cfg_attr(feature = "http", doc = "[`http::Classifier`]: crate::http::Classifier")]
#[cfg_attr(not(feature = "http"), doc = "[`http::Classifier`]: crate#features")]
#[doc = ""]
/// A classifier of errors of type `E`, and of attempts that were cut.
///
/// A closure such as `|e: &MyError| e.is_transient()` is a classifier. It may return a `bool` (true
/// is [`Verdict::transient`], false is [`Verdict::fatal`]), a [`Verdict`] or an `Option<Verdict>`
/// (`None` means no opinion). A pair of classifiers asks the second one if the first one has no
/// opinion. A classifier can be passed by value, in an `Arc` or as `&dyn Classify<E>`.
///
/// # Cut attempts
///
/// A timeout, a deadline or the end of a broken stream cuts an attempt. There is no error then, but
/// the upstream may have executed the whole request, so [`classify_cut`](Self::classify_cut) asks
/// the classifier for its opinion on such an attempt. The opinion is stated, or it is a default:
///
/// | classifier | opinion on a cut | the request is sent again |
/// |---|---|---|
/// | [`http::Classifier`] | stated | if it is idempotent |
/// | [`io::Classifier`](crate::io::Classifier) | stated | if it is idempotent |
/// | `Classifier` of the crate `resile-llm` | stated | yes |
/// | [`Over`](crate::classify::Over), made by `over` of these three | stated | as they say |
/// | [`cut_is(verdict)`](ClassifyExt::cut_is) | stated | as `verdict` says |
/// | [`Always`], a closure that returns `bool` | default | yes: a failure that may pass is the closure's only subject |
/// | a closure that returns `Verdict` or `Option<Verdict>` | default | no |
/// | an implementation of `Classify` without `classify_cut` | default | no |
///
/// A pair asks both members about a cut. A stated "not again" of either member counts, in any
/// order. Otherwise the first stated opinion counts, and then the stricter default. The same holds
/// for an error that tells of a cut, such as
/// [`timeout::Error::Elapsed`](crate::timeout::Error::Elapsed): a member that protects the request
/// counts even if the member before it would send every error again. A call that ends by a default
/// ends as [`Unclassified`](crate::StopReason::Unclassified), and its [`GaveUp`](crate::GaveUp)
/// names [`cut_is`](ClassifyExt::cut_is) as the remedy.
///
/// So a request under `http::Classifier::non_idempotent()` is not repeated after a cut, even if
/// other classifiers or a closure with a `Verdict` stand around it. A closure that returns `bool`
/// is the exception, because its answer is about one error and cannot show which classifier gave
/// it. So never ask a classifier in such a closure, but return its verdict.
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
    note = "let the operation return the error of its client, such as the `Failure` of `resile::http`, and convert the `GaveUp` by `?` behind the call; or a classifier of `resile` or `resile-clients` for the error within `{E}` applies by `.over(|classifier, error: &{E}| …)`, and it keeps the opinion on cut attempts",
    note = "a classifier of `resile-clients` needs the feature of the client, such as `tonic-0_14`; that of `resile-llm` reads the words of such an error by `.over(|llm, error: &{E}| llm.verdict(&Failure::from_error_text(&error.to_string())))`",
    note = "or use a closure `|error: &{E}| …` with its argument type written out, returning `Option<Verdict>`, `Verdict` or `bool`; after a timeout a `bool` sends the request again, so use it for reads only"
)]
pub trait Classify<E: ?Sized> {
    /// Returns the verdict on `error`. Without an opinion (`None`) the call ends as
    /// [`Unclassified`](crate::StopReason::Unclassified).
    fn classify(&self, error: &E) -> Option<Verdict>;

    /// Returns the verdict on an attempt that was cut before it returned an error.
    ///
    /// The upstream may have executed the whole request. So by default the request is not sent
    /// again, and its upstream counts as failing. A pair replaces this default by a stated opinion
    /// of its other member. Every verdict that an implementation returns is stated, unless it comes
    /// from the default of another classifier. `None` has the effect of the default.
    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        let _ = cut;
        Some(CUT)
    }

    /// Returns the type of `error` in one word, such as `503` or `rate_limit`. Logs and spans have it
    /// as `error.type`, so it must have few values.
    ///
    /// The default returns `None`. The type is then the name of the Rust type.
    fn error_type<'e>(&self, error: &'e E) -> Option<Cow<'e, str>> {
        let _ = error;
        None
    }

    /// Returns the place that the request goes to, such as `POST /orders`, if this classifier is made for
    /// one request. The log and the error of the call (`{:#}`) print it before the words of a failure, unless
    /// the words name it: they have its path and its method too. The URL in an error has no method. An attempt
    /// that was cut or dropped has no error, so its words have the place always.
    ///
    /// The default returns `None`.
    fn place(&self) -> Option<Cow<'_, str>> {
        None
    }
}

/// The default for a cut attempt: the request may have been executed.
pub(crate) const CUT: Verdict = Verdict::transient().not_again().cut_default();

/// A method of every [classifier](Classify).
pub trait ClassifyExt: Sized {
    #[cfg_attr(
        feature = "http",
        doc = "[`assume_idempotent`]: crate::http::Classifier::assume_idempotent"
    )]
    #[cfg_attr(not(feature = "http"), doc = "[`assume_idempotent`]: crate#features")]
    #[doc = ""]
    /// States the verdict on attempts that were cut.
    ///
    /// If the classifier itself states that a cut request must not be sent again, that remains.
    /// Only [`assume_idempotent`] of `http::Classifier` lifts such a statement.
    ///
    /// # Examples
    ///
    /// A read may be sent again after a timeout, but a booking that timed out may have been
    /// executed:
    ///
    /// ```
    /// use resile::classify::ClassifyExt;
    /// use resile::{RetryPolicy, Verdict};
    /// use std::io;
    ///
    /// fn busy(e: &io::Error) -> Option<Verdict> {
    ///     (e.kind() == io::ErrorKind::WouldBlock).then(Verdict::throttled)
    /// }
    /// let read = RetryPolicy::new()
    ///     .with_classifier(busy.cut_is(Verdict::transient()));
    /// let booking = RetryPolicy::new()
    ///     .with_classifier(busy.cut_is(Verdict::transient().not_again()));
    /// # let _ = (read, booking);
    /// ```
    fn cut_is(self, verdict: Verdict) -> CutIs<Self> {
        CutIs { classifier: self, verdict: verdict.stated().on_cut() }
    }
}

impl<C> ClassifyExt for C {}

impl<E: ?Sized, F, V> Classify<E> for F
where
    F: Fn(&E) -> V,
    V: Opinion,
{
    #[inline]
    fn classify(&self, error: &E) -> Option<Verdict> {
        self(error).verdict()
    }

    #[inline]
    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(V::CUT)
    }
}

impl<E: ?Sized, A: Classify<E>, B: Classify<E>> Classify<E> for (A, B) {
    #[inline]
    fn classify(&self, error: &E) -> Option<Verdict> {
        let verdict = match self.0.classify(error) {
            Some(first) if !first.is_again() && first.is_stated() => {
                note_error_type(|| word_of_first(self, error));
                first
            }
            // The second one may know that the error tells of a cut.
            Some(first) => self.1.classify(error).map_or(first, |second| first.or(second)),
            None => self.1.classify(error)?,
        };
        // That a request does no harm twice is no matter of the error, so the other member may know it.
        let of_first = Classify::<E>::classify_cut(&self.0, Cut::Deadline).unwrap_or(CUT);
        let of_second = Classify::<E>::classify_cut(&self.1, Cut::Deadline).unwrap_or(CUT);
        Some(verdict.on_request_of(of_first).on_request_of(of_second))
    }

    #[inline]
    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        let on_cut = |verdict: Option<Verdict>| verdict.unwrap_or(CUT).on_cut();
        Some(on_cut(self.0.classify_cut(cut)).or(on_cut(self.1.classify_cut(cut))))
    }

    fn error_type<'e>(&self, error: &'e E) -> Option<Cow<'e, str>> {
        self.0.error_type(error).or_else(|| self.1.error_type(error))
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.0.place().or_else(|| self.1.place())
    }
}

/// Returns the word for an error that the first member of a pair ends: the one that this member notes, or else
/// that of the pair, whose second member is not asked for a verdict.
fn word_of_first<'e, E: ?Sized, A: Classify<E>, B: Classify<E>>(
    pair: &(A, B),
    error: &'e E,
) -> Option<Cow<'e, str>> {
    let noted = noted_by(|| _ = pair.0.classify(error));
    noted.map(Cow::Owned).or_else(|| pair.error_type(error))
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

    fn error_type<'e>(&self, error: &'e E) -> Option<Cow<'e, str>> {
        (**self).error_type(error)
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        (**self).place()
    }
}

/// Implements the trait for references to `dyn Classify` only. A reference to a closure is itself a
/// closure, so an implementation for every `&C` would overlap with the one for closures.
macro_rules! references {
    ($($object:ty),*) => {$(
        impl<E: ?Sized> Classify<E> for &$object {
            fn classify(&self, error: &E) -> Option<Verdict> {
                (**self).classify(error)
            }

            fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
                (**self).classify_cut(cut)
            }

            fn error_type<'e>(&self, error: &'e E) -> Option<Cow<'e, str>> {
                (**self).error_type(error)
            }

            fn place(&self) -> Option<Cow<'_, str>> {
                (**self).place()
            }
        }
    )*};
}

references!(
    (dyn Classify<E> + '_),
    (dyn Classify<E> + Send + '_),
    (dyn Classify<E> + Sync + '_),
    (dyn Classify<E> + Send + Sync + '_)
);

/// A return type of classifying closures: `bool`, [`Verdict`] or `Option<Verdict>`. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a verdict: return `bool`, `Verdict` or `Option<Verdict>`",
    note = "`true` means that the same request may be sent again"
)]
pub trait Opinion: sealed::Sealed {
    /// The default for a cut attempt.
    #[doc(hidden)]
    const CUT: Verdict;

    #[doc(hidden)]
    fn verdict(self) -> Option<Verdict>;
}

impl Opinion for bool {
    const CUT: Verdict = Verdict::transient().cut_default();

    #[inline]
    fn verdict(self) -> Option<Verdict> {
        Some(if self { Verdict::transient() } else { Verdict::fatal() })
    }
}

impl Opinion for Verdict {
    const CUT: Verdict = CUT;

    #[inline]
    fn verdict(self) -> Option<Verdict> {
        Some(self)
    }
}

impl Opinion for Option<Verdict> {
    const CUT: Verdict = CUT;

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

/// A classifier that returns [`Verdict::transient`] for every error. It is the default, and it is
/// right only if every failure of the operation is temporary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Always;

impl<E: ?Sized> Classify<E> for Always {
    #[inline]
    fn classify(&self, _: &E) -> Option<Verdict> {
        Some(Verdict::transient().by_default())
    }

    #[inline]
    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(Verdict::transient().by_default().cut_default())
    }
}

/// A classifier with a verdict on attempts that were cut. Made by [`ClassifyExt::cut_is`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutIs<C> {
    classifier: C,
    verdict: Verdict,
}

impl<C> CutIs<C> {
    /// Returns the verdict on a cut of which the inner classifier has the opinion `inner`.
    #[inline]
    fn over(&self, inner: Option<Verdict>) -> Verdict {
        match inner {
            Some(inner) if inner.is_stated() && !inner.is_again() => inner,
            _ => self.verdict,
        }
    }
}

impl<E: ?Sized, C: Classify<E>> Classify<E> for CutIs<C> {
    #[inline]
    fn classify(&self, error: &E) -> Option<Verdict> {
        match self.classifier.classify(error) {
            // An error that tells of a cut, such as `timeout::Error::Elapsed`.
            Some(inner) if inner.is_on_cut() => Some(self.over(Some(inner))),
            inner => inner,
        }
    }

    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        Some(self.over(self.classifier.classify_cut(cut)))
    }

    fn error_type<'e>(&self, error: &'e E) -> Option<Cow<'e, str>> {
        self.classifier.error_type(error)
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.classifier.place()
    }
}
