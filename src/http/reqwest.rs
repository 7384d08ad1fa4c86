use reqwest::Error;

use super::Classifier;
use crate::classify::Classify;
use crate::verdict::{Cut, Verdict};

/// An error of `reqwest` as it is, with the status of `Response::error_for_status` where it has one. It does not hold the
/// headers, so a `Retry-After` is lost: to read that, make a [`StatusError`](super::StatusError) of the answer.
///
/// No opinion on a request that cannot be built, and on one that was redirected too often.
impl Classify<Error> for Classifier {
    fn classify(&self, error: &Error) -> Option<Verdict> {
        if error.is_builder() || error.is_redirect() {
            return None;
        }
        Some(match error.status() {
            Some(status) => self.verdict(status, None),
            None => self.unanswered(!error.is_connect()),
        })
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered(true))
    }
}
