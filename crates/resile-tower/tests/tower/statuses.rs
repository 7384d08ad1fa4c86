//! The end of a call of gRPC that its server has answered.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use resile_tower::resile::error::Boxed;
use resile_tower::resile::observe::{Event, EventKind, Observe};
use resile_tower::resile::{
    Breaker, Budget, GaveUp, Health, Never, StopReason, Upstream, Verdict, retry,
};
use resile_tower::resile_clients;
use resile_tower::resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_tower::resile_clients::grpc::Pushback;
use resile_tower::{BoxError, RetryLayer};
use tonic::{ConnectError, Status, TimeoutExpired};
use tower::{Layer, ServiceExt, service_fn};

use super::grpc::{SEVEN_SECONDS, request};
use super::retries::AT_ONCE;

/// Keeps the `error.type` and the line of each end of a call.
pub(crate) struct Ends(Mutex<Vec<(String, String)>>);

impl Ends {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(crate) fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observe for Ends {
    fn observe(&self, event: &Event<'_>) {
        if let EventKind::GaveUp { error_type, .. } = event.kind {
            self.0.lock().unwrap().push((error_type.to_owned(), event.to_string()));
        }
    }
}

/// The line of a read says it in place of the reason, and that of an order behind it.
#[tokio::test(start_paused = true)]
async fn the_line_says_that_the_server_asks_for_no_retry() {
    static ENDS: Ends = Ends::new();
    static WEATHER: Upstream = Upstream::new("weather").with_observer(&ENDS);
    let channel = service_fn(async |_: Request<String>| {
        let answer = Response::builder().header("grpc-status", "14").header("grpc-message", "down");
        let answer = answer.header("grpc-retry-pushback-ms", "-1");
        Ok::<_, Infallible>(answer.body(()).unwrap())
    });
    for (idempotency, line) in [
        (Idempotent, "the upstream asks for no retry: /weather.Weather/Get: UNAVAILABLE: down"),
        (
            NotIdempotent,
            "the request may have been executed and must not be sent again, \
             the upstream asks for no retry: /weather.Weather/Get: UNAVAILABLE: down",
        ),
    ] {
        let service = RetryLayer::grpc(AT_ONCE, idempotency).on(&WEATHER).layer(channel);
        let answer = service.oneshot(request()).await.unwrap();
        let logged = format!("weather: gave up after 1 of 4 attempts, {line}");
        assert_eq!(ENDS.take()[0].1, logged);
        let gave_up = answer.extensions().get::<Arc<GaveUp<Boxed>>>().unwrap();
        assert_eq!(format!("{gave_up:#}"), format!("weather: gave up after 1 attempt, {line}"));
        assert!(line.starts_with(gave_up.to_string().split_once("attempt, ").unwrap().1));
    }
}

/// The facts that a call tells at its end.
type End = (StopReason, u32, bool, Option<Verdict>, String, bool, &'static str);

/// Returns what the words of an end say of the effect of its request.
fn effect(words: &str) -> &'static str {
    match (words.contains(", without effect"), words.contains("may have been executed")) {
        (true, false) => "none",
        (false, true) => "not known",
        (false, false) => "",
        (true, true) => panic!("{words}"),
    }
}

fn end<E>(gave_up: &GaveUp<E>, ends: &Ends) -> End {
    let (word, line) = ends.take().remove(0);
    let is_without_effect = gave_up.is_without_effect();
    let (attempts, verdict) = (gave_up.attempts(), gave_up.verdict());
    let told = effect(&gave_up.to_string());
    assert_eq!(effect(&line), told, "{line}");
    (gave_up.reason(), attempts, gave_up.is_in_doubt(), verdict, word, is_without_effect, told)
}

/// The layer and a retry around the call of the generated client are two ways to one end.
#[tokio::test(start_paused = true)]
async fn each_status_that_is_not_ok_ends_a_call_as_around_it() {
    static ENDS: Ends = Ends::new();
    static WEATHER: Upstream = Upstream::new("weather").with_observer(&ENDS);
    let codes = (1..=17).map(|code: i32| code.to_string()).chain(["99".into(), "odd".into()]);
    let extras: [Option<(&str, &str)>; 4] = [
        None,
        Some((Pushback::NAME, "0")),
        Some((Pushback::NAME, "-1")),
        Some(("grpc-status-details-bin", SEVEN_SECONDS)),
    ];
    for (code, extra) in codes.flat_map(|code| extras.map(|extra| (code.clone(), extra))) {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", HeaderValue::try_from(&code).unwrap());
        if let Some((name, value)) = extra {
            let name = HeaderName::from_static(name);
            headers.insert(name, HeaderValue::from_static(value));
        }
        for idempotency in [Idempotent, NotIdempotent] {
            let headers = &headers;
            let channel = service_fn(move |_: Request<String>| async move {
                let mut answer = Response::new(());
                answer.headers_mut().clone_from(headers);
                Ok::<_, Infallible>(answer)
            });
            let service = RetryLayer::grpc(AT_ONCE, idempotency).on(&WEATHER).layer(channel);
            let answer = service.oneshot(request()).await.unwrap();
            assert_eq!(answer.headers(), headers);
            let gave_up = answer.extensions().get::<Arc<GaveUp<Boxed>>>();
            let layer = gave_up.map(|gave_up| end(gave_up, &ENDS));

            let clients = match idempotency {
                Idempotent => resile_clients::Classifier::idempotent(),
                NotIdempotent => resile_clients::Classifier::non_idempotent(),
            };
            let call = async |_| Err::<(), _>(Status::from_header_map(headers).unwrap());
            let call = retry(call, AT_ONCE.with_classifier(clients), Never).on(&WEATHER);
            let around = end(&call.await.unwrap_err(), &ENDS);
            assert_eq!(layer, Some(around), "{code} {extra:?} {idempotency:?}");
            let is_refused = match extra {
                None => ["3", "5", "6", "7", "9", "12", "16"].contains(&&*code),
                Some((name, _)) if name == Pushback::NAME => false,
                Some(_) => ["3", "5", "6", "7", "8", "9", "10", "12", "16"].contains(&&*code),
            };
            let (_, _, is_in_doubt, _, _, is_without_effect, told) = layer.unwrap();
            assert_eq!(is_without_effect, is_refused, "{code} {extra:?} {idempotency:?}");
            // That of a read says nothing, and that of an order always what its caller needs.
            let (doubt, words) = match (idempotency, is_refused) {
                (Idempotent, _) => (false, ""),
                (NotIdempotent, true) => (false, "none"),
                (NotIdempotent, false) => (true, "not known"),
            };
            assert_eq!((is_in_doubt, told), (doubt, words), "{code} {extra:?} {idempotency:?}");
        }
    }
    // This one is good.
    let channel = service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(Response::builder().header("grpc-status", "0").body(()).unwrap())
    });
    let service = RetryLayer::grpc(AT_ONCE, Idempotent).layer(channel);
    let answer = service.oneshot(request()).await.unwrap();
    assert!(answer.extensions().get::<Arc<GaveUp<Boxed>>>().is_none());
}

