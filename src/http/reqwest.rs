use reqwest::Error;

use super::Classifier;
use crate::classify::Classify;
use crate::verdict::{Cut, Verdict};

/// Classifies an error of `reqwest`, by its status if `Response::error_for_status` made the error.
///
/// The error does not hold the headers. A `Retry-After` is therefore lost. To read `Retry-After`,
/// make a [`StatusError`](super::StatusError) from the response.
///
/// Has no opinion on a request that cannot be built or was redirected too often.
impl Classify<Error> for Classifier {
    fn classify(&self, error: &Error) -> Option<Verdict> {
        if error.is_builder() || error.is_redirect() {
            return None;
        }
        Some(match error.status() {
            Some(status) => self.verdict(status, None),
            None => self.unanswered(!is_connect(error)),
        })
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered(true))
    }
}

/// Returns true if no connection was made. JavaScript does not tell, so the answer is false there.
pub(crate) fn is_connect(error: &Error) -> bool {
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    {
        let _ = error;
        false
    }
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    {
        error.is_connect()
    }
}
