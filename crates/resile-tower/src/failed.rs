use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use resile::Verdict;

use crate::BoxError;
use crate::judge::Judged;

/// The failure of one attempt: an error of the service, or an answer that counts as a failure.
///
/// A caller of a layer does not get it: an answer comes back as `Ok`, and an error is the source of
/// the [`GaveUp`](resile::GaveUp). An observer can find it by
/// [`AttemptFailure::source`](resile::observe::AttemptFailure::source).
///
/// `Display` writes the words of the error, or those of the judge on the answer or on an error of the transport of
/// gRPC. A request of HTTP has its
/// method and its path before them, and one of gRPC its path. If the request could not be made again, the
/// reason follows. The source is that of the error.
pub struct Failed<T> {
    answer: Option<T>,
    /// The error, or the words on the answer.
    error: BoxError,
    verdict: Option<Verdict>,
    error_type: Option<Cow<'static, str>>,
    /// The words of the judge on the error and its sources.
    words: Option<String>,
    /// The place that the request went to.
    place: Option<String>,
    /// The reason for which the request cannot be made again.
    once: Option<Cow<'static, str>>,
}

impl<T> Failed<T> {
    pub(crate) fn new(answer: Option<T>, judged: Judged) -> Self {
        let Judged { error, verdict, error_type, words } = judged;
        Self { answer, error, verdict, error_type, words, place: None, once: None }
    }

    /// Adds the place that the request went to.
    pub(crate) fn at(mut self, place: Option<String>) -> Self {
        self.place = place;
        self
    }

    /// Adds that the request cannot be made again, and why.
    pub(crate) fn once(mut self, why: Option<Cow<'static, str>>) -> Self {
        if why.is_some() {
            self.verdict = self.verdict.map(Verdict::not_repeatable);
            self.once = why;
        }
        self
    }

    /// Returns the answer that counts as a failure. `None` means that the service returned an error.
    #[must_use]
    pub const fn answer(&self) -> Option<&T> {
        self.answer.as_ref()
    }

    /// Returns what the judge said. `None` means no opinion.
    #[must_use]
    pub const fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    pub(crate) fn error_type(&self) -> Option<Cow<'_, str>> {
        self.error_type.as_deref().map(Cow::Borrowed)
    }

    /// Returns the answer, and the error alone. The error says why the request could not be made
    /// again, if that is so. The words of the judge come before the error that has other ones.
    pub(crate) fn split(self) -> (Option<T>, BoxError, Option<BoxError>) {
        let Self { answer, error, verdict, error_type, words, once, .. } = self;
        if once.is_some() {
            let (none, place) = (None::<()>, None);
            let failed = Failed { answer: none, error, verdict, error_type, words, place, once };
            return (answer, failed.into(), None);
        }
        match words {
            Some(words) => (answer, words.into(), Some(error)),
            None => (answer, error, None),
        }
    }
}

/// An attempt has no request, because an attempt before it took the last one and panicked.
#[derive(Debug)]
pub(crate) struct NoRequest;

impl fmt::Display for NoRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request of an attempt that panicked cannot be made again")
    }
}

impl Error for NoRequest {}

impl<T> fmt::Display for Failed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        match &self.words {
            Some(words) => f.write_str(words)?,
            // Passes the alternate form on, which leaves out what the verdict has.
            None => self.error.fmt(f)?,
        }
        match &self.once {
            Some(why) => write!(f, " (sent once: {why})"),
            None => Ok(()),
        }
    }
}

impl<T> fmt::Debug for Failed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Failed");
        fields.field("is_answer", &self.answer.is_some());
        fields.field("error", &self.error);
        fields.field("verdict", &self.verdict);
        if let Some(why) = &self.once {
            fields.field("once", why);
        }
        fields.finish_non_exhaustive()
    }
}

impl<T> Error for Failed<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
