use std::borrow::Cow;
use std::error::Error;
use std::io;

use super::chain::{error_type, never_sent, told};
use super::told::Told;
use crate::classify::{Classify, Opinion, Over, note_error_type};
use crate::verdict::{Cut, Health, Verdict};

/// A classifier of [`std::io::Error`] by its kind, its sources and the idempotency of the request.
/// The [table](super) gives the reasons.
///
/// The classifier has an opinion on attempts that were cut
/// ([`classify_cut`](Classify::classify_cut)): a request that is not idempotent is not sent again
/// after a timeout. Pass the classifier itself, and for an error type of your own use
/// [`over`](Self::over), because both keep this opinion.
///
/// To treat a kind differently, put your own classifier first: `(mine, Classifier::idempotent())`.
///
/// # Examples
///
/// ```
/// use resile::io::Classifier;
/// use resile::{Classify, RetryPolicy, Verdict};
/// use std::io::ErrorKind;
///
/// let policy = RetryPolicy::new().with_classifier(Classifier::idempotent());
/// # let _ = policy;
/// let booking = Classifier::non_idempotent();
/// let refused = booking.classify(&ErrorKind::ConnectionRefused.into());
/// assert_eq!(refused, Some(Verdict::transient().not_sent()));
/// let reset = booking.classify(&ErrorKind::ConnectionReset.into());
/// assert_eq!(reset, Some(Verdict::transient().not_again()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a classifier does nothing until it is asked"]
pub struct Classifier {
    idempotent: bool,
    place: Option<&'static str>,
}

impl Classifier {
    /// Creates a classifier for requests that may be executed twice.
    pub const fn idempotent() -> Self {
        Self { idempotent: true, place: None }
    }

    /// Creates a classifier for requests that must not be executed twice. A request is only sent
    /// again if it surely [was never sent](never_sent).
    pub const fn non_idempotent() -> Self {
        Self { idempotent: false, place: None }
    }

    /// Sets the [place](Classify::place) that the requests go to, such as `print a receipt`. A second call replaces
    /// the first one.
    ///
    /// The log prints the place before the words of a failure that does not name it: an `io::Error` often names
    /// neither the peer nor the request, and an attempt that was cut has no error at all. So does the error of the
    /// call, but it has the words of an error only in its alternate form (`{:#}`). The place is not part of a
    /// verdict. A pair of classifiers has the place of its first member that knows one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::io::Classifier;
    /// use resile::{Never, RetryPolicy, retry};
    /// use std::io;
    /// use std::time::Duration;
    ///
    /// const PRINT: RetryPolicy<Classifier> = RetryPolicy::new()
    ///     .with_attempt_timeout(Duration::from_secs(2))
    ///     .with_classifier(Classifier::non_idempotent().with_place("print a receipt"));
    ///
    /// # async fn print() -> io::Result<()> { std::future::pending().await }
    /// let gave_up = retry(|_| print(), PRINT, Never).await.unwrap_err();
    /// let end = "(last failure: print a receipt: did not finish within 2s)";
    /// assert!(gave_up.to_string().ends_with(end));
    /// # }
    /// ```
    pub const fn with_place(mut self, place: &'static str) -> Self {
        self.place = Some(place);
        self
    }

    /// Returns whether requests count as idempotent.
    #[must_use]
    pub const fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Returns the verdict on an error of any type, by the `io::Error` in the chain of its sources.
    /// Without one there is no opinion. A request that surely [was never sent](never_sent) gets its
    /// reservation of a quota [back](Verdict::not_sent).
    pub fn verdict(&self, error: &(dyn Error + 'static)) -> Option<Verdict> {
        note_error_type(|| error_type(error).map(Cow::Borrowed));
        let verdict = match told(error)? {
            Told::Refused | Told::Lost | Told::Missing => Verdict::transient(),
            Told::Silent => Verdict::transient().on_cut(),
            Told::UsedUp | Told::NoAddress | Told::Interrupted | Told::Busy => {
                Verdict::transient().with_health(Health::Unknown)
            }
            Told::NoSuchName | Told::Local | Told::Garbled => Verdict::fatal(),
        };
        let verdict = match never_sent(error) {
            true => verdict.not_sent(),
            false if verdict.is_again() && !self.idempotent => verdict.not_again(),
            false => verdict,
        };
        Some(if self.idempotent { verdict.idempotent() } else { verdict })
    }

    /// Returns the verdict on a request that may have reached the upstream, but has no answer.
    pub const fn unanswered(&self) -> Verdict {
        let verdict = Verdict::transient();
        if self.idempotent { verdict.idempotent() } else { verdict.not_again() }
    }

    /// Makes a classifier for an error type of your own. `map` finds the part of the error that this
    /// classifier knows, and asks it. The opinion on cut attempts, the [place](Self::with_place) and the
    /// word of `error.type` remain those of this classifier.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::Classify;
    /// use resile::classify::Cut;
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
    /// assert!(!booking.classify_cut(Cut::Deadline).unwrap().is_again());
    /// # let refused = CallError::Io(io::ErrorKind::ConnectionRefused.into());
    /// # assert!(booking.classify(&refused).unwrap().is_again());
    /// # assert!(booking.classify(&CallError::NoToken).is_none());
    /// ```
    pub const fn over<E, F, V>(self, map: F) -> Over<Self, F>
    where
        E: ?Sized,
        F: Fn(&Self, &E) -> V,
        V: Opinion,
    {
        Over::new(self, self.unanswered(), map).with_place(self.place)
    }
}

/// Has no opinion on kinds that are not in the [table](super).
impl Classify<io::Error> for Classifier {
    fn classify(&self, error: &io::Error) -> Option<Verdict> {
        self.verdict(error)
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered())
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.place.map(Cow::Borrowed)
    }

    /// Returns a word such as `refused`, `connection_lost`, `timeout` or `name_lookup`.
    fn error_type<'e>(&self, error: &'e io::Error) -> Option<Cow<'e, str>> {
        error_type(error).map(Cow::Borrowed)
    }
}
