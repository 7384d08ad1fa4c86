//! The first error of a chain of sources whose type has a meaning.

use std::error::Error;
use std::io;

use crate::failure::Failure;
use crate::transport;
use resile::GaveUp;
use resile::error::Boxed;
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

/// Returns whether a call in the chain that begins with `error` has left its consumer with a part of an
/// answer. A call whose own error has another type is not found.
pub(crate) fn is_partial(error: &(dyn Error + 'static)) -> bool {
    has_call(error, |call| call.is_partial)
}

/// Returns whether a call in the chain that begins with `error` has made a request that the provider may have
/// served. A call whose own error has another type is not found.
pub(crate) fn may_have_effect(error: &(dyn Error + 'static)) -> bool {
    has_call(error, |call| !call.is_without_effect)
}

/// The facts of a call that gave up.
struct Call {
    is_partial: bool,
    is_without_effect: bool,
}

fn has_call(error: &(dyn Error + 'static), is: fn(Call) -> bool) -> bool {
    fn of<E: 'static>(error: &(dyn Error + 'static)) -> Option<Call>
    where
        GaveUp<E>: Error,
    {
        let gave_up = error.downcast_ref::<GaveUp<E>>()?;
        let (is_partial, is_without_effect) = (gave_up.is_partial(), gave_up.is_without_effect());
        Some(Call { is_partial, is_without_effect })
    }
    let mut next = Some(error);
    while let Some(error) = next {
        let call = of::<Failure>(error).or_else(|| of::<GaveUp<Failure>>(error));
        let call = call.or_else(|| of::<Union<Failure>>(error)).or_else(|| of::<Boxed>(error));
        if call.is_some_and(is) {
            return true;
        }
        next = error.source();
    }
    false
}
