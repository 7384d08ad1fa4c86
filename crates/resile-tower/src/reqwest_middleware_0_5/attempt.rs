use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Next};
use resile::classify::Cut;
use resile::http::{Classifier, Failure, StatusError};
use resile::{Classify, Verdict};

use super::inner::{bare, judged};
use super::place::Place;
use crate::foreign::{Foreign, Site};
use crate::http::judge::judged_answer;
use crate::judge::{Judged, is_failure};
use crate::{BoxError, Failed};

/// A function that judges answers.
pub(super) type Answers = Arc<dyn Fn(&Response) -> Option<Verdict> + Send + Sync>;

/// The rule for one request.
pub(super) struct Rule {
    pub(super) classifier: Classifier,
    pub(super) answers: Option<Answers>,
    pub(super) place: Place,
    /// True if the body of the request is a stream, and the policy allows another attempt.
    pub(super) is_once: bool,
    /// The place where the middleware was made.
    pub(super) site: Site,
}

impl Rule {
    /// Makes one attempt and judges its outcome.
    pub(super) async fn attempt(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Failed<Response>> {
        let (judged, place, answer) = match next.run(request, extensions).await {
            Ok(answer) => match self.answer(&answer) {
                None => return Ok(answer),
                Some(judged) => (judged, self.place.to_string(), Some(answer)),
            },
            Err(error) => {
                let error = bare(error);
                let place = self.place_of(&error);
                (self.error(error), place, None)
            }
        };
        let is_again = judged.verdict.is_some_and(|verdict| verdict.is_again());
        let why = (is_again && self.is_once).then_some(Cow::Borrowed("its body is a stream"));
        Err(Failed::new(answer, judged).at(Some(place)).once(why))
    }

    /// Returns the failure that an answer is, by the function or by its status.
    fn answer(&self, answer: &Response) -> Option<Judged> {
        let (status, headers) = (answer.status(), answer.headers());
        let by_status = judged_answer(self.classifier, status, headers);
        let Some(verdict) = self.answers.as_ref().and_then(|answers| answers(answer)) else {
            return by_status;
        };
        // That a request does no harm twice is no matter of the answer.
        let is_idempotent = self.classifier.is_idempotent();
        let verdict = if is_idempotent { verdict.idempotent() } else { verdict };
        is_failure(verdict).then(|| {
            let error: BoxError = match StatusError::check(status, headers) {
                Err(refused) => refused.into(),
                Ok(()) => BadAnswer(status).into(),
            };
            let word = Cow::Owned(status.as_str().to_owned());
            Judged::new(error, Some(verdict), Some(word))
        })
    }

    /// Returns the place of an attempt with this error. An error of `reqwest` has the URL itself.
    fn place_of(&self, error: &Error) -> String {
        match error {
            Error::Reqwest(error) if error.url().is_some() => self.place.method().to_string(),
            _ => self.place.to_string(),
        }
    }

    fn error(&self, error: Error) -> Judged {
        match error {
            Error::Middleware(_) => {
                if let Some(foreign) = Foreign::below(&error) {
                    foreign.warn(self.site);
                }
                judged(self.classifier, error)
            }
            Error::Reqwest(error) => {
                // It leaves out what a URL may have of secrets.
                let failure = Failure::from(error);
                let error_type = self.classifier.error_type(&failure);
                let error_type = error_type.map(|word| Cow::Owned(word.into_owned()));
                let verdict = self.classifier.classify(&failure);
                Judged::new(failure.into(), verdict, error_type)
            }
        }
    }
}

/// The words on an answer that only a function takes for a failure.
#[derive(Debug)]
struct BadAnswer(StatusCode);

impl fmt::Display for BadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} counts as a failure", self.0)
    }
}

impl StdError for BadAnswer {}

/// Each failure was judged in its attempt.
impl Classify<Failed<Response>> for &Rule {
    fn classify(&self, failed: &Failed<Response>) -> Option<Verdict> {
        let verdict = failed.verdict()?;
        Some(if self.classifier.unanswered().is_keyed() { verdict.keyed() } else { verdict })
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        let verdict = self.classifier.unanswered();
        Some(if self.is_once { verdict.not_repeatable() } else { verdict })
    }

    fn error_type<'e>(&self, failed: &'e Failed<Response>) -> Option<Cow<'e, str>> {
        failed.error_type()
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Owned(self.place.to_string()))
    }
}
