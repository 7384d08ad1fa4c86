//! Bodies that are kept while they are sent.

use std::error::Error as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use resile_tower::grpc::answer_to_error;
use resile_tower::http::KeptBody;
use resile_tower::resile::error::Boxed;
use resile_tower::resile::{GaveUp, Upstream};
use resile_tower::resile_clients::Idempotency::Idempotent;
use resile_tower::resile_clients::grpc::to_status;
use resile_tower::{BoxError, RetryLayer};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::retries::AT_ONCE;
use super::statuses::Ends;

/// A body of pieces. It counts how often it was polled, and panics if it is polled after its end.
struct Pieces {
    left: std::vec::IntoIter<Result<Frame<Bytes>, BoxError>>,
    is_over: bool,
    polls: Arc<AtomicUsize>,
}

impl Pieces {
    fn new(frames: Vec<Result<Frame<Bytes>, BoxError>>) -> Self {
        Self { left: frames.into_iter(), is_over: false, polls: Arc::default() }
    }

    fn of(pieces: &[&'static str]) -> Self {
        Self::new(pieces.iter().map(|piece| Ok(Frame::data((*piece).into()))).collect())
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        assert!(!self.is_over, "polled after its end");
        self.polls.fetch_add(1, Relaxed);
        let next = self.left.next();
        self.is_over = next.is_none();
        Poll::Ready(next)
    }
}

/// What a server does with a request: the number of frames that it reads, and its answer.
#[derive(Clone, Copy, Debug)]
enum Reads {
    /// It fails after this many frames.
    Some(usize),
    All,
}

/// Makes a call with a body on a server, and returns what the last attempt read.
async fn sent(
    body: Pieces,
    limit: usize,
    reads: &'static [Reads],
) -> Result<
    (u32, Vec<u8>, Option<HeaderMap>),
    resile_tower::resile::GaveUp<resile_tower::resile::error::Boxed>,
> {
    let calls = &AtomicU32::new(0);
    let server = service_fn(move |request: Request<KeptBody<Pieces>>| async move {
        let at = calls.fetch_add(1, Relaxed) as usize;
        let mut body = request.into_body();
        if let Reads::Some(frames) = reads[at] {
            for _ in 0..frames {
                body.frame().await.unwrap()?;
            }
            return Err::<_, BoxError>("down".into());
        }
        let whole = body.collect().await?;
        let trailers = whole.trailers().cloned();
        Ok(Response::new((whole.to_bytes().to_vec(), trailers)))
    });
    let service = RetryLayer::http(AT_ONCE).keeping(limit).layer(server);
    let (bytes, trailers) =
        service.oneshot(Request::put("/").body(body).unwrap()).await?.into_body();
    Ok((calls.load(Relaxed), bytes, trailers))
}

#[tokio::test(start_paused = true)]
async fn a_body_is_sent_again_from_its_start_and_then_its_rest() {
    for first in 0..=3 {
        let polls = Pieces::of(&["a", "bc", "def"]);
        let count = Arc::clone(&polls.polls);
        let reads: &'static [Reads] = match first {
            0 => &[Reads::Some(0), Reads::All],
            1 => &[Reads::Some(1), Reads::Some(2), Reads::All],
            2 => &[Reads::Some(2), Reads::Some(1), Reads::All],
            _ => &[Reads::Some(3), Reads::All],
        };
        let (calls, bytes, _) = sent(polls, 6, reads).await.unwrap();
        assert_eq!((calls as usize, &*bytes), (reads.len(), &b"abcdef"[..]));
        assert_eq!(count.load(Relaxed), 4, "each piece was read once");
    }
}

#[tokio::test(start_paused = true)]
async fn trailers_are_sent_again() {
    let trailers: HeaderMap = [(http::header::ETAG, "7".parse().unwrap())].into_iter().collect();
    let frames = vec![Ok(Frame::data("ab".into())), Ok(Frame::trailers(trailers.clone()))];
    let sent = sent(Pieces::new(frames), 2, &[Reads::Some(2), Reads::All]).await.unwrap();
    assert_eq!(sent, (2, b"ab".to_vec(), Some(trailers)));
}

/// The end of a call whose body was not kept.
const ONCE: &str = "service: gave up after 1 attempt, the request cannot be made again";

/// The attempt goes on with a body above the limit. Nobody can make another one.
#[tokio::test(start_paused = true)]
async fn a_body_above_the_limit_is_sent_once_and_the_error_says_why() {
    let (calls, bytes, _) = sent(Pieces::of(&["abc", "def"]), 5, &[Reads::All]).await.unwrap();
    assert_eq!((calls, &*bytes), (1, &b"abcdef"[..]));
    let gave_up = sent(Pieces::of(&["abc", "def"]), 5, &[Reads::Some(2)]).await.unwrap_err();
    assert_eq!(gave_up.attempts(), 1);
    let words = gave_up.source().unwrap().to_string();
    assert_eq!(words, "down (sent once: its body is longer than the 5 bytes that are kept)");
    assert_eq!(gave_up.to_string(), ONCE);
    assert!(format!("{gave_up:?}").contains("once: \"its body is longer than"), "{gave_up:?}");
    // Below the limit so far, so another attempt is made.
    let (calls, ..) =
        sent(Pieces::of(&["abc", "def"]), 5, &[Reads::Some(1), Reads::All]).await.unwrap();
    assert_eq!(calls, 2);
}

