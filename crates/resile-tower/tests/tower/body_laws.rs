//! Bodies that are kept, over generated pieces and attempts.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use proptest::prelude::*;
use resile_tower::http::KeptBody;
use resile_tower::{BoxError, RetryLayer};
use tower::{Layer, ServiceExt, service_fn};

use super::retries::AT_ONCE;

/// Polls a body to its next frame, without a runtime.
fn next<B: Body<Data = Bytes> + Unpin>(body: &mut B) -> Option<Bytes> {
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(body).poll_frame(&mut cx) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
        Poll::Ready(_) | Poll::Pending => None,
    }
}

/// A body with a size.
struct Sized(Vec<Bytes>);

impl Body for Sized {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = (!self.0.is_empty()).then(|| self.0.remove(0));
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

proptest! {
    /// Whatever the attempts read, the last one gets the body whole, and at each moment its size is
    /// exact and its end is known.
    #[test]
    fn the_last_attempt_gets_the_whole_body(
        pieces in prop::collection::vec("[a-z]{0,4}", 0..6),
        reads in prop::collection::vec(0..8_usize, 0..4),
    ) {
        let whole: String = pieces.concat();
        let count = reads.len();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let calls = &AtomicUsize::new(0);
        let (reads, expected) = (&reads, &whole);
        let server = service_fn(move |request: Request<KeptBody<Sized>>| async move {
            let mut body = request.into_body();
            let most = reads.get(calls.fetch_add(1, Relaxed)).copied();
            let mut read = Vec::new();
            for _ in 0..most.unwrap_or(usize::MAX) {
                let left = (expected.len() - read.len()) as u64;
                assert_eq!(body.size_hint().exact(), Some(left));
                let Some(piece) = next(&mut body) else { break };
                read.extend_from_slice(&piece);
            }
            if most.is_some() {
                return Err::<_, BoxError>("down".into());
            }
            assert!(body.is_end_stream());
            Ok(Response::new(read))
        });
        let body = Sized(pieces.into_iter().map(Bytes::from).collect());
        let policy = AT_ONCE.with_attempts(9);
        let service = RetryLayer::http(policy).keeping(usize::MAX).layer(server);
        let request = Request::put("/").body(body).unwrap();
        let answer = runtime.block_on(service.oneshot(request)).unwrap();
        prop_assert_eq!(answer.into_body(), whole.into_bytes());
        prop_assert_eq!(calls.load(Relaxed), count + 1);
    }
}