/// After a retry such a status often tells that the first attempt was executed.
#[tokio::test(start_paused = true)]
async fn a_final_status_is_no_success() {
    static ENDS: Ends = Ends::new();
    static WEATHER: Upstream = Upstream::new("weather")
        .with_budget(Budget::new().with_deposit(1.0))
        .with_breaker(Breaker::new().with_consecutive(3))
        .with_observer(&ENDS);
    let calls = &AtomicU32::new(0);
    let channel = service_fn(move |_: Request<String>| async move {
        let is_first = calls.fetch_add(1, Relaxed) == 0;
        let (code, words) = if is_first { ("14", "down") } else { ("6", "order 7 exists") };
        let answer = Response::builder().header("grpc-status", code).header("grpc-message", words);
        Ok::<_, Infallible>(answer.body(()).unwrap())
    });
    let service = RetryLayer::grpc(AT_ONCE, Idempotent).on(&WEATHER).layer(channel);
    let answer = service.clone().oneshot(request()).await.unwrap();
    assert_eq!(answer.headers()["grpc-message"], "order 7 exists");
    let line = "weather: gave up after 2 of 4 attempts, the error is final: \
                /weather.Weather/Get: ALREADY_EXISTS: order 7 exists";
    assert_eq!(ENDS.take(), [("ALREADY_EXISTS".to_owned(), line.to_owned())]);
    // Nothing is paid in, and the breaker sees a server that works.
    let budget = WEATHER.budget().unwrap();
    let left = budget.available();
    assert!(left < budget.capacity(), "{left}");
    for _ in 0..10 {
        service.clone().oneshot(request()).await.unwrap();
    }
    assert_eq!(budget.available(), left);
}

