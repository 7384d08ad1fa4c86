use std::fmt;

/// What an item is to its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Comes ahead of the content and says nothing that a consumer would act on: held back until content comes, and
    /// replaced by that of the next attempt if none does. After content it is handed over like content.
    Preamble,
    /// What the consumer is there for. Once it is handed over nothing is retried silently.
    Content,
    /// The last item. It makes the call a success; nothing after it is read.
    End,
}

/// What becomes of a stream that breaks off after content was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mend<T> {
    /// It ends with the error, as [`Stop::Partial`](crate::Stop::Partial). What has arrived stays with the consumer.
    Fail,
    /// It is opened again and starts over. This item is handed over first, so that the consumer drops what it has.
    Restart(T),
    /// It is opened again, and what then comes is appended: for callers whose `open` goes on where the last one broke
    /// off.
    Resume,
}

/// A stream ended without the item that was to be its last.
///
/// Many connections that break look like that: the peer closes, and there is no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CutOff;

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream ended before its last item")
    }
}

impl std::error::Error for CutOff {}
