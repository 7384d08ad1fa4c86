use std::borrow::Cow;
use std::fmt;

use super::word::noted_by;
use super::{Classify, Opinion};
use crate::verdict::{Cut, Verdict};

#[cfg_attr(feature = "http", doc = "[`http::Classifier`]: crate::http::Classifier::over")]
#[cfg_attr(not(feature = "http"), doc = "[`http::Classifier`]: crate#features")]
#[cfg_attr(feature = "http", doc = "[`with_place`]: crate::http::Classifier::with_place")]
#[cfg_attr(not(feature = "http"), doc = "[`with_place`]: crate#features")]
#[doc = ""]
/// A classifier of an error type of your own. It asks a ready-made classifier about the parts of
/// the error and keeps the opinion of that classifier on cut attempts, and the place of
/// [`with_place`]. Made by `over` of
/// [`http::Classifier`], of [`io::Classifier`](crate::io::Classifier::over) and of the classifiers
/// of other crates.
///
/// # The type of the error
///
/// [`error_type`](Classify::error_type) returns the word of the part that the closure asks about. For this
/// it runs the closure once more, and the last part with a word counts. A closure that asks about no part
/// has no word. To give such an error a word, put a classifier with words of its own before this one.
///
/// ```
/// use resile::Classify;
/// use resile::io::Classifier;
/// use std::io;
///
/// enum CallError {
///     Io(io::Error),
///     NoToken,
/// }
///
/// let booking = Classifier::non_idempotent()
///     .over(|io, error: &CallError| match error {
///         CallError::Io(error) => io.verdict(error),
///         CallError::NoToken => None,
///     });
/// let refused = CallError::Io(io::ErrorKind::ConnectionRefused.into());
/// assert_eq!(booking.error_type(&refused).as_deref(), Some("refused"));
/// assert_eq!(booking.error_type(&CallError::NoToken), None);
/// ```
#[derive(Clone, Copy)]
#[must_use = "a classifier does nothing until it is asked"]
pub struct Over<C, F> {
    classifier: C,
    map: F,
    /// The opinion of `classifier` on a cut.
    cut: Verdict,
    /// The place that `classifier` knows.
    place: Option<&'static str>,
}

impl<C, F> Over<C, F> {
    /// Creates the classifier. `cut` is the opinion of `classifier` on an attempt that was cut.
    /// Call this in the `over` of a classifier that you publish, and others call that `over`. Its words for
    /// `error.type` come along if it calls [`note_error_type`](super::note_error_type).
    pub const fn new(classifier: C, cut: Verdict, map: F) -> Self {
        Self { classifier, map, cut: cut.stated().on_cut(), place: None }
    }

    /// Sets the [place](Classify::place) that `classifier` knows. Call this in the `over` of a classifier
    /// that you publish if it has a place.
    pub const fn with_place(mut self, place: Option<&'static str>) -> Self {
        self.place = place;
        self
    }
}

impl<C: fmt::Debug, F> fmt::Debug for Over<C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Over").field("classifier", &self.classifier).finish_non_exhaustive()
    }
}

impl<E: ?Sized, C, F, V> Classify<E> for Over<C, F>
where
    F: Fn(&C, &E) -> V,
    V: Opinion,
{
    #[inline]
    fn classify(&self, error: &E) -> Option<Verdict> {
        (self.map)(&self.classifier, error).verdict()
    }

    #[inline]
    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.cut)
    }

    fn error_type<'e>(&self, error: &'e E) -> Option<Cow<'e, str>> {
        let ask = || drop((self.map)(&self.classifier, error));
        noted_by(ask).map(Cow::Owned)
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.place.map(Cow::Borrowed)
    }
}
