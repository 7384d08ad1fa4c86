//! `RetryLayer::grpc`: the status and the pushback of the server.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use http::{Request, Response};
use resile_tower::deadline::TimeLeftLayer;
use resile_tower::resile::http::Classifier;
use resile_tower::resile::{Breaker, Classify, StopReason, Upstream};
use resile_tower::resile_clients;
use resile_tower::resile_clients::Idempotency::{self, Idempotent, NotIdempotent};
use resile_tower::resile_clients::grpc::Pushback;
use resile_tower::{BoxError, RetryLayer, UpstreamLayer};
use tokio::time::Instant;
use tonic::{ConnectError, Status, TimeoutExpired};
use tower::{Layer, ServiceExt, service_fn};

use super::retries::AT_ONCE;
use super::statuses::Ends;

/// Returns the number of requests that the server gets and the time they take. The first answer has
/// these headers, and the second one is good.
async fn asked(
    idempotency: Idempotency,
    headers: &'static [(&'static str, &'static str)],
    request: Request<String>,
) -> (u32, Duration) {
    let calls = &AtomicU32::new(0);
    let server = service_fn(move |_: Request<String>| async move {
        let mut answer = Response::builder().header("content-type", "application/grpc");
        if calls.fetch_add(1, Relaxed) == 0 {
            answer =
                headers.iter().fold(answer, |answer, (name, value)| answer.header(*name, *value));
        }
        Ok::<_, Infallible>(answer.body(()).unwrap())
    });
    let began = Instant::now();
    let service = RetryLayer::grpc(AT_ONCE, idempotency).layer(server);
    service.oneshot(request).await.unwrap();
    (calls.load(Relaxed), began.elapsed())
}

pub(crate) fn request() -> Request<String> {
    Request::post("/weather.Weather/Get").body(String::new()).unwrap()
}

/// Ends each request at its `grpc-timeout`, as a channel of `tonic` does. Keeps the headers.
macro_rules! ending_at_the_header {
    ($told:ident) => {
        service_fn(move |request: Request<String>| async move {
            let told = request.headers()["grpc-timeout"].to_str().unwrap().to_owned();
            let millis = told.strip_suffix('m').unwrap().parse().unwrap();
            $told.lock().unwrap().push(told);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            let cancelled = Response::builder().header("grpc-status", "1");
            Ok::<_, Infallible>(cancelled.body(()).unwrap())
        })
    };
}

/// Both would end the attempt at the same time, and a channel calls its end `CANCELLED`.
#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_request_cuts_its_attempts_before_the_channel_does() {
    let limited = AT_ONCE.with_attempt_timeout(Duration::from_millis(100));
    for (policy, least, told_by_layer, total) in
        [(AT_ONCE, "200ms", ["250m", "250m"], 800), (limited, "100ms", ["250m", "150m"], 400)]
    {
        for with_left in [false, true] {
            let told = &Mutex::new(Vec::new());
            let layer = RetryLayer::grpc(policy, Idempotent);
            let mut read = request();
            read.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
            read.headers_mut().insert("grpc-timeout", "200m".parse().unwrap());
            let began = Instant::now();
            let channel = ending_at_the_header!(told);
            let gave_up = if with_left {
                let below = TimeLeftLayer::new().layer(channel);
                layer.layer(below).oneshot(read).await.unwrap_err()
            } else {
                layer.layer(channel).oneshot(read).await.unwrap_err()
            };
            assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Attempts, 4));
            assert!(gave_up.to_string().contains(&format!("did not finish within {least}")));
            assert_eq!(began.elapsed(), Duration::from_millis(total));
            assert_eq!(*told.lock().unwrap(), [told_by_layer[usize::from(with_left)]; 4]);
        }
    }
    // One attempt through an upstream, whose own limit is longer.
    let told = &Mutex::new(Vec::new());
    let second = Duration::from_secs(1);
    let once = UpstreamLayer::grpc("weather").with_attempt_timeout(second);
    let mut read = request();
    read.headers_mut().insert("grpc-timeout", "200m".parse().unwrap());
    let gave_up = once.layer(ending_at_the_header!(told)).oneshot(read).await.unwrap_err();
    assert!(gave_up.to_string().contains("did not finish within 200ms"), "{gave_up}");
    assert_eq!(*told.lock().unwrap(), ["250m"]);
}

