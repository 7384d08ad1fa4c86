//! The words of an error for the log. The way to get them is inferred from the type of the error.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

use crate::observe::{Chain, Words};

/// An error that the log can print: its own words and those of its sources. Sealed.
///
/// `M` is a marker, one of [`markers`]. The compiler infers it. It is implemented for:
///
/// * each `Error`,
/// * `anyhow::Error`, `eyre::Report` and other types that convert to `&dyn Error` by `AsRef`,
/// * `Box<dyn Error>`, with or without `Send` and `Sync`,
/// * `&str`, `String`, `Cow<str>` and integers,
/// * [`GaveUp`](crate::GaveUp) and [`timeout::Error`](crate::timeout::Error) of these.
///
/// For a type with only `Display` see [`Upstream::display`](crate::Upstream::display). An error
/// without words gets some in the operation, as by `.map_err(|error| format!("{error:?}"))`.
#[diagnostic::on_unimplemented(
    message = "the log cannot print errors of type `{Self}`: implement `Error` for it, or call `.on(upstream.display())`",
    label = "the error is neither an `Error` nor a text. A type such as `Outer<Own>` is an `Error` only if `Own` is one",
    note = "`.on(upstream.display())` prints the `Display` of the error, and for a name or an `Arc<Upstream>` it is `.on(Displayed::new(\"weather\"))` of `resile::upstream`",
    note = "an error with only `Debug` gets words in the operation, by `.map_err(…)`"
)]
pub trait Explained<M>: Explain<M> {}

impl<E: Explain<M> + ?Sized, M> Explained<M> for E {}

pub(crate) use sealed::{Explain, NotError};

mod sealed {
    use super::{Error, fmt};

