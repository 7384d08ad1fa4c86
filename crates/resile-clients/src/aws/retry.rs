use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{
    ClassifyRetry, RetryAction, RetryClassifierPriority,
};
use aws_smithy_types::retry::ErrorKind;
use resile::{Health, Verdict};

use super::answer::{answered, unanswered};
use crate::Idempotency;
use crate::rule::State::Failing;
use crate::rule::if_idempotent;

/// A classifier of retries for the AWS SDKs, and for every client of Smithy.
///
/// The SDKs repeat a 500 of any operation. This classifier knows what is idempotent: under
/// `NotIdempotent` an attempt that may have been executed is never repeated, also if a classifier of
/// the SDK wants it. It also knows a bare 429, which other stores with the protocol of S3 send, and
/// it passes on the hint of the headers `x-amz-retry-after` (milliseconds) and `retry-after` (seconds).
///
/// The evidence counts in this order: the code of the error in the header or in the body, the status,
/// and for an attempt without an answer the chain of its sources. What it does not know is left to
/// the SDK. It runs after the classifiers of the SDK. Attempts and delays are those of the SDK.
///
/// # Examples
///
/// ```
/// use aws_smithy_runtime_api::client::retries::classifiers::SharedRetryClassifier;
/// use resile_clients::Idempotency::NotIdempotent;
/// use resile_clients::aws::RetryClassifier;
///
/// // Of an operation: `.customize().config_override(Config::builder().retry_classifier(…))`.
/// let classifier = SharedRetryClassifier::new(RetryClassifier::new(NotIdempotent));
/// # let _ = classifier;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a classifier does nothing until a client has it"]
pub struct RetryClassifier {
    idempotency: Idempotency,
}

impl RetryClassifier {
    /// Creates a classifier of operations that are idempotent, or that are not.
    pub const fn new(idempotency: Idempotency) -> Self {
        Self { idempotency }
    }

    /// Returns the verdict on the attempt. `None` without an error and for one that is not known.
    fn verdict(self, context: &InterceptorContext) -> Option<Verdict> {
        let error = context.output_or_error()?.err()?;
        if let Some(error) = error.as_connector_error() {
            return if error.is_user() { None } else { Some(unanswered(error, self.idempotency)) };
        }
        if error.is_timeout_error() {
            return Some(if_idempotent(Failing).verdict(self.idempotency));
        }
        answered(None, context.response()?, self.idempotency)
    }
}

impl ClassifyRetry for RetryClassifier {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let Some(verdict) = self.verdict(context) else {
            return RetryAction::NoActionIndicated;
        };
        if !verdict.is_again() {
            return RetryAction::RetryForbidden;
        }
        let kind = match verdict.health() {
            Health::Throttling => ErrorKind::ThrottlingError,
            _ => ErrorKind::TransientError,
        };
        match verdict.hint() {
            Some(hint) => RetryAction::retryable_error_with_explicit_delay(kind, hint),
            None => RetryAction::retryable_error(kind),
        }
    }

    fn name(&self) -> &'static str {
        "resile"
    }

    /// After all classifiers of the SDK, so that the hint counts.
    fn priority(&self) -> RetryClassifierPriority {
        RetryClassifierPriority::run_after(RetryClassifierPriority::transient_error_classifier())
    }
}
