//! The place that a request went to: in the words of its failures, and of its layer in the source.

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next};
use resile_tower::reqwest_middleware_0_5::RetryMiddleware;
use resile_tower::resile::Upstream;
use resile_tower::resile::observe::{Event, EventKind, Observe};
use resile_tower::resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_tower::{RetryLayer, UpstreamLayer};
use tokio::time::timeout;
use tower::{Layer, ServiceExt, service_fn};

use super::retries::AT_ONCE;
use super::server::{Does, Server};

/// Keeps the words of each end of a call, and the line of its layer.
struct Ends(Mutex<Vec<(String, u32)>>);

impl Ends {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn take(&self) -> Vec<(String, u32)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observe for Ends {
    fn observe(&self, event: &Event<'_>) {
        if let (EventKind::GaveUp { failure, .. }, Some(call)) = (&event.kind, &event.call) {
            assert_eq!(call.site.file(), file!());
            self.0.lock().unwrap().push((failure.to_string(), call.site.line()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_failure_names_the_place_of_its_request() {
    static ENDS: Ends = Ends::new();
    static STORE: Upstream = Upstream::new("store").with_observer(&ENDS);
    let request = |path: &str| Request::post(path).body(String::new()).unwrap();
    let down = service_fn(async |request: Request<String>| {
        match request.uri().path() {
            "/cut" => Err(io::Error::from(ErrorKind::ConnectionReset)),
            "/store.Store/Order" => Ok(Response::builder().header("grpc-status", "14")),
            _ => Ok(Response::builder().status(503)),
        }
        .map(|answer| answer.header("grpc-message", "down").body(()).unwrap())
    });
    let (http, http_line) = (RetryLayer::http(AT_ONCE).on(&STORE), line!());
    let (grpc, grpc_line) = (RetryLayer::grpc(AT_ONCE, NotIdempotent).on(&STORE), line!());
    let (once, once_line) = (UpstreamLayer::http(&STORE), line!());
    let (rpc, rpc_line) = (UpstreamLayer::grpc(&STORE), line!());

    let _ = http.layer(down).oneshot(request("/orders?token=secret")).await;
    let _ = http.layer(down).oneshot(request("/cut")).await;
    let _ = grpc.layer(down).oneshot(request("/store.Store/Order")).await;
    let _ = once.layer(down).oneshot(request("http://store/orders")).await;
    let _ = rpc.layer(down).oneshot(request("/store.Store/Order")).await;
    let seen = ENDS.take();
    let seen: Vec<_> = seen.iter().map(|(words, line)| (words.as_str(), *line)).collect();
    assert_eq!(
        seen,
        [
            ("POST /orders: 503 Service Unavailable", http_line),
            ("POST /cut: connection reset", http_line),
            ("/store.Store/Order: UNAVAILABLE: down", grpc_line),
            ("POST /orders: 503 Service Unavailable", once_line),
            ("/store.Store/Order: UNAVAILABLE: down", rpc_line),
        ]
    );
}

/// A layer has one call site for all requests, so the place alone tells what a call that recovered was.
#[tokio::test(start_paused = true)]
async fn a_recovered_call_names_the_place_of_its_request() {
    let (seen, attempts) = (Arc::new(Mutex::new(Vec::new())), AtomicU32::new(0));
    let lines = Arc::clone(&seen);
    let note = move |event: &Event<'_>| {
        if let EventKind::Succeeded { .. } = event.kind {
            lines.lock().unwrap().push(event.to_string());
        }
    };
    let store = Arc::new(Upstream::new("store").with_shared_observer(note));
    let restarts = service_fn(async |_: Request<String>| {
        let is_first = attempts.fetch_add(1, Relaxed) == 0;
        let status = if is_first { "14" } else { "0" };
        Ok::<_, Infallible>(Response::builder().header("grpc-status", status).body(()).unwrap())
    });
    let layer = RetryLayer::grpc(AT_ONCE, Idempotent).on(store);
    let request = Request::post("/store.Store/Stock").body(String::new()).unwrap();
    layer.layer(restarts).oneshot(request).await.unwrap();
    let words = "store: attempt 2 of 4 succeeded (request: /store.Store/Stock)";
    assert_eq!(*seen.lock().unwrap(), [words]);
}

/// A cut attempt has no error, but the layer knows its request.
#[tokio::test(start_paused = true)]
async fn a_cut_attempt_names_the_place_of_its_request() {
    static ENDS: Ends = Ends::new();
    static STORE: Upstream = Upstream::new("store").with_observer(&ENDS);
    const SECOND: Duration = Duration::from_secs(1);
    let stuck = service_fn(async |_: Request<String>| {
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(()))
    });
    let request = |path: &str| Request::post(path).body(String::new()).unwrap();
    let policy = AT_ONCE.with_attempt_timeout(SECOND);
    let late = AT_ONCE.with_total_timeout(SECOND);

    let http = RetryLayer::http(policy).on(&STORE).layer(stuck);
    let _ = http.oneshot(request("/orders?token=secret")).await;
    let http = RetryLayer::http(late).judging(|_: &Response<()>| None).on(&STORE).layer(stuck);
    let _ = http.oneshot(request("/late")).await;
    let grpc = RetryLayer::grpc(policy, NotIdempotent).on(&STORE).layer(stuck);
    let _ = grpc.oneshot(request("/store.Store/Order")).await;
    let once = UpstreamLayer::http(&STORE).with_attempt_timeout(SECOND).layer(stuck);
    let _ = once.oneshot(request("/orders")).await;
    let plain = RetryLayer::new(policy).on(&STORE).layer(stuck);
    let _ = plain.oneshot(request("/orders")).await;
    let seen: Vec<_> = ENDS.take().into_iter().map(|(words, _)| words).collect();
    assert_eq!(
        seen,
        [
            "POST /orders: did not finish within 1s",
            "POST /late: did not finish before the deadline of the call after 1s",
            "/store.Store/Order: did not finish within 1s",
            "POST /orders: did not finish within 1s",
            "did not finish within 1s", // nobody knows a place
        ]
    );
}

/// The line is the only trace of a call that the program drops, in each form of a client.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_names_its_place_and_its_layer() {
    static SEEN: Mutex<Vec<(String, u32)>> = Mutex::new(Vec::new());
    static STORE: Upstream = Upstream::new("store").with_observer(&|event: &Event<'_>| {
        if let (EventKind::Dropped { .. }, Some(call)) = (&event.kind, &event.call) {
            assert_eq!(call.site.file(), file!());
            SEEN.lock().unwrap().push((event.to_string(), call.site.line()));
        }
    });
    const SECOND: Duration = Duration::from_secs(1);
    let stuck = service_fn(async |_: Request<String>| {
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(()))
    });
    let post = |path: &str| Request::post(path).body(String::new()).unwrap();
    let (layer, layer_line) = (RetryLayer::http(AT_ONCE).on(&STORE), line!());
    let (once, once_line) = (UpstreamLayer::http(&STORE), line!());
    let (retries, line) = (RetryMiddleware::new(AT_ONCE).on(&STORE), line!());
    let client = ClientBuilder::new(reqwest::Client::new()).with(retries).with(Below(None)).build();

