//! AWS and stores that speak the protocol of S3.
//!
//! A 200 of S3 may have an error in its body, for `CopyObject`, `UploadPartCopy` and
//! `CompleteMultipartUpload`: read its code. `GET`, `PUT`, `DELETE`, `UploadPart` and `Abort` are
//! idempotent. `CreateMultipartUpload` is not, because it leaves an upload behind.

#[cfg(feature = "aws-smithy-1")]
mod answer;
#[cfg(feature = "aws-smithy-1")]
mod error;
#[cfg(feature = "aws-smithy-1")]
mod retry;

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload, OwnLimit, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

#[cfg(feature = "aws-smithy-1")]
pub use error::error;
#[cfg(feature = "aws-smithy-1")]
pub use retry::RetryClassifier;

/// Returns the verdict on the code of an error, such as `SlowDown`. The header `x-amz-retry-after` has
/// the hint, in milliseconds: add it with [`Verdict::after`].
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, aws};
///
/// let slow = aws::code("SlowDown", NotIdempotent).unwrap();
/// assert!(slow.is_again() && slow.is_own_limit());
/// ```
#[must_use]
pub fn code(code: &str, idempotency: Idempotency) -> Option<Verdict> {
    rule(code).map(|rule| rule.verdict(idempotency))
}

fn rule(code: &str) -> Option<Rule> {
    Some(match code {
        "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "TooManyRequestsException"
        | "RequestLimitExceeded"
        | "BandwidthLimitExceeded"
        | "ProvisionedThroughputExceededException"
        | "EC2ThrottledException"
        | "LimitExceededException"
        | "PriorRequestNotComplete"
        | "TransactionInProgressException"
        | "SlowDown" => always(OwnLimit),
        // The body did not arrive.
        "RequestTimeout" | "RequestTimeoutException" | "IncompleteBody" => always(Failing),
        "InternalError" => if_idempotent(Failing),
        "ServiceUnavailable" => if_idempotent(Overload),
        "OperationAborted" | "ConditionalRequestConflict" => always(Healthy),
        "BadDigest" => if_idempotent(Unknown),
        "ExpiredToken" | "RequestTimeTooSkewed" | "InvalidAccessKeyId" => never(Unknown),
        "PreconditionFailed" | "NoSuchKey" | "NoSuchBucket" | "NoSuchUpload" => never(Healthy),
        _ => return None,
    })
}