/// An error of `hyper`, whose kind only `Debug` tells to a crate without it.
struct Closed;

impl fmt::Debug for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hyper::Error(Canceled, \"connection closed\")")
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("operation was canceled: connection closed")
    }
}

impl Error for Closed {}

/// `tonic` makes this status of the error only with its transport.
fn closed() -> BoxError {
    let mut status = Status::cancelled("operation was canceled");
    status.set_source(Arc::new(Closed));
    status.into()
}

fn not_connected(kind: ErrorKind, words: &'static str) -> BoxError {
    ConnectError(io::Error::new(kind, words).into()).into()
}

/// `tonic` makes a status of each error, and a retry around the call judges that one.
#[tokio::test(start_paused = true)]
async fn each_error_of_the_transport_ends_a_call_as_around_it() {
    static ENDS: Ends = Ends::new();
    static WEATHER: Upstream = Upstream::new("weather").with_observer(&ENDS);
    const NO_NAME: &str = "failed to lookup address information: Name or service not known";
    let errors: [(fn() -> BoxError, _, _); 9] = [
        (|| not_connected(ErrorKind::ConnectionRefused, "refused"), (4, false), Health::Failing),
        (|| not_connected(ErrorKind::Other, NO_NAME), (1, false), Health::Unknown),
        (|| not_connected(ErrorKind::InvalidData, "bad certificate"), (1, false), Health::Unknown),
        (|| ConnectError("no route".into()).into(), (4, false), Health::Failing),
        (closed, (4, false), Health::Unknown),
        (|| TimeoutExpired(()).into(), (1, true), Health::Failing),
        (|| io::Error::from(ErrorKind::ConnectionReset).into(), (1, true), Health::Failing),
        (|| Status::data_loss("the disk is broken").into(), (1, true), Health::Failing),
        (|| Status::not_found("no such city").into(), (1, false), Health::Healthy),
    ];
    for (error, order, health) in errors {
        for idempotency in [Idempotent, NotIdempotent] {
            let channel = service_fn(move |_: Request<String>| async move {
                Err::<Response<()>, BoxError>(error())
            });
            let service = RetryLayer::grpc(AT_ONCE, idempotency).on(&WEATHER).layer(channel);
            let layer = end(&service.oneshot(request()).await.unwrap_err(), &ENDS);
            let clients = match idempotency {
                Idempotent => resile_clients::Classifier::idempotent(),
                NotIdempotent => resile_clients::Classifier::non_idempotent(),
            };
            let call = async |_| Err::<(), _>(Status::from_error(error()));
            let call = retry(call, AT_ONCE.with_classifier(clients), Never).on(&WEATHER);
            let around = end(&call.await.unwrap_err(), &ENDS);
            assert_eq!(layer, around, "{:?} {idempotency:?}", error());
            assert_eq!(layer.3.unwrap().health(), health, "{:?}", error());
            if idempotency == NotIdempotent {
                assert_eq!((layer.1, layer.2), order, "{:?}", error());
                let told = if layer.2 { "not known" } else { "none" };
                assert_eq!(layer.6, told, "{:?}", error());
            }
        }
    }
}
