//! The chain of sources of an error.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::{io, iter};

use resile::Classify;
use resile::io::Classifier;

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

/// Returns the word for the first `io::Error` of the chain that has one, such as `refused`.
pub(crate) fn io_word(error: &(dyn Error + 'static)) -> Option<Cow<'static, str>> {
    links(error).find_map(|link| {
        // The source of an `Arc` is that of the error in it, so it would leave out that one. `redis` and
        // `lapin` have such a link.
        let shared = link.downcast_ref::<Arc<dyn Error + Send + Sync>>();
        let link = shared.map_or(link, |it| &**it as &(dyn Error + 'static));
        let shared = || link.downcast_ref::<Arc<io::Error>>().map(Arc::as_ref);
        let error = link.downcast_ref::<io::Error>().or_else(shared)?;
        let word = Classifier::idempotent().error_type(error)?;
        Some(Cow::Owned(word.into_owned()))
    })
}
