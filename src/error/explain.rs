use std::error::Error;
use std::fmt;

use super::GaveUp;
use crate::observe::{append, text_of};
use crate::upstream::NotError;
use crate::upstream::markers::Within;

/// Prints the error of a call within a call. A `GaveUp<anyhow::Error>` is not an `Error`.
impl<E: NotError<M>, M> NotError<Within<M>> for GaveUp<E> {
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Last<'a, E, M>(&'a E, std::marker::PhantomData<M>);
        impl<E: NotError<M>, M> fmt::Display for Last<'_, E, M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.explain(f)
            }
        }
        let mut line = text_of(format_args!("{self}"));
        if let Some(last) = self.last() {
            let last = Last(last, std::marker::PhantomData);
            append(&mut line, &text_of(format_args!("{last}")));
        }
        f.write_str(&line)
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        let last = self.last().and_then(NotError::as_error);
        self.answer(last);
        last
    }
}