    /// Prints an error with all of its sources. These are no methods, so that the compiler never advises one
    /// to a caller.
    #[diagnostic::on_unimplemented(
        message = "the log cannot print errors of type `{Self}`: implement `Error` for it, or call `.on(upstream.display())`",
        label = "the error is neither an `Error` nor a text. A type such as `Outer<Own>` is an `Error` only if `Own` is one",
        note = "`.on(upstream.display())` prints the `Display` of the error, and for a name or an `Arc<Upstream>` it is `.on(Displayed::new(\"weather\"))` of `resile::upstream`",
        note = "an error with only `Debug` gets words in the operation, by `.map_err(…)`"
    )]
    pub trait Explain<M> {
        fn explain(error: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
        /// Returns the error as a value, for observers.
        fn as_error(error: &Self) -> Option<&(dyn Error + 'static)>;
    }

    /// An [`Explain`] for a type that is not an `Error`. Kept apart, so that no type has two markers.
    pub trait NotError<M> {
        fn explain(error: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
        fn as_error(error: &Self) -> Option<&(dyn Error + 'static)>;
    }
}

/// The markers of [`Explained`]. The compiler infers them. Name one only to write down the type of
/// a call, as in `Run<io::Error, RetryPolicy, Never, Via<&'static Upstream, ByError>>`.
pub mod markers {
    use std::marker::PhantomData;

    /// The error is an `Error`.
    #[derive(Debug)]
    pub struct ByError;

    /// The error is not an `Error`, but can be printed as `M` says.
    #[derive(Debug)]
    pub struct Not<M>(PhantomData<M>);

    /// The error converts to `&dyn Error` by `AsRef`, as `anyhow::Error` does.
    #[derive(Debug)]
    pub struct ByReference;

    /// The error is a `Box<dyn Error>`.
    #[derive(Debug)]
    pub struct ByBox;

    /// The error is a text or an integer.
    #[derive(Debug)]
    pub struct ByText;

    /// The error is a [`GaveUp`](crate::GaveUp) of an error with the marker `M`.
    #[derive(Debug)]
    pub struct Within<M>(PhantomData<M>);

    /// The error is a [`timeout::Error`](crate::timeout::Error) of an error with the marker `M`.
    #[derive(Debug)]
    pub struct Operation<M>(PhantomData<M>);

    /// The caller chose the words by `display()`.
    #[derive(Debug)]
    pub struct Chosen;
}

use markers::{ByBox, ByError, ByReference, ByText, Chosen, Not};

impl<E: Error + 'static> Explain<ByError> for E {
    fn explain(error: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Chain(error))
    }

    fn as_error(error: &Self) -> Option<&(dyn Error + 'static)> {
        Some(error)
    }
}

impl<E: NotError<M>, M> Explain<Not<M>> for E {
    fn explain(error: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NotError::explain(error, f)
    }

    fn as_error(error: &Self) -> Option<&(dyn Error + 'static)> {
        NotError::as_error(error)
    }
}

/// An `Arc<dyn Error + Send + Sync>` is an `Error` and has only the first of these `AsRef`, and so
/// it has one marker and not two.
impl<E> NotError<ByReference> for E
where
    E: AsRef<dyn Error + Send + Sync> + AsRef<dyn Error>,
{
    fn explain(error: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error: &(dyn Error + 'static) = error.as_ref();
        write!(f, "{}", Chain(error))
    }

    fn as_error(error: &Self) -> Option<&(dyn Error + 'static)> {
        Some(error.as_ref())
    }
}

macro_rules! boxes {
    ($($dynamic:ty),*) => {$(
        impl NotError<ByBox> for Box<$dynamic> {
            fn explain(error: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", Chain(&**error))
            }

            fn as_error(error: &Self) -> Option<&(dyn Error + 'static)> {
                Some(&**error)
            }
        }
    )*};
}

boxes!(dyn Error, dyn Error + Send, dyn Error + Send + Sync);

macro_rules! texts {
    ($($text:ty),*) => {$(
        impl NotError<ByText> for $text {
            fn explain(error: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{error}")
            }

            fn as_error(_: &Self) -> Option<&(dyn Error + 'static)> {
                None
            }
        }
    )*};
}

texts!(&str, String, Cow<'_, str>);
texts!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

/// A way to find the words of an error: [`Inferred`] or [`ByDisplay`].
pub trait Way<E: ?Sized, M> {
    fn explain(error: &E, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    fn as_error(_: &E) -> Option<&(dyn Error + 'static)> {
        None
    }
}

/// The type of the error says how to print it.
#[derive(Debug)]
pub struct Inferred;

/// Prints errors with `Display`, in the format `{:#}`.
#[derive(Debug)]
pub struct ByDisplay;

impl<E: Explain<M>, M> Way<E, M> for Inferred {
    fn explain(error: &E, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        E::explain(error, f)
    }

    fn as_error(error: &E) -> Option<&(dyn Error + 'static)> {
        E::as_error(error)
    }
}

impl<E: fmt::Display> Way<E, Chosen> for ByDisplay {
    fn explain(error: &E, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{error:#}")
    }
}

/// A function that writes an error with all of its sources.
pub(crate) type Writer<E> = fn(&E, &mut fmt::Formatter<'_>) -> fmt::Result;

/// Passes the words of an error, and the error as a value, to the log.
pub trait Describe<E: ?Sized> {
    /// Returns the function that writes an error, if there is one.
    fn writer() -> Option<Writer<E>>;

    /// Returns the error as a value, if it is known as one.
    fn value(error: &E) -> Value<'_>;

    fn with<R>(error: &E, tell: impl FnOnce(WordsOf<'_>, Value<'_>) -> R) -> R;
}

/// The words of an error, if it has some.
type WordsOf<'a> = Option<&'a dyn fmt::Display>;

/// An error as a value, if it is known as one.
type Value<'a> = Option<&'a (dyn Error + 'static)>;

/// The [`Way`] `W` with the marker `M`.
#[derive(Debug)]
pub struct By<W, M>(PhantomData<(W, M)>);

impl<E, W: Way<E, M>, M> Describe<E> for By<W, M> {
    #[inline]
    fn writer() -> Option<Writer<E>> {
        Some(W::explain)
    }

    #[inline]
    fn value(error: &E) -> Value<'_> {
        W::as_error(error)
    }

    #[inline]
    fn with<R>(error: &E, tell: impl FnOnce(WordsOf<'_>, Value<'_>) -> R) -> R {
        let words = Words::new(|f| W::explain(error, f));
        tell(Some(&words), W::as_error(error))
    }
}

/// Prints no error.
#[derive(Debug)]
pub struct Undescribed;

impl<E> Describe<E> for Undescribed {
    #[inline]
    fn writer() -> Option<Writer<E>> {
        None
    }

    #[inline]
    fn value(_: &E) -> Value<'_> {
        None
    }

    #[inline]
    fn with<R>(_: &E, tell: impl FnOnce(WordsOf<'_>, Value<'_>) -> R) -> R {
        tell(None, None)
    }
}

/// A call whose attempt is made by hand has no error to print.
macro_rules! describe_no_error {
    ($($way:ty),*) => {$(
        impl Describe<Infallible> for $way {
            #[inline]
            fn writer() -> Option<Writer<Infallible>> {
                None
            }

            #[inline]
            fn value(_: &Infallible) -> Value<'_> {
                None
            }

            #[inline]
            fn with<R>(_: &Infallible, tell: impl FnOnce(WordsOf<'_>, Value<'_>) -> R) -> R {
                tell(None, None)
            }
        }
    )*};
}

describe_no_error!(Inferred, ByDisplay);
