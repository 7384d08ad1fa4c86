use std::error::Error;

use resile::GaveUp;
use resile::error::Boxed;
use tonic::Status;

/// Returns the end of the call that a status came from: why it ended, after how many attempts, and whether
/// the request [may have been executed](GaveUp::is_in_doubt). `{:#}` prints it in one
/// line with the last error in the words of the log, for a log of your own.
///
/// `None` is a status that no call of a [`RetryChannel`](super::RetryChannel) ended with, such as one that
/// comes behind the first message of an answer.
#[must_use]
pub fn gave_up(status: &Status) -> Option<&GaveUp<Boxed>> {
    status.source()?.downcast_ref()
}
