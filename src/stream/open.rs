use futures_core::Stream;

use crate::policy::Attempt;

/// The function that opens a stream: `FnMut(Attempt)`, returning a future of
/// `Result<impl Stream<Item = Result<T, E>>, E>`. Sealed.
///
/// Every such function is one. Name this trait only to store or return a
/// [`RetryStream`](super::RetryStream).
pub trait Open: sealed::Sealed {
    /// The future that opens the stream.
    type Opening: Future<Output = Result<Self::Stream, Self::Error>>;
    /// The stream.
    type Stream: Stream<Item = Result<Self::Item, Self::Error>>;
    /// The items of the stream.
    type Item;
    /// The error of the opening and of the stream.
    type Error;

    #[doc(hidden)]
    fn open(&mut self, attempt: Attempt) -> Self::Opening;
}

impl<F, Fut, S, T, E> Open for F
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<S, E>>,
    S: Stream<Item = Result<T, E>>,
{
    type Opening = Fut;
    type Stream = S;
    type Item = T;
    type Error = E;

    #[inline]
    fn open(&mut self, attempt: Attempt) -> Fut {
        self(attempt)
    }
}

mod sealed {
    use super::Attempt;

    pub trait Sealed {}

    impl<F: FnMut(Attempt) -> Fut, Fut> Sealed for F {}
}
