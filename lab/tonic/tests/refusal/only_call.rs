use std::time::Duration;

use resile::GaveUp;
use resile_clients::grpc;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The wait for the next order if nobody knows a better one.
const WAIT: Duration = Duration::from_secs(1);

/// Makes a status of the end of a call, before which the handler has done nothing. The caller reads of a
/// refusal, or of a connection that was never made, that its order had no effect, and when it may come again.
pub fn end_of_only_call(end: GaveUp<grpc::Failure>) -> Status {
    let is_without_effect = end.is_without_effect();
    let (wait, words) = (end.retry_after().unwrap_or(WAIT), format!("{end:#}"));
    let status = grpc::to_status(end);
    // Any other code is the word of the server, which the caller can read by itself.
    let is_silent = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
    if !(is_without_effect && is_silent) {
        return status;
    }
    let details = ErrorDetails::with_retry_info(Some(wait));
    Status::with_error_details(Code::ResourceExhausted, words, details)
}
