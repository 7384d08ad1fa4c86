use std::borrow::Cow;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use resile::classify::Cut;
use resile::{Classify, Verdict};

use super::answer::{answered, unanswered};
use crate::chain::io_word;
use crate::rule::State::{Failing, Unknown};
use crate::rule::{if_idempotent, never};
use crate::{Classifier, Idempotency};

/// Returns the verdict on an error of an operation of the AWS SDKs.
///
/// | error | again |
/// |---|---|
/// | `ServiceError` | as its code says, and then as its status: 429, 500, 502, 503, 504 |
/// | `DispatchFailure` | as the chain of its sources says; a mistake of the program never |
/// | `TimeoutError` | if idempotent |
/// | `ResponseError` | if idempotent: the answer came, and it cannot be read |
/// | `ConstructionFailure` | never: nothing can be sent |
///
/// The hint is that of the header `x-amz-retry-after` (milliseconds) or `retry-after` (seconds). Switch
/// off the retries of the SDK: `RetryConfig::disabled()`.
///
/// # Examples
///
/// ```
/// use aws_smithy_runtime_api::client::result::SdkError;
/// use aws_smithy_types::error::ErrorMetadata;
/// use resile_clients::{Idempotency::NotIdempotent, aws};
///
/// type Error = SdkError<ErrorMetadata, aws_smithy_runtime_api::http::Response>;
/// let late = Error::timeout_error("late");
/// assert!(!aws::error(&late, NotIdempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn error<E: ProvideErrorMetadata>(
    error: &SdkError<E, HttpResponse>,
    idempotency: Idempotency,
) -> Option<Verdict> {
    let rule = match error {
        SdkError::ConstructionFailure(_) => never(Unknown),
        SdkError::TimeoutError(_) => {
            return Some(if_idempotent(Failing).verdict(idempotency).on_cut());
        }
        SdkError::DispatchFailure(failed) if failed.is_user() => never(Unknown),
        SdkError::DispatchFailure(failed) => {
            return Some(unanswered(failed.as_connector_error()?, idempotency));
        }
        SdkError::ResponseError(_) => if_idempotent(Failing),
        SdkError::ServiceError(failed) => {
            return answered(failed.err().code(), failed.raw(), idempotency);
        }
        _ => return None,
    };
    Some(rule.verdict(idempotency))
}

impl<E: ProvideErrorMetadata> Classify<SdkError<E, HttpResponse>> for Classifier {
    fn classify(&self, error: &SdkError<E, HttpResponse>) -> Option<Verdict> {
        self::error(error, self.idempotency)
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(self.unanswered())
    }

    /// Returns the code of the service, the status, or the word for a missing answer.
    fn error_type<'e>(&self, error: &'e SdkError<E, HttpResponse>) -> Option<Cow<'e, str>> {
        Some(match error {
            SdkError::ServiceError(failed) => match failed.err().code() {
                Some(code) => Cow::Borrowed(code),
                None => failed.raw().status().as_u16().to_string().into(),
            },
            SdkError::TimeoutError(_) => "timeout".into(),
            SdkError::DispatchFailure(failed) => return io_word(failed.as_connector_error()?),
            _ => return None,
        })
    }
}
