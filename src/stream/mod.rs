//! Streams that are retried before their first content, with limits on silence.
//!
//! The guide has a chapter on [streams](crate::guide::streams).
//!
//! A stream fails in more ways than a call:
//!
//! * The stream may not open.
//! * It may open and yield nothing.
//! * It may go silent half-way.
//! * It may end normally in the middle of a sentence.
//!
//! A stream can only be retried for a limited time. Once a consumer has shown half an answer, a
//! second attempt begins a *different* answer. The two halves do not fit. Therefore
//! [`retry_stream`](crate::retry_stream()) retries transparently until it has yielded the first
//! item of content, and after that the caller decides.
//!
//! | what the caller knows | method | default |
//! |---|---|---|
//! | which items are preamble, content or the end | [`with_parts`](RetryStream::with_parts) | every item is content |
//! | that a stream without its last item was cut off | [`with_required_end`](RetryStream::with_required_end) | every end is an end |
//! | how long the whole stream may take | [`with_whole_timeout`](RetryStream::with_whole_timeout) | no limit after content |
//! | how long the caller of the stream still waits | [`shortened_to`](RetryStream::shortened_to) | no limit |
//! | how to continue after content | [`with_resumption`](RetryStream::with_resumption) | [`Resumption::Fail`]: the consumer keeps its items, and the error has [`StopReason::Partial`](crate::StopReason::Partial) |
//!
//! # Limits
//!
//! The policy's **total timeout** applies until content. It limits the consumer's wait without any
//! item, all attempts and delays included. The policy's **attempt timeout** also applies until
//! content each time the stream is opened. Neither timeout cuts a stream after content has come: a
//! good answer may take minutes (for example from a model), so its duration does not show that the
//! stream is stuck. If such a stream is opened again, the total timeout restarts. Attempts and the
//! growth of their delays count over the whole life of the stream, unless they are
//! [renewed](RetryStream::with_attempts_renewed).
//!
//! After content, limit the silences with the adapters of
//! [`StreamResilienceExt`](crate::StreamResilienceExt). Put them *inside*, on the stream returned
//! by `open`, because there they see each item as it comes, including the preamble, and their
//! [`Elapsed`](crate::timeout::Elapsed) is classified like any other error.
//!
//! A consumer that cannot wait for ever limits the **whole stream** with
//! [`with_whole_timeout`](RetryStream::with_whole_timeout). This limit never restarts. It ends the
//! stream as [`StopReason::Deadline`](crate::StopReason::Deadline) before content and as
//! [`StopReason::Partial`](crate::StopReason::Partial) after it, because the consumer then has a
//! part of the answer. If the limit is what a request or a question has left, give it by
//! [`shortened_to`](RetryStream::shortened_to), so that the words of the end name the caller.
//!
//! # Defaults
//!
//! | setting | default | why |
//! |---|---|---|
//! | parts | every item is content | safe: no item that was yielded is ever repeated |
//! | resumption | fail | only the caller knows whether its consumer can take items back |
//! | required end | no | not every stream has a last item |
//! | preamble cap | 64 items | more than any protocol's greeting. To hold back more items would look like a hang |
//!
//! # When not
//!
//! * The protocol resumes by itself: a message queue, or server-sent events with ids in a client
//!   that keeps them. The protocol and the retry would then both go back.
//! * Failures before content are rare and the answer is short. Collect the answer and
//!   [`retry`](crate::retry()) the whole.
//! * Opening the stream has an effect that must not happen twice.

mod answer;
mod future;
mod limit;
mod open;
mod part;
mod poll;
pub(crate) mod retry;

pub use future::RetryStream;
pub use limit::StreamTimeout;
pub use open::Open;
pub use part::{Part, Resumption};
