//! The first error of a chain of sources whose type has a meaning.

use std::error::Error;
use std::io;

use crate::failure::Failure;
use crate::transport;
use resile::timeout::{Elapsed, Error as Union};

/// An error whose type has a meaning.
pub(crate) enum Known<'e> {
    Failure(&'e Failure),
    Elapsed(Elapsed),
    Transport(&'e (dyn Error + 'static)),
}

impl<'e> Known<'e> {
    /// Returns the first known error in the chain that begins with `error`.
    pub(crate) fn first(error: &'e (dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(known) = Self::of(error) {
                return Some(known);
            }
            next = error.source();
        }
        None
    }

    fn of(error: &'e (dyn Error + 'static)) -> Option<Self> {
        // `Error<Failure>` is transparent: its chain of sources skips its contents.
        if let Some(union) = error.downcast_ref::<Union<Failure>>() {
            return Some(match union {
                Union::Operation(failure) => Self::Failure(failure),
                Union::Elapsed(elapsed) => Self::Elapsed(*elapsed),
                _ => return None,
            });
        }
        if let Some(failure) = error.downcast_ref::<Failure>() {
            Some(Self::Failure(failure))
        } else if let Some(elapsed) = error.downcast_ref::<Elapsed>() {
            Some(Self::Elapsed(*elapsed))
        } else {
            let is_transport = error.is::<io::Error>() || transport::is_known(error);
            is_transport.then_some(Self::Transport(error))
        }
    }
}
