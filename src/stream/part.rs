/// The part of a stream that an item belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Comes ahead of the content and says nothing that a consumer would act on: held back until content comes, and
    /// replaced by that of the next attempt if none does. After content it is handed over like content.
    Preamble,
    /// What the consumer is there for. Once it is handed over nothing is retried silently.
    Content,
    /// The last item of content. A stream that ends after it, with an error or without, is whole; what comes after it is
    /// handed over: usage figures, a closing event.
    Complete,
    /// The last item. It makes the call a success; nothing after it is read.
    End,
}

/// How a stream goes on that broke off after content was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resumption<T> {
    /// It ends with the error, as [`StopReason::Partial`](crate::StopReason::Partial). What has arrived stays with the consumer.
    Fail,
    /// It is opened again and starts over. This item is handed over first, so that the consumer drops what it has.
    Restart(T),
    /// It is opened again, and what then comes is appended: for callers whose `open` goes on where the last one broke
    /// off.
    Resume,
}
