//! An answer without a status of gRPC, such as that of a proxy.

use std::error::Error;
use std::fmt;

use http::StatusCode;

/// The status of HTTP of such an answer.
#[derive(Debug)]
pub(super) struct NoStatus(pub(super) StatusCode);

impl NoStatus {
    /// Returns the code of gRPC. Source: gRPC, `http-grpc-status-mapping.md`.
    pub(super) fn code(&self) -> i32 {
        match self.0.as_u16() {
            400 => 13,
            401 => 16,
            403 => 7,
            404 => 12,
            429 | 502..=504 => 14,
            _ => 2,
        }
    }
}

impl fmt::Display for NoStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no grpc-status: {}", self.0)
    }
}

impl Error for NoStatus {}
