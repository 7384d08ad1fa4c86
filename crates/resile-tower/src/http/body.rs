use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::shared::Shared;
use crate::BoxError;

/// The body of one attempt: what was kept of the request's body, and then the rest of it. Made by
/// [`RetryLayer::keeping`](crate::RetryLayer::keeping).
///
/// The pieces, the trailers and the exact size are those of the body `B`. Only the newest attempt
/// reads. The body of an attempt before it ends with an error if it is still polled, so that its
/// connection is closed.
pub struct KeptBody<B> {
    shared: Shared<B>,
    reader: u32,
}

impl<B> KeptBody<B> {
    pub(super) const fn new(shared: Shared<B>, reader: u32) -> Self {
        Self { shared, reader }
    }
}

impl<B> Body for KeptBody<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.shared.poll(self.reader, cx) {
            Some(polled) => polled.map_err(|error| BodyError(Some(error))),
            None => Poll::Ready(Some(Err(BodyError(None)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.shared.left(self.reader).1
    }

    fn size_hint(&self) -> SizeHint {
        self.shared.left(self.reader).0
    }
}

impl<B> fmt::Debug for KeptBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptBody").field("reader", &self.reader).finish_non_exhaustive()
    }
}

/// An error of a [`KeptBody`]: that of the request's own body, or the attempt is not the newest one.
#[derive(Debug)]
pub struct BodyError(Option<BoxError>);

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(_) => "the body of the request ended with an error",
            None => "a newer attempt sends the body of the request",
        })
    }
}

impl Error for BodyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.as_deref().map(|error| error as &(dyn Error + 'static))
    }
}