/// A server other than one of `tonic` would end a stream of answers at the time that it is told.
#[tokio::test(start_paused = true)]
async fn a_policy_without_timeouts_tells_no_time() {
    for (policy, is_told) in [
        (AT_ONCE, false),
        (AT_ONCE.with_attempt_timeout(Duration::from_secs(1)), true),
        (AT_ONCE.with_total_timeout(Duration::from_secs(1)), true),
    ] {
        let channel = service_fn(async |request: Request<String>| {
            let is_told = request.headers().contains_key("grpc-timeout");
            Ok::<_, Infallible>(Response::new(is_told))
        });
        let layer = RetryLayer::grpc(policy, Idempotent);
        let mut read = request();
        read.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        let answer = layer.layer(TimeLeftLayer::new().layer(channel)).oneshot(read).await.unwrap();
        assert_eq!(answer.into_body(), is_told);
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_in_the_headers_decides() {
    for (headers, idempotent, not) in [
        (&[("grpc-status", "14")][..], 2, 1),
        (&[("grpc-status", "0")], 1, 1),
        (&[("grpc-status", "5"), ("grpc-message", "no such city")], 1, 1),
        (&[("grpc-status", "2")], 2, 1),
        (&[("grpc-status", "4")], 1, 1),
        (&[("grpc-status", "odd")], 2, 1),
        (&[("grpc-status", "99")], 2, 1),
        (&[], 1, 1),
        (&[("grpc-status", "14"), ("grpc-retry-pushback-ms", "-1")], 1, 1),
    ] {
        assert_eq!(asked(Idempotent, headers, request()).await.0, idempotent, "{headers:?}");
        assert_eq!(asked(NotIdempotent, headers, request()).await.0, not, "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_says_when() {
    let headers = &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "2500")];
    let (calls, took) = asked(Idempotent, headers, request()).await;
    assert_eq!(calls, 2);
    assert!(took >= Duration::from_millis(2500));
}

/// `google.rpc.Status` with the code 8, the message "slow down" and a `google.rpc.RetryInfo` of 7 s.
pub(crate) const SEVEN_SECONDS: &str = "CAgSCXNsb3cgZG93bhowCih0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUm\
    V0cnlJbmZvEgQKAggH";

#[tokio::test(start_paused = true)]
async fn the_details_say_when_and_that_an_order_may_come_again() {
    const DETAILS: &str = "grpc-status-details-bin";
    let seven = Duration::from_secs(7);
    let limited = &[("grpc-status", "8"), (DETAILS, SEVEN_SECONDS)];
    for idempotency in [Idempotent, NotIdempotent] {
        let (calls, took) = asked(idempotency, limited, request()).await;
        assert_eq!(calls, 2);
        assert!(took >= seven, "{took:?}");
    }
    let failing = &[("grpc-status", "14"), (DETAILS, SEVEN_SECONDS)];
    assert_eq!(asked(NotIdempotent, failing, request()).await.0, 1);
    // The pushback goes first.
    let both = &[("grpc-status", "8"), (DETAILS, SEVEN_SECONDS), (Pushback::NAME, "9000")];
    assert!(asked(Idempotent, both, request()).await.1 >= Duration::from_secs(9));
    let stop = &[("grpc-status", "8"), (DETAILS, SEVEN_SECONDS), (Pushback::NAME, "-1")];
    assert_eq!(asked(Idempotent, stop, request()).await.0, 1);
    // Unreadable details are as none.
    let odd = &[("grpc-status", "8"), (DETAILS, "?")];
    let (calls, took) = asked(Idempotent, odd, request()).await;
    assert!(calls == 2 && took < seven, "{calls} {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_breaker_sees_the_status() {
    static WEATHER: Upstream =
        Upstream::new("weather").with_breaker(Breaker::new().with_consecutive(1));
    let channel = service_fn(async |_: Request<String>| {
        let answer = Response::builder().header("grpc-status", "14").header("grpc-message", "down");
        Ok::<_, Infallible>(answer.body(()).unwrap())
    });
    let service = UpstreamLayer::grpc(&WEATHER).layer(channel);
    let answer = service.clone().oneshot(request()).await.unwrap();
    assert_eq!(answer.headers()["grpc-message"], "down");
    assert_eq!(service.oneshot(request()).await.unwrap_err().reason(), StopReason::Open);
}

/// A call of the generated client has a status, and the layer below it has the error. Both have one word, and
/// the same words.
#[tokio::test(start_paused = true)]
async fn an_error_of_the_transport_has_the_word_of_its_status() {
    static ENDS: Ends = Ends::new();
    static WEATHER: Upstream = Upstream::new("weather").with_observer(&ENDS);
    fn refused() -> BoxError {
        ConnectError(io::Error::from(ErrorKind::ConnectionRefused).into()).into()
    }
    let errors: [(fn() -> BoxError, _); 4] = [
        (refused, "UNAVAILABLE"),
        (|| TimeoutExpired(()).into(), "CANCELLED"),
        (|| io::Error::from(ErrorKind::ConnectionReset).into(), "UNKNOWN"),
        (|| Status::data_loss("the disk is broken").into(), "DATA_LOSS"),
    ];
    for (error, word) in errors {
        let status = Status::from_error(error());
        let clients = resile_clients::Classifier::idempotent();
        assert_eq!(clients.error_type(&status).as_deref(), Some(word));

        let channel =
            service_fn(
                move |_: Request<String>| async move { Err::<Response<()>, BoxError>(error()) },
            );
        let service = RetryLayer::grpc(AT_ONCE, Idempotent).on(&WEATHER).layer(channel);
        let gave_up = service.oneshot(request()).await.unwrap_err();
        let (logged, line) = ENDS.take().remove(0);
        assert_eq!(logged, word);
        let words = format!("{:#}", resile_clients::grpc::Failure::from(status));
        assert!(line.ends_with(&format!(": /weather.Weather/Get: {words}")), "{line}");
        // The error itself stays as it is.
        let last = gave_up.into_last().unwrap().into_inner();
        assert_eq!(last.to_string(), error().to_string());
        assert_eq!(last.is::<ConnectError>(), error().is::<ConnectError>());
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_replaces_the_idempotency_of_the_layer() {
    let headers = &[("grpc-status", "14")];
    let mut read = request();
    read.extensions_mut().insert(Classifier::idempotent());
    assert_eq!(asked(NotIdempotent, headers, read).await.0, 2);
    // That of the crate of the codes is as good.
    let mut read = request();
    read.extensions_mut().insert(resile_clients::Classifier::idempotent());
    assert_eq!(asked(NotIdempotent, headers, read).await.0, 2);
    // So is the answer to its question alone.
    let mut read = request();
    read.extensions_mut().insert(Idempotent);
    assert_eq!(asked(NotIdempotent, headers, read).await.0, 2);
    let mut order = request();
    order.extensions_mut().insert(NotIdempotent);
    assert_eq!(asked(Idempotent, headers, order).await.0, 1);
    let mut order = request();
    order.extensions_mut().insert(resile_clients::Classifier::non_idempotent());
    assert_eq!(asked(Idempotent, headers, order).await.0, 1);
}

/// The settings of the layer name methods that may be executed twice, and a request still says it better.
#[tokio::test(start_paused = true)]
async fn a_listed_method_may_be_executed_twice() {
    const LISTED: &[&str] = &["/weather.Weather/List", "/weather.Weather/Get"];
    let asked = async |request: Request<String>, twice| {
        let calls = &AtomicU32::new(0);
        let down = service_fn(move |_: Request<String>| async move {
            calls.fetch_add(1, Relaxed);
            let answer = Response::builder().header("grpc-status", "14").body(()).unwrap();
            Ok::<_, Infallible>(answer)
        });
        let layer = RetryLayer::grpc(AT_ONCE, NotIdempotent).with_idempotent(twice);
        layer.layer(down).oneshot(request).await.unwrap();
        calls.load(Relaxed)
    };
    let to = |uri: &str| Request::post(uri).body(String::new()).unwrap();
    assert_eq!(asked(request(), LISTED).await, AT_ONCE.attempts());
    assert_eq!(asked(to("http://weather/weather.Weather/Get"), LISTED).await, AT_ONCE.attempts());
    assert_eq!(asked(request(), &["weather.Weather/Get"]).await, AT_ONCE.attempts());
    assert_eq!(asked(request(), &[]).await, 1);
    for other in ["", "/", "Get", "Weather/Get", "//weather.Weather/Get"] {
        let listed = vec![other].leak();
        assert_eq!(asked(request(), listed).await, 1, "{other}");
    }
    assert_eq!(asked(to("/weather.Weather/Order"), LISTED).await, 1);
    assert_eq!(asked(to("/weather.Weather/Get/"), LISTED).await, 1);
    let mut order = request();
    order.extensions_mut().insert(NotIdempotent);
    assert_eq!(asked(order, LISTED).await, 1);
}
