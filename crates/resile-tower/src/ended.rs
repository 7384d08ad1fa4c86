//! The outcome of a call as the caller of a service gets it.

use resile::error::Boxed;
use resile::{GaveUp, StopReason};

use crate::Failed;

/// Returns the last answer if the call ended with it, and the error of the call otherwise. `note` gives
/// the answer the end of its call.
///
/// A call that was cut or cancelled did not end with an answer, also if an earlier attempt had one.
#[cold]
pub(crate) fn ended<T>(
    gave_up: GaveUp<Failed<T>>,
    note: impl FnOnce(&mut T, GaveUp<Boxed>),
) -> Result<T, GaveUp<Boxed>> {
    let is_last = gave_up.cut().is_none() && gave_up.reason() != StopReason::Cancelled;
    let (mut answer, mut own) = (None, None);
    let gave_up = gave_up.map(|failed| {
        let (found, error, behind) = failed.split();
        (answer, own) = (found, behind);
        error
    });
    let gave_up = gave_up.into_boxed();
    let gave_up = match own {
        Some(error) => gave_up.with_last(error),
        None => gave_up,
    };
    match answer {
        Some(mut answer) if is_last => {
            note(&mut answer, gave_up);
            Ok(answer)
        }
        _ => Err(gave_up),
    }
}