/// A body that tells its size is not kept at all.
#[tokio::test(start_paused = true)]
async fn a_body_that_says_that_it_is_too_long_is_not_kept() {
    let calls = &AtomicU32::new(0);
    let server = service_fn(move |request: Request<KeptBody<Full<Bytes>>>| async move {
        calls.fetch_add(1, Relaxed);
        assert_eq!(request.body().size_hint().exact(), Some(6));
        Err::<Response<()>, BoxError>("down".into())
    });
    let service = RetryLayer::http(AT_ONCE).keeping(5).layer(server);
    let request = Request::put("/").body(Full::from("abcdef")).unwrap();
    let words = service.oneshot(request).await.unwrap_err().source().unwrap().to_string();
    assert_eq!(words, "down (sent once: its body is longer than the 5 bytes that are kept)");
    assert_eq!(calls.load(Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_fails_is_not_sent_again() {
    let frames = vec![Ok(Frame::data("ab".into())), Err("no disk".into())];
    let gave_up = sent(Pieces::new(frames), 9, &[Reads::All]).await.unwrap_err();
    assert_eq!(gave_up.attempts(), 1);
    let words = gave_up.source().unwrap().to_string();
    assert!(words.ends_with("(sent once: its body ended with an error)"), "{words}");
    assert_eq!(gave_up.to_string(), ONCE);
}

/// An attempt that was cut has no error of its own. A refused order is not in doubt: it was not executed.
#[tokio::test(start_paused = true)]
async fn the_end_of_each_call_says_that_its_body_was_not_kept() {
    let second = Duration::from_secs(1);
    let hangs = service_fn(async |_: Request<KeptBody<Full<Bytes>>>| {
        std::future::pending::<Result<Response<()>, BoxError>>().await
    });
    let policy = AT_ONCE.with_attempt_timeout(second);
    let service = RetryLayer::http(policy).keeping(5).layer(hangs);
    let upload = Request::put("/").body(Full::from("abcdef")).unwrap();
    let gave_up = service.oneshot(upload).await.unwrap_err();
    let words = "gave up after 1 attempt in 1.0s, the request cannot be made again \
                 (last failure: PUT /: did not finish within 1s)";
    assert_eq!(gave_up.to_string(), format!("service: {words}"));

    let refuses = service_fn(async |_: Request<KeptBody<Full<Bytes>>>| {
        Ok::<_, BoxError>(Response::builder().status(429).body(()).unwrap())
    });
    let service = RetryLayer::http(AT_ONCE).keeping(5).layer(refuses);
    let order = Request::post("/").body(Full::from("abcdef")).unwrap();
    let answer = service.oneshot(order).await.unwrap();
    let gave_up = answer.extensions().get::<Arc<GaveUp<Boxed>>>().unwrap();
    let words = format!("{ONCE}, without effect");
    assert_eq!((gave_up.to_string(), gave_up.is_in_doubt()), (words, false));
}

/// The status is that of the server, and its source says why nothing was repeated.
#[tokio::test(start_paused = true)]
async fn the_status_of_a_read_that_was_not_kept_has_the_reason() {
    static ENDS: Ends = Ends::new();
    static WEATHER: Upstream = Upstream::new("weather").with_observer(&ENDS);
    let down = service_fn(async |_: Request<KeptBody<Full<Bytes>>>| {
        let answer = Response::builder().header("grpc-status", "14").header("grpc-message", "down");
        Ok::<_, BoxError>(answer.body(()).unwrap())
    });
    let layers = ServiceBuilder::new()
        .map_err(to_status)
        .map_result(answer_to_error)
        .layer(RetryLayer::grpc(AT_ONCE, Idempotent).keeping(5).on(&WEATHER));
    let read = Request::post("/weather.Weather/Get").body(Full::from("abcdef")).unwrap();
    let status = layers.service(down).oneshot(read).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (tonic::Code::Unavailable, "down"));
    let words = "weather: gave up after 1 attempt, the request cannot be made again";
    assert_eq!(status.source().unwrap().to_string(), words);
    let line = "weather: gave up after 1 of 4 attempts, the request cannot be made again: \
                /weather.Weather/Get: UNAVAILABLE: down \
                (sent once: its body is longer than the 5 bytes that are kept)";
    assert_eq!(ENDS.take()[0].1, line);
}

/// A server may answer before it has the whole body, and its connection may still hold the body when
/// the next attempt begins. The old reader is woken and gets an error, so the connection ends.
#[tokio::test(start_paused = true)]
async fn the_body_of_an_earlier_attempt_ends_with_an_error() {
    let held = &std::sync::Mutex::new(None);
    let server = service_fn(move |request: Request<KeptBody<Full<Bytes>>>| async move {
        let mut body = request.into_body();
        let first = held.lock().unwrap().take();
        let Some(mut first): Option<KeptBody<Full<Bytes>>> = first else {
            *held.lock().unwrap() = Some(body);
            return Err::<_, BoxError>("down".into());
        };
        assert_eq!(body.frame().await.unwrap()?.into_data().unwrap(), "ab");
        let replaced = first.frame().await.unwrap().unwrap_err();
        assert_eq!(replaced.to_string(), "a newer attempt sends the body of the request");
        assert!(!first.is_end_stream());
        Ok(Response::new(()))
    });
    let service = RetryLayer::http(AT_ONCE).keeping(9).layer(server);
    service.oneshot(Request::put("/").body(Full::from("ab")).unwrap()).await.unwrap();
}

/// After the end of the call the body of the last attempt, as of a stream in both directions, goes on.
#[tokio::test(start_paused = true)]
async fn a_call_that_has_ended_keeps_nothing_and_its_body_goes_on() {
    let body = Pieces::of(&["abc", "def", "ghi"]);
    let server = service_fn(async |request: Request<KeptBody<Pieces>>| {
        let mut body = request.into_body();
        body.frame().await.unwrap()?;
        Ok::<_, BoxError>(Response::new(body))
    });
    let service = RetryLayer::http(AT_ONCE).keeping(4).layer(server);
    let answer = service.oneshot(Request::put("/").body(body).unwrap()).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "defghi");
}

/// A piece of a body whose memory is counted.
struct Owner(#[expect(dead_code, reason = "it counts")] Arc<()>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        b"abc"
    }
}

