use resile::GaveUp;
use resile_clients::grpc;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Makes a status of the end of a call, before which the handler has done nothing. The caller reads of a
/// refusal that its order had no effect, and when it may come again.
pub fn end_of_only_call(end: GaveUp<grpc::Failure>) -> Status {
    match end.retry_after() {
        Some(wait) if end.is_without_effect() => {
            let details = ErrorDetails::with_retry_info(Some(wait));
            Status::with_error_details(Code::ResourceExhausted, format!("{end:#}"), details)
        }
        _ => grpc::to_status(end),
    }
}
