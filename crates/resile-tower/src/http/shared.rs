//! The body of a call: what was read of it, and the rest.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::BoxError;

/// A body that the attempts of one call share. One attempt reads at a time.
pub struct Shared<B>(Arc<Mutex<Source<B>>>);

/// The answer to whether the body can be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    Yes,
    /// It is longer than this limit in bytes.
    TooLong(usize),
    /// It ended with an error.
    Broken,
    /// No attempt follows.
    Over,
}

struct Source<B> {
    /// The rest of the body. `None` after its end.
    rest: Option<B>,
    keeps: Keeps,
    limit: usize,
    /// The bytes that were read and kept.
    size: usize,
    kept: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
    /// The number of the attempt that reads.
    reader: u32,
    /// The kept pieces that the reader has. It is 0 if no piece is kept any more.
    read: usize,
    has_trailers: bool,
    /// Wakes the reader, so that one that is replaced notices it.
    waker: Option<Waker>,
}

impl<B: Body> Shared<B> {
    /// Keeps at most `limit` bytes of a body for `attempts`.
    pub(super) fn new(body: B, limit: usize, attempts: u32) -> Self {
        let least = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let keeps = match attempts {
            0 | 1 => Keeps::Over,
            _ if least > limit => Keeps::TooLong(limit),
            _ => Keeps::Yes,
        };
        Self(Arc::new(Mutex::new(Source {
            rest: Some(body),
            keeps,
            limit,
            size: 0,
            kept: VecDeque::new(),
            trailers: None,
            reader: 0,
            read: 0,
            has_trailers: false,
            waker: None,
        })))
    }
}

impl<B> Shared<B> {
    /// Locks the state, which a body that panics leaves whole.
    fn lock(&self) -> MutexGuard<'_, Source<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keeps(&self) -> Keeps {
        self.lock().keeps
    }

    /// Begins to read from the start, and ends the reader before. Returns the number of the reader, or
    /// `None` if the body cannot be read again.
    pub(super) fn begin(&self) -> Option<u32> {
        let mut source = self.lock();
        if source.reader > 0 && source.keeps != Keeps::Yes {
            return None;
        }
        source.reader = source.reader.saturating_add(1);
        (source.read, source.has_trailers) = (0, false);
        let (reader, waker) = (source.reader, source.waker.take());
        drop(source);
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(reader)
    }

    /// Keeps nothing from now on. The reader goes on.
    pub(super) fn finish(&self) {
        let mut source = self.lock();
        if source.keeps == Keeps::Yes {
            source.forget(Keeps::Over);
        }
    }
}

impl<B> Shared<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    /// Reads on. `None` is a reader that was replaced.
    #[expect(clippy::type_complexity, reason = "it is that of `Body::poll_frame`")]
    pub(super) fn poll(
        &self,
        reader: u32,
        cx: &mut Context<'_>,
    ) -> Option<Poll<Option<Result<Frame<Bytes>, BoxError>>>> {
        let mut source = self.lock();
        (source.reader == reader).then(|| source.poll(cx))
    }

    /// Returns the size of what is left for a reader, and whether nothing is.
    pub(super) fn left(&self, reader: u32) -> (SizeHint, bool) {
        let source = self.lock();
        if source.reader == reader { source.left() } else { (SizeHint::default(), false) }
    }
}

impl<B> Source<B> {
    /// Ends the keeping. Only what the reader does not have yet remains.
    fn forget(&mut self, keeps: Keeps) {
        self.keeps = keeps;
        self.kept.drain(..self.read.min(self.kept.len()));
        self.read = 0;
    }

    /// Returns the next kept piece.
    fn piece(&mut self) -> Option<Bytes> {
        if self.keeps != Keeps::Yes {
            return self.kept.pop_front();
        }
        let piece = self.kept.get(self.read).cloned()?;
        self.read += 1;
        Some(piece)
    }

    /// Keeps a piece that was read.
    fn keep(&mut self, piece: &Bytes) {
        if self.keeps != Keeps::Yes {
            return;
        }
        match self.size.checked_add(piece.len()) {
            Some(size) if size <= self.limit => {
                self.size = size;
                self.kept.push_back(piece.clone());
                self.read += 1;
            }
            _ => self.forget(Keeps::TooLong(self.limit)),
        }
    }
}

impl<B> Source<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(piece) = self.piece() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if let (Some(trailers), false) = (&self.trailers, self.has_trailers) {
            self.has_trailers = true;
            return Poll::Ready(Some(Ok(Frame::trailers(trailers.clone()))));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let polled = Pin::new(rest).poll_frame(cx);
        if polled.is_pending() {
            self.waker = Some(cx.waker().clone());
        }
        match ready!(polled) {
            Some(Ok(frame)) => Poll::Ready(Some(Ok(self.frame(frame)))),
            Some(Err(error)) => {
                self.rest = None;
                self.forget(Keeps::Broken);
                Poll::Ready(Some(Err(error.into())))
            }
            None => {
                self.rest = None;
                Poll::Ready(None)
            }
        }
    }

    /// Keeps what was read.
    fn frame(&mut self, frame: Frame<B::Data>) -> Frame<Bytes> {
        let frame = frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
        if let Some(piece) = frame.data_ref() {
            self.keep(piece);
        } else if let (Some(trailers), Keeps::Yes) = (frame.trailers_ref(), self.keeps) {
            self.trailers = Some(trailers.clone());
            self.has_trailers = true;
        }
        frame
    }

    fn left(&self) -> (SizeHint, bool) {
        let kept = self.kept.iter().skip(self.read).map(|piece| piece.len() as u64).sum::<u64>();
        let has_trailers = self.trailers.is_some() && !self.has_trailers;
        let mut hint = SizeHint::with_exact(kept);
        let Some(rest) = &self.rest else {
            return (hint, kept == 0 && !has_trailers);
        };
        let more = rest.size_hint();
        hint = SizeHint::new();
        hint.set_lower(kept.saturating_add(more.lower()));
        if let Some(upper) = more.upper().and_then(|upper| upper.checked_add(kept)) {
            hint.set_upper(upper);
        }
        (hint, kept == 0 && !has_trailers && rest.is_end_stream())
    }
}

impl<B> Clone for Shared<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> fmt::Debug for Shared<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
