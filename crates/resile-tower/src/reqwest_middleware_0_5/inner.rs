use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use reqwest_middleware::Error;
use resile::error::Boxed;
use resile::http::{Classifier, Failure};
use resile::{Classify, GaveUp, Health, Verdict, io};

use super::place::strip;
use crate::BoxError;
use crate::below::{in_middleware, links};
use crate::judge::Judged;

/// Returns the error of `reqwest` if a middleware has made it an error of its own without other words.
pub(super) fn bare(mut error: Error) -> Error {
    while let Error::Middleware(outer) = error {
        if (*outer).is::<reqwest::Error>() {
            return outer.downcast().map_or_else(Error::Middleware, Error::Reqwest);
        }
        if !(*outer).is::<Error>() {
            return Error::Middleware(outer);
        }
        match outer.downcast() {
            Ok(inner) => error = inner,
            Err(outer) => return Error::Middleware(outer),
        }
    }
    error
}

/// Judges the error of a middleware below by what it has among its sources.
pub(super) fn judged(classifier: Classifier, mut error: Error) -> Judged {
    if let Error::Middleware(outer) = &mut error {
        // It may have added words to an error of `reqwest`.
        if let Some(url) = outer.downcast_mut().and_then(reqwest::Error::url_mut) {
            strip(url);
        }
        if let Some(url) = outer.downcast_mut().and_then(Error::url_mut) {
            strip(url);
        }
    }
    let known = links(&error).find_map(|link| known(classifier, link));
    let (verdict, word, error) = match known {
        Some((verdict, word)) => (verdict, word, boxed(error)),
        None => (
            Some(own(classifier, in_middleware(&error))),
            Cow::Borrowed("middleware"),
            Own(error).into(),
        ),
    };
    Judged::new(error, verdict, Some(word))
}

/// Returns the verdict on an error of an attempt and its word, or `None` for any other error.
fn known(
    classifier: Classifier,
    link: &(dyn StdError + 'static),
) -> Option<(Option<Verdict>, Cow<'static, str>)> {
    fn of<E>(classifier: Classifier, error: &E) -> (Option<Verdict>, Cow<'static, str>)
    where
        Classifier: Classify<E>,
    {
        let word = classifier.error_type(error).map(Cow::into_owned);
        (classifier.classify(error), word.map_or(Cow::Borrowed("no_answer"), Cow::Owned))
    }
    if let Some(below) = link.downcast_ref::<GaveUp<Boxed>>() {
        return Some((below.verdict(), Cow::Borrowed(below.reason().as_str())));
    }
    if let Some(failure) = link.downcast_ref::<Failure>() {
        return Some(of(classifier, failure));
    }
    link.downcast_ref::<reqwest::Error>().map(|error| of(classifier, error))
}

/// Returns the verdict on an error that a middleware made itself. It says nothing of the upstream. An
/// `io::Error` says whether a repetition helps.
///
/// The error may come before the request or after its answer. So it counts as a cut attempt: a request that
/// is not idempotent is in doubt and is not sent again, also if the `io::Error` is a refused connection.
fn own(classifier: Classifier, error: &(dyn StdError + 'static)) -> Verdict {
    let verdict = classifier.unanswered().with_health(Health::Unknown).on_cut();
    let io = io::Classifier::idempotent().verdict(error);
    let helps = io::never_sent(error) || io.is_some_and(|verdict| verdict.is_again());
    if helps { verdict } else { verdict.not_again() }
}

/// Returns the error, and the end of a call of this crate as such.
fn boxed(error: Error) -> BoxError {
    match error {
        Error::Middleware(outer) if (*outer).is::<GaveUp<Boxed>>() => {
            outer.downcast::<GaveUp<Boxed>>().map_or_else(Into::into, Into::into)
        }
        error => error.into(),
    }
}

/// An error that a middleware made itself. Its source is that error.
#[derive(Debug)]
struct Own(Error);

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a middleware failed")
    }
}

impl StdError for Own {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(in_middleware(&self.0))
    }
}
