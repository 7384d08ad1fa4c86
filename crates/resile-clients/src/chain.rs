//! The chain of sources of an error.

use std::error::Error;
use std::{io, iter};

/// The longest chain that is read. A chain has an end, but its links are foreign code.
const LONGEST: usize = 64;

/// Returns the errors of the chain, the outermost one first.
pub(crate) fn links<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(Some(error), |error| below(*error)).take(LONGEST)
}

/// Returns the next error. The source of an `io::Error` is that of the error in it, so it would leave out
/// that one.
fn below<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    }
}