    let _ = timeout(SECOND, layer.layer(stuck).oneshot(post("/orders?token=secret"))).await;
    let _ = timeout(SECOND, once.layer(stuck).oneshot(post("/orders"))).await;
    let _ = timeout(SECOND, client.post("http://store/orders?token=secret").send()).await;
    let _ = timeout(SECOND, client.get("http://store/stock").send()).await;
    let told = "store: dropped in flight in attempt 1 after 1.0s";
    let doubt = "the request may have been executed and must not be sent again";
    let order = |place: &str| format!("{told}, {doubt} (request: {place})");
    assert_eq!(
        *SEEN.lock().unwrap(),
        [
            (order("POST /orders"), layer_line),
            (order("POST /orders"), once_line),
            (order("POST http://store/orders"), line),
            (told.to_owned(), line),
        ]
    );
}

/// A call without a path, such as one of another protocol, has an answer too.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_path_has_its_method_alone() {
    static ENDS: Ends = Ends::new();
    static PROXY: Upstream = Upstream::new("proxy").with_observer(&ENDS);
    let down = service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(Response::builder().status(503).body(()).unwrap())
    });
    let connect = Request::connect("store:443").body(String::new()).unwrap();
    let _ = RetryLayer::http(AT_ONCE).on(&PROXY).layer(down).oneshot(connect).await;
    let seen = ENDS.take();
    assert_eq!(seen[0].0, "CONNECT: 503 Service Unavailable");
}

/// A middleware below that returns an error of its own, or nothing for ever.
struct Below(Option<&'static str>);

#[async_trait::async_trait]
impl Middleware for Below {
    async fn handle(
        &self,
        _: reqwest::Request,
        _: &mut http::Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        match self.0 {
            Some(words) => Err(reqwest_middleware::Error::middleware(io::Error::other(words))),
            None => pending().await,
        }
    }
}

/// The query and the credentials of a URL may have secrets. An error of `reqwest` has the URL itself.
#[tokio::test(start_paused = true)]
async fn each_failure_of_the_middleware_names_the_place_of_its_request() {
    static ENDS: Ends = Ends::new();
    static STORE: Upstream = Upstream::new("store").with_observer(&ENDS);
    let client = |below: Option<Below>| {
        let http = reqwest::Client::builder().retry(reqwest::retry::never()).build().unwrap();
        // The paused clock jumps while a real socket is slow, so a real answer has no timeout.
        let hangs = matches!(below, Some(Below(None)));
        let limited = AT_ONCE.with_attempt_timeout(Duration::from_secs(1));
        let policy = if hangs { limited } else { AT_ONCE };
        let ours = ClientBuilder::new(http).with(RetryMiddleware::new(policy).on(&STORE));
        below.into_iter().fold(ours, ClientBuilder::with).build()
    };
    let [down, closes] =
        [Server::start(&[Does::Answer(503)]).await, Server::start(&[Does::Close]).await];
    let (at, lost) = (down.address, closes.address);
    let url = |address| format!("http://user:secret@{address}/orders?token=secret#secret");

    let _ = client(None).post(url(at)).send().await;
    let _ = client(Some(Below(None))).post(url(at)).send().await;
    let _ = client(Some(Below(Some("no token")))).post(url(at)).send().await;
    let _ = client(None).post(url(lost)).send().await;
    let seen: Vec<_> = ENDS.take().into_iter().map(|(words, _)| words).collect();
    let place = format!("POST http://{at}/orders");
    assert_eq!(
        seen[..3],
        [
            format!("{place}: 503 Service Unavailable"),
            format!("{place}: did not finish within 1s"),
            format!("{place}: a middleware failed: no token"),
        ]
    );
    let words = format!("POST: no answer from http://{lost}/orders: connection closed");
    assert!(seen[3].starts_with(&words), "{}", seen[3]);
    assert_eq!(seen[3].matches(&format!("http://{lost}/orders")).count(), 1, "{}", seen[3]);
    assert!(!seen.concat().contains("secret"), "{seen:?}");
}