#[tokio::test(start_paused = true)]
async fn the_memory_of_what_was_kept_is_free_at_the_end_of_the_call() {
    let count = Arc::new(());
    let piece = || Ok(Frame::data(Bytes::from_owner(Owner(Arc::clone(&count)))));
    let body = Pieces::new(vec![piece(), piece(), piece()]);
    let (kept, counted) = (&AtomicUsize::new(0), &count);
    let server = service_fn(move |request: Request<KeptBody<Pieces>>| async move {
        let mut body = request.into_body();
        body.frame().await.unwrap()?;
        body.frame().await.unwrap()?;
        kept.store(Arc::strong_count(counted), Relaxed);
        Ok::<_, BoxError>(Response::new(body))
    });
    let service = RetryLayer::http(AT_ONCE).keeping(9).layer(server);
    let answer = service.oneshot(Request::put("/").body(body).unwrap()).await.unwrap();
    assert_eq!(kept.load(Relaxed), 4, "three pieces, of which two are kept, and the counter");
    assert_eq!(Arc::strong_count(&count), 2, "the piece that is not read");
    drop(answer.into_body().collect().await.unwrap());
    assert_eq!(Arc::strong_count(&count), 1);
}

/// A second attempt that replays when the call ends has all of it.
#[tokio::test(start_paused = true)]
async fn a_replay_goes_on_after_the_end_of_the_call() {
    let calls = &AtomicU32::new(0);
    let server = service_fn(move |request: Request<KeptBody<Pieces>>| async move {
        let mut body = request.into_body();
        if calls.fetch_add(1, Relaxed) == 0 {
            while body.frame().await.transpose()?.is_some() {}
            return Err("down".into());
        }
        body.frame().await.unwrap()?;
        Ok::<_, BoxError>(Response::new(body))
    });
    let service = RetryLayer::http(AT_ONCE).keeping(9).layer(server);
    let body = Pieces::of(&["abc", "def", "ghi"]);
    let answer = service.oneshot(Request::put("/").body(body).unwrap()).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "defghi");
}

/// A policy of one attempt keeps nothing.
#[tokio::test(start_paused = true)]
async fn one_attempt_sends_a_body_of_any_size() {
    let server = service_fn(async |request: Request<KeptBody<Pieces>>| {
        Ok::<_, BoxError>(Response::new(request.into_body().collect().await?.to_bytes()))
    });
    let service = RetryLayer::http(AT_ONCE.with_attempts(1)).keeping(0).layer(server);
    let request = Request::put("/").body(Pieces::of(&["abc", "def"])).unwrap();
    assert_eq!(service.oneshot(request).await.unwrap().into_body(), "abcdef");
}

#[tokio::test(start_paused = true)]
async fn readiness_is_kept_with_kept_bodies() {
    let server = service_fn(async |request: Request<KeptBody<Full<Bytes>>>| {
        Ok::<_, BoxError>(Response::new(request.into_body().collect().await?.to_bytes()))
    });
    let limited = tower::limit::ConcurrencyLimit::new(server, 1);
    let mut service = RetryLayer::http(AT_ONCE).keeping(9).layer(limited);
    let request = Request::put("/").body(Full::from("ab")).unwrap();
    assert_eq!(service.ready().await.unwrap().call(request).await.unwrap().into_body(), "ab");
}
