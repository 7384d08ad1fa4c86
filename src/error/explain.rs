use std::error::Error;
use std::fmt;

use super::GaveUp;
use crate::observe::{append, text_of};
use crate::upstream::NotError;
use crate::upstream::markers::Within;

/// Prints the error of a call within a call. A `GaveUp<anyhow::Error>` is not an `Error`.
impl<E: NotError<M>, M> NotError<Within<M>> for GaveUp<E> {
    fn explain(error: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Last<'a, E, M>(&'a E, std::marker::PhantomData<M>);
        impl<E: NotError<M>, M> fmt::Display for Last<'_, E, M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                E::explain(self.0, f)
            }
        }
        let mut line = text_of(format_args!("{error}"));
        if let Some(last) = error.last() {
            let last = Last(last, std::marker::PhantomData);
            append(&mut line, &text_of(format_args!("{last}")));
        }
        f.write_str(&line)
    }

    fn as_error(error: &Self) -> Option<&(dyn Error + 'static)> {
        let last = error.last().and_then(E::as_error);
        error.answer(last);
        last
    }
}
