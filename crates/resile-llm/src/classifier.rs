use std::borrow::Cow;
use std::error::Error;
use std::time::Duration;

use crate::failure::Failure;
use crate::kind::Kind;
use crate::known::{Known, is_partial, may_have_effect};
use crate::report;
use resile::classify::{Cut, Opinion, Over, note_error_type};
use resile::{Classify, Verdict};

/// Classifies errors that are a [`Failure`] or have a known error among their sources.
///
/// The classifier follows the error's chain of sources to the first known error: a `Failure`, an
/// [`Elapsed`](resile::timeout::Elapsed), an [`io::Error`](std::io::Error) or an error of `reqwest`. So your own error type only has to name
/// its source. With `thiserror` use `#[from]` or `#[source]`. The attribute
/// `#[error(transparent)]` hides the source.
///
/// Without a known error there is no opinion and the call ends as
/// [`Unclassified`](resile::StopReason::Unclassified). Add your own classifier for such errors:
/// `(Classifier::new(), mine)`. [`timeout::Error<Failure>`](resile::timeout::Error) is known. For
/// `anyhow::Error` use `Classifier::new().over(|llm, e: &anyhow::Error| llm.classify_dyn(e.as_ref()))`.
#[cfg_attr(
    all(feature = "reqwest", feature = "stream"),
    doc = "The [guide](crate::guide::sdks) has classifiers for the errors of SDKs."
)]
///
/// A question to a model may be asked again, so an attempt that was cut is repeated. A call that has left
/// its consumer with a [part of an answer](resile::GaveUp::is_partial) is not, because a second answer would
/// stand behind that part. This holds for a `GaveUp<Failure>`, also in another error. In the `GaveUp` of an
/// error type of your own ask `is_partial` first.
///
/// This is a classifier for a retry: its verdict is about the same model. In a
/// [`FallbackPolicy`](resile::FallbackPolicy) "again" means another alternative. So this classifier would stop
/// the fallback at an empty account or a wrong key, which the next model does not have. Give the fallback
/// [`another_model`](crate::another_model).
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | overload floor | 2 s | quick retries keep an overloaded provider overloaded. The floor is a [floor](Verdict::at_least) of the verdict, and counts only if the provider asked for no wait |
/// | text | not read | words may quote an answer that this call did not get, and a wrong guess repeats the call: see [`with_text`](Self::with_text) |
///
/// # Examples
///
/// ```
/// use resile_llm::Failure;
/// use resile::{Classify, RetryPolicy};
///
/// #[derive(Debug, thiserror::Error)]
/// enum MyError {
///     #[error("the model failed")]
///     Llm(#[from] Failure),
///     #[error("no such prompt")]
///     Prompt,
/// }
///
/// let policy = RetryPolicy::new().with_classifier(resile_llm::Classifier::new());
/// let refused = Failure::from_text(401, "Incorrect API key provided");
/// let verdict = policy.classifier().classify(&MyError::from(refused)).unwrap();
/// assert!(!verdict.is_again());
/// assert_eq!(policy.classifier().classify(&MyError::Prompt), None); // no opinion
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a classifier does nothing until it classifies an error"]
pub struct Classifier {
    overload_floor: Option<Duration>,
    reads_text: bool,
}

impl Default for Classifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Classifier {
    /// Creates a classifier with the defaults.
    pub const fn new() -> Self {
        Self { overload_floor: Some(Duration::from_secs(2)), reads_text: false }
    }

    /// Sets the shortest wait after [`Kind::Overloaded`] for a provider without a hint. A floor
    /// above the policy's hint cap ends the call.
    pub const fn with_overload_floor(mut self, floor: Duration) -> Self {
        self.overload_floor = Some(floor);
        self
    }

    /// Leaves the wait after [`Kind::Overloaded`] to the policy's backoff if the provider gives no
    /// hint.
    pub const fn without_overload_floor(mut self) -> Self {
        self.overload_floor = None;
        self
    }

    /// Returns the shortest wait after [`Kind::Overloaded`] if one is set.
    #[must_use]
    pub const fn overload_floor(&self) -> Option<Duration> {
        self.overload_floor
    }

