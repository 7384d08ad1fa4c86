use resile::{GaveUp, StopReason};
use resile_clients::grpc;
use tonic::Status;

/// Makes a status of the end of a read. If this handler has spent its attempts, the caller does not repeat them.
pub fn end_of_repeated_read(end: GaveUp<grpc::Failure>) -> Status {
    let is_spent = matches!(end.reason(), StopReason::Attempts | StopReason::Budget);
    let mut status = grpc::to_status(end);
    if is_spent {
        status.metadata_mut().insert(grpc::Pushback::NAME, (-1).into());
    }
    status
}
