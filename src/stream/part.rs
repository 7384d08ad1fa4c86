/// The part of a stream that an item belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// An item before the content. The consumer does not act on it.
    ///
    /// The item is held back until content comes. If the attempt fails before content, the preamble
    /// of the next attempt replaces it. After content, such an item is yielded like content.
    Preamble,
    /// An item for the consumer. Once content has been yielded, nothing is retried silently.
    Content,
    /// The last item of content. A stream that ends after this item is complete, with or without an
    /// error. Later items such as usage figures or a closing event are still yielded.
    Complete,
    /// The last item. The call has succeeded and no later item is read.
    End,
}

/// The way to continue after a stream broke off after content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resumption<T> {
    /// The stream ends with the error as [`StopReason::Partial`](crate::StopReason::Partial), and
    /// the consumer keeps the items that it has.
    Fail,
    /// The stream is opened again and starts over. This item is a signal to the consumer to drop its
    /// earlier items.
    ///
    /// The item is held back like the preamble and is yielded directly before the items of the new
    /// answer, once the first content of that answer has come. The consumer keeps its part until then: in
    /// the delay, in the queue of a quota and while the stream opens. If no new answer begins, the
    /// item never comes and [`GaveUp::is_partial`](crate::GaveUp::is_partial) is true. The item also
    /// comes if the new stream ends well without content, because its answer is whole and empty.
    Restart(T),
    /// The stream is opened again and its items are appended. Use it if `open` continues at the
    /// position of the failure.
    Resume,
}
