use std::error::Error;
use std::io;
use std::time::Duration;

use super::failure::Failure;
use super::kind::Kind;
use super::transport;
use crate::bulkhead::Full;
use crate::classify::Classify;
use crate::error::ClassifyOperation;
use crate::timeout::Elapsed;
use crate::verdict::{Health, Verdict};

/// Classifies errors that are, or come from, a [`Failure`].
///
/// It follows the error's chain of sources to the first `Failure`, [`Elapsed`] or [`io::Error`], so that an error type
/// of one's own needs only say where it comes from (`#[from]` or `#[source]` with `thiserror`; not
/// `#[error(transparent)]`, which hides it). It has no opinion where there is none of them, and the
/// call then ends as [`Unclassified`](crate::StopReason::Unclassified): put your own beside it, `(Classifier::new(), mine)`.
/// It knows [`resile::Error<Failure>`](crate::Error); for `anyhow::Error` say
/// `|e: &anyhow::Error| Classifier::new().classify_dyn(e.as_ref())`.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | overload floor | 2 s | who retries an overloaded provider as fast as one that stumbled keeps it so; counts as a hint, and only where the provider gave none |
///
/// # Examples
///
/// ```
/// use resile::llm::{self, Failure};
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
/// let policy = RetryPolicy::new().with_classifier(llm::Classifier::new());
/// let refused = MyError::from(Failure::from_text(401, "Incorrect API key provided"));
/// assert!(!policy.classifier().classify(&refused).unwrap().is_again());
/// assert_eq!(policy.classifier().classify(&MyError::Prompt), None); // no opinion
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a classifier does nothing until it is asked"]
pub struct Classifier {
    overload_floor: Option<Duration>,
}

impl Default for Classifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Classifier {
    /// With the defaults.
    pub const fn new() -> Self {
        Self { overload_floor: Some(Duration::from_secs(2)) }
    }

    /// The shortest wait after [`Kind::Overloaded`] where the provider asks for none.
    pub const fn with_overload_floor(mut self, floor: Duration) -> Self {
        self.overload_floor = Some(floor);
        self
    }

    /// After [`Kind::Overloaded`] the policy's backoff alone decides.
    pub const fn without_overload_floor(mut self) -> Self {
        self.overload_floor = None;
        self
    }

    /// The shortest wait after [`Kind::Overloaded`].
    #[must_use]
    pub const fn overload_floor(&self) -> Option<Duration> {
        self.overload_floor
    }

    /// Returns the verdict on a failure.
    pub fn verdict(&self, failure: &Failure) -> Verdict {
        let verdict = failure.verdict();
        match self.overload_floor {
            Some(floor)
                if failure.kind() == Kind::Overloaded
                    && verdict.is_again()
                    && verdict.hint().is_none() =>
            {
                verdict.after(floor)
            }
            _ => verdict,
        }
    }

    /// Returns the verdict on an error of any type, by the first of its sources that says something.
    #[must_use]
    pub fn classify_dyn(&self, error: &(dyn Error + 'static)) -> Option<Verdict> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(failure) = error.downcast_ref::<Failure>() {
                return Some(self.verdict(failure));
            }
            // It is transparent, so its chain would pass over the failure.
            if let Some(union) = error.downcast_ref::<crate::error::Error<Failure>>() {
                return ClassifyOperation(*self).classify(union);
            }
            if error.is::<Elapsed>() {
                return Some(Verdict::transient());
            }
            if error.is::<Full>() {
                return Some(Verdict::transient().with_health(Health::Unknown));
            }
            if error.is::<io::Error>() || transport::is_known(error) {
                return Some(self.verdict(&Failure::from_transport(error)));
            }
            next = error.source();
        }
        None
    }
}

impl<E: Error + 'static> Classify<E> for Classifier {
    fn classify(&self, error: &E) -> Option<Verdict> {
        self.classify_dyn(error)
    }
}
