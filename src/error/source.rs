//! Errors that can be the source of another one.

use std::error::Error;
use std::fmt;

use crate::observe::Chain;

/// A type that can be the source of an error: every [`Error`], and [`Boxed`]. Sealed.
///
/// An `anyhow::Error`, a `Box<dyn Error>` and a `String` are not sources because they are not
/// errors themselves. For these call [`GaveUp::into_boxed`](crate::GaveUp::into_boxed).
// An implementation for these types beside the one for errors would overlap with it: their crates
// may make them errors. Of a message for `?` the compiler prints the label alone.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `Error`, so `GaveUp<{Self}>` is not an `Error` either",
    label = "call `.map_err(GaveUp::into_boxed)`, or implement `Error` for a type of your own",
    note = "`anyhow::Error`, `Box<dyn Error>` and `String` are not errors themselves, so they need `.map_err(GaveUp::into_boxed)`"
)]
pub trait Source: fmt::Debug + sealed::Sealed {
    #[doc(hidden)]
    fn as_source(&self) -> &(dyn Error + 'static);

    /// Returns whether the error has other words than those of its source.
    #[doc(hidden)]
    fn has_words(&self) -> bool {
        false
    }
}

mod sealed {
    pub trait Sealed {}
    impl<E: std::error::Error + 'static> Sealed for E {}
    impl Sealed for super::Boxed {}
}

// Otherwise the compiler names `std::error::Error`, which cannot be implemented for these types.
#[diagnostic::do_not_recommend]
impl<E: Error + 'static> Source for E {
    fn as_source(&self) -> &(dyn Error + 'static) {
        self
    }
}

/// An error of any type. Made by [`GaveUp::into_boxed`](crate::GaveUp::into_boxed).
///
/// `Boxed` is not an `Error`. So the source of a `GaveUp<Boxed>` is the error itself, not the box.
pub struct Boxed {
    error: Box<dyn Error + Send + Sync>,
    /// The words of the error that this one has replaced.
    words: Option<Box<str>>,
}

impl Boxed {
    pub(super) const fn new(error: Box<dyn Error + Send + Sync>) -> Self {
        Self { error, words: None }
    }

    /// Returns the error.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.error
    }

    /// Writes the error with its sources, each text once.
    pub(super) fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.words {
            Some(words) => f.write_str(words),
            None => write!(f, "{}", Chain(&*self.error)),
        }
    }

    /// Puts another error in place of this one, whose words stay.
    pub(super) fn replaced_by(self, error: Box<dyn Error + Send + Sync>) -> Self {
        let Self { error: before, words } = self;
        let words = words.unwrap_or_else(|| Chain(&*before).to_string().into());
        Self { error, words: Some(words) }
    }
}

impl Source for Boxed {
    fn as_source(&self) -> &(dyn Error + 'static) {
        &*self.error
    }

    fn has_words(&self) -> bool {
        self.words.is_some()
    }
}

impl fmt::Debug for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Display for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
