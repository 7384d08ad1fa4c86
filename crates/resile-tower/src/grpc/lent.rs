//! A share of an error, for code that takes errors by value.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::BoxError;

/// A share of an error, which is its source.
#[derive(Debug)]
pub(super) struct Lent(pub(super) Arc<BoxError>);

impl fmt::Display for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Lent {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self.0)
    }
}
