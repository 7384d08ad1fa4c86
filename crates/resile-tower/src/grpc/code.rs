//! The name of the code of an error, which the log has as `error.type`.

use crate::BoxError;

/// The code of an error that tells nothing.
const UNKNOWN: &str = "UNKNOWN";

/// Returns the name of the code that `tonic` has for an error, and the error as it was.
#[cfg(feature = "tonic-0_14")]
pub(super) fn code_of(error: BoxError) -> (BoxError, &'static str) {
    use std::sync::Arc;

    use tonic::Status;

    use super::lent::Lent;

    let error = Arc::new(error);
    // `tonic` takes the error, so it gets a share of it, which ends with the status.
    let status = Status::from_error(Box::new(Lent(Arc::clone(&error))));
    let code = i32::from(status.code());
    drop(status);
    let error = Arc::try_unwrap(error).unwrap_or_else(|shared| Box::new(Lent(shared)));
    (error, resile_clients::grpc::name(code).unwrap_or(UNKNOWN))
}

/// Returns the name of the code that fits an error, and the error.
#[cfg(not(feature = "tonic-0_14"))]
pub(super) fn code_of(error: BoxError) -> (BoxError, &'static str) {
    let is_unavailable = resile::io::never_sent(&*error);
    (error, if is_unavailable { "UNAVAILABLE" } else { UNKNOWN })
}