    /// Reads the words of the errors if no error in the chain of sources is known. This is the last
    /// resort for libraries that turn the answer into text, and for `Box<dyn Error>` of an unknown
    /// origin. [`Failure::find_in_text`] has the rules. Without a status or a known code in the words
    /// there is still no opinion.
    ///
    /// # When not
    ///
    /// Do not use it for a request that must not be sent twice. Words may quote a passing failure
    /// that this call did not have, and the call would then be repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_llm::Classifier;
    /// use std::error::Error;
    ///
    /// let classifier = Classifier::new().with_text();
    /// let busy: Box<dyn Error> = "the model failed: HTTP 503".into();
    /// assert!(classifier.classify_dyn(&*busy).unwrap().is_again());
    /// assert_eq!(Classifier::new().classify_dyn(&*busy), None);
    ///
    /// let other: Box<dyn Error> = "no such prompt".into();
    /// assert_eq!(classifier.classify_dyn(&*other), None); // no opinion
    /// ```
    pub const fn with_text(mut self) -> Self {
        self.reads_text = true;
        self
    }

    /// Makes a classifier for an error type of your own, such as that of an SDK. `map` finds the
    /// failure in the error, and asks this classifier. A closure alone has no opinion on cut
    /// attempts, so it does not repeat them. This classifier repeats them. The word of `error.type` is that
    /// of the failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_llm::{Classifier, Failure};
    /// use resile::classify::Cut;
    /// use resile::Classify;
    ///
    /// /// The error of an SDK.
    /// struct SdkError {
    ///     status: u16,
    ///     body: String,
    /// }
    ///
    /// let classifier = Classifier::new().over(|llm, error: &SdkError| {
    ///     llm.verdict(&Failure::from_text(error.status, &error.body))
    /// });
    /// let busy = SdkError { status: 529, body: "overloaded".into() };
    /// assert!(classifier.classify(&busy).unwrap().is_again());
    /// assert!(classifier.classify_cut(Cut::Deadline).unwrap().is_again());
    /// ```
    pub const fn over<E, F, V>(self, map: F) -> Over<Self, F>
    where
        E: ?Sized,
        F: Fn(&Self, &E) -> V,
        V: Opinion,
    {
        Over::new(self, CUT, map)
    }

    /// Returns the verdict on a failure.
    pub fn verdict(&self, failure: &Failure) -> Verdict {
        self.floored(failure, failure.verdict())
    }

    /// Adds the overload floor to a verdict on a failure.
    fn floored(&self, failure: &Failure, verdict: Verdict) -> Verdict {
        note_error_type(|| Some(Cow::Borrowed(failure.kind().as_str())));
        match self.overload_floor {
            Some(floor)
                if failure.kind() == Kind::Overloaded
                    && verdict.is_again()
                    && verdict.wait().is_none() =>
            {
                verdict.at_least(floor)
            }
            _ => verdict,
        }
    }

    /// Returns the verdict on an error of any type. The first known error in its chain of sources
    /// decides. Without one the words count if [`with_text`](Self::with_text) was called. A call in the chain
    /// that has shown a part of an answer is not made again, whatever its failure.
    #[must_use]
    pub fn classify_dyn(&self, error: &(dyn Error + 'static)) -> Option<Verdict> {
        let verdict = |known| match known {
            // The last failure says nothing of the requests before.
            Known::Failure(failure) if may_have_effect(error) => {
                self.floored(failure, failure.answers())
            }
            Known::Failure(failure) => self.verdict(failure),
            Known::Elapsed(_) => {
                note_error_type(|| Some(Cow::Borrowed(Kind::Timeout.as_str())));
                CUT.on_cut()
            }
            Known::Transport(found) => self.verdict(&Failure::found_in(error, found)),
        };
        let in_words = || report::find_in_words(error).map(|failure| self.verdict(&failure));
        let known = Known::first(error).map(verdict);
        let verdict = known.or_else(|| if self.reads_text { in_words() } else { None });
        if is_partial(error) { Some(verdict.unwrap_or(CUT).not_again()) } else { verdict }
    }
}

/// The verdict on a cut attempt. A question to a model may be asked again.
const CUT: Verdict = Verdict::transient();

// Otherwise the compiler names `Error`, which cannot be implemented for `anyhow::Error`.
#[diagnostic::do_not_recommend]
impl<E: Error + 'static> Classify<E> for Classifier {
    fn classify(&self, error: &E) -> Option<Verdict> {
        self.classify_dyn(error)
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(CUT)
    }

    /// Returns the word of the [kind](Kind::as_str), such as `rate_limit`.
    fn error_type<'e>(&self, error: &'e E) -> Option<Cow<'e, str>> {
        Some(Cow::Borrowed(match Known::first(error)? {
            Known::Failure(failure) => failure.kind().as_str(),
            Known::Elapsed(_) => Kind::Timeout.as_str(),
            Known::Transport(error) => Failure::from_transport(error).kind().as_str(),
        }))
    }
}
