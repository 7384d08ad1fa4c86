use std::borrow::Cow;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use resile::Verdict;
use resile::io::error_type;

use super::answer::{answered, unanswered};
use crate::Idempotency;
use crate::classifier::classifies;
use crate::rule::State::{Failing, Unknown};
use crate::rule::{if_idempotent, never};

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

classifies!([E: ProvideErrorMetadata] SdkError<E, HttpResponse> => error, word);

/// Returns the code of the service, the status, or the word for a missing answer.
fn word<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Option<Cow<'_, str>> {
    Some(match error {
        SdkError::ServiceError(failed) => match failed.err().code() {
            Some(code) => Cow::Borrowed(code),
            None => failed.raw().status().as_u16().to_string().into(),
        },
        SdkError::TimeoutError(_) => "timeout".into(),
        SdkError::DispatchFailure(failed) => error_type(failed.as_connector_error()?)?.into(),
        _ => return None,
    })
}
