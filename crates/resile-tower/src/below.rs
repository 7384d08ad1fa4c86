//! The error of a call of a layer below.

use std::error::Error;
use std::{io, iter};

use resile::GaveUp;
use resile::error::Boxed;

/// Sources of an error that are read at most, because they are foreign code.
const LINKS: usize = 64;

/// Returns the first call in the chain of an error.
pub(crate) fn call_below<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e GaveUp<Boxed>> {
    links(error).find_map(|error| error.downcast_ref())
}

/// Returns the errors of the chain, the outermost one first.
pub(crate) fn links<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(Some(error), |error| next(*error)).take(LINKS)
}

/// Returns the next error. The source of an `io::Error` is that of the error in it, so it would leave
/// out that one.
fn next<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    }
}
