//! The error of a call of a layer below.

use std::error::Error;
use std::{io, iter};

use resile::GaveUp;
use resile::error::Boxed;
use resile::http::Failure;

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

/// Returns whether a failure of HTTP in the chain says that nothing was sent.
pub(crate) fn is_not_sent(error: &(dyn Error + 'static)) -> bool {
    links(error).filter_map(|error| error.downcast_ref()).any(Failure::is_not_sent)
}

/// Returns the error in one of a middleware, whose source is that of the error in it.
#[cfg(feature = "reqwest-middleware-0_5")]
pub(crate) fn in_middleware(error: &reqwest_middleware::Error) -> &(dyn Error + 'static) {
    match error {
        reqwest_middleware::Error::Middleware(error) => &**error,
        reqwest_middleware::Error::Reqwest(error) => error,
    }
}

/// Returns the next error. The source of an `io::Error` is that of the error in it, and that of a failure
/// of HTTP is its innermost cause, so they would leave out what is between.
fn next<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.cause();
    }
    #[cfg(feature = "reqwest-middleware-0_5")]
    if let Some(error) = error.downcast_ref() {
        return Some(in_middleware(error));
    }
    match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    }
}
