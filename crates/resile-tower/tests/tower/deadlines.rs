//! Deadlines that arrive in a header, hold, and leave in one.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderName, Request, Response};
use resile_tower::deadline::{Deadline, DeadlineLayer, TimeLeftLayer, until_deadline};
use resile_tower::resile::breaker::State;
use resile_tower::resile::classify::Always;
use resile_tower::resile::{Backoff, Breaker, Bulkhead, Jitter, RetryPolicy, StopReason, Upstream};
use resile_tower::{RetryLayer, UpstreamLayer};
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

use super::script::{Script, Step};

const SECOND: Duration = Duration::from_secs(1);
const PLAIN: &str = "x-envoy-expected-rq-timeout-ms";

/// Returns what a handler has left after a request with these headers.
async fn left(headers: &[(&str, &str)]) -> Option<Duration> {
    let handler = service_fn(async |request: Request<()>| {
        let current = Deadline::current();
        assert_eq!(request.extensions().get(), current.as_ref());
        Ok::<_, Infallible>(Response::new(current.map(Deadline::left)))
    });
    let request =
        headers.iter().fold(Request::get("/"), |all, (name, value)| all.header(*name, *value));
    let service = DeadlineLayer::new(SECOND * 30).layer(handler);
    let answer = service.oneshot(request.body(()).unwrap()).await.unwrap();
    if answer.status() == 200 { answer.into_body() } else { None }
}

#[tokio::test(start_paused = true)]
async fn the_shorter_header_counts_up_to_the_maximum() {
    let millis = |millis| Some(Duration::from_millis(millis));
    for (headers, want) in [
        (&[][..], millis(30_000)),
        (&[("grpc-timeout", "250m")], millis(250)),
        (&[(PLAIN, "1500")], millis(1_500)),
        (&[(PLAIN, "1500"), ("grpc-timeout", "1S")], millis(1_000)),
        (&[(PLAIN, "500"), ("grpc-timeout", "1S")], millis(500)),
        (&[("grpc-timeout", "1H")], millis(30_000)),
        // Unreadable values are ignored.
        (&[(PLAIN, "soon")], millis(30_000)),
        (&[(PLAIN, "-5"), ("grpc-timeout", "2S")], millis(2_000)),
        (&[("grpc-timeout", "123456789m")], millis(30_000)),
        // No time is left.
        (&[(PLAIN, "0")], None),
        (&[("grpc-timeout", "0n")], None),
    ] {
        assert_eq!(left(headers).await, want, "{headers:?}");
    }
}

/// The time of a header counts as told, also if the maximum is less. A deadline of the program is told too.
#[tokio::test(start_paused = true)]
async fn a_deadline_says_whether_somebody_has_told_it() {
    let is_told = async |headers: &[(&str, &str)]| {
        let handler = service_fn(async |_: Request<()>| {
            let current = Deadline::current().unwrap();
            Ok::<_, Infallible>(Response::new(current.is_told()))
        });
        let request =
            headers.iter().fold(Request::get("/"), |all, (name, value)| all.header(*name, *value));
        let service = DeadlineLayer::new(SECOND * 30).layer(handler);
        service.oneshot(request.body(()).unwrap()).await.unwrap().into_body()
    };
    assert!(is_told(&[("grpc-timeout", "250m")]).await && is_told(&[("grpc-timeout", "1H")]).await);
    assert!(!is_told(&[]).await && !is_told(&[(PLAIN, "soon")]).await);
    assert!(Deadline::after(SECOND).is_told());
}

/// A caller of this family tells 50 ms more than it waits. A call in the handler ends before that caller does.
#[tokio::test(start_paused = true)]
async fn a_handler_of_grpc_ends_before_its_caller() {
    let content = ("content-type", "application/grpc");
    for (waits, told, want) in [
        (700, "750m", 650),
        (5_000, "5050m", 4_950),
        (150, "200m", 130),
        (10, "60m", 30), // half at least
        (30_000, "30050m", 29_950),
        (60_000, "60050m", 30_000),
    ] {
        let left = left(&[content, ("grpc-timeout", told)]).await.unwrap();
        assert_eq!(left, Duration::from_millis(want), "{told}");
        assert!(waits < 100 || left.as_millis() < waits, "{told}");
    }
    assert_eq!(left(&[content]).await, Some(SECOND * 30), "nobody has told a time");
}

#[tokio::test(start_paused = true)]
async fn a_handler_ends_at_the_deadline() {
    let handler = service_fn(async |_: Request<()>| {
        sleep(SECOND * 9).await;
        Ok::<_, Infallible>(Response::new(String::from("late")))
    });
    let service = DeadlineLayer::new(SECOND * 2).layer(handler);
    let began = Instant::now();
    let answer = service.clone().oneshot(Request::new(())).await.unwrap();
    assert_eq!((answer.status().as_u16(), began.elapsed()), (504, SECOND * 2));
    assert_eq!(answer.into_body(), "");
    let grpc = Request::post("/").header("content-type", "application/grpc+proto");
    let answer = service.oneshot(grpc.body(()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["grpc-status"], "4");
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_late_request_names_its_limit() {
    let handler = service_fn(async |_: Request<()>| {
        sleep(SECOND * 9).await;
        Ok::<_, Infallible>(Response::new(()))
    });
    let service = DeadlineLayer::new(SECOND * 2).layer(handler);
    for (timeout, words) in [
        (None, "the request did not finish within the 2s that the server allows"),
        (Some("5S"), "the request did not finish within the 2s that the server allows"),
        (
            Some("250m"),
            "the request did not finish within 175ms, and its caller told a timeout of 250ms",
        ),
        (
            Some("7u"),
            "the request did not finish within 3.5%C2%B5s, and its caller told a timeout of 7%C2%B5s",
        ),
        (Some("0m"), "the request arrived when its caller had no time left"),
    ] {
        let mut request = Request::post("/").header("content-type", "application/grpc");
        if let Some(timeout) = timeout {
            request = request.header("grpc-timeout", timeout);
        }
        let answer = service.clone().oneshot(request.body(()).unwrap()).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "4");
        assert_eq!(answer.headers()["grpc-message"], words, "{timeout:?}");
    }
}

/// The layer below ends its call at the same deadline, with an error.
#[tokio::test(start_paused = true)]
async fn an_error_at_the_deadline_is_the_same_answer() {
    let hang = service_fn(async |_: Request<()>| {
        std::future::pending::<()>().await;
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    let below = UpstreamLayer::http("self").layer(hang);
    let began = Instant::now();
    let server = DeadlineLayer::new(SECOND * 2).layer(below);
    let answer = server.oneshot(Request::new(())).await.unwrap();
    assert_eq!((answer.status().as_u16(), began.elapsed()), (504, SECOND * 2));
    let fails = service_fn(async |_: Request<()>| Err::<Response<String>, _>("early"));
    let early = DeadlineLayer::new(SECOND).layer(fails).oneshot(Request::new(())).await;
    assert_eq!(early.unwrap_err(), "early");
}

/// Runs the chain of a handler that asks an upstream twice, and returns what the upstream was told.
async fn told(policy: RetryPolicy) -> (u16, Vec<Option<String>>) {
    let told = &Mutex::new(Vec::new());
    let upstream = service_fn(move |request: Request<String>| async move {
        let value = request.headers().get(PLAIN).map(|value| value.to_str().unwrap().to_owned());
        told.lock().unwrap().push(value);
        sleep(SECOND).await;
        Ok::<_, Infallible>(Response::builder().status(503).body(()).unwrap())
    });
    let client = ServiceBuilder::new()
        .layer(RetryLayer::http(policy))
        .layer(TimeLeftLayer::new())
        .service(upstream);
    let handler = service_fn(move |_: Request<()>| {
        let client = client.clone();
        async move {
            let answer = client.oneshot(Request::new(String::new())).await;
            let status = answer.map_or(599, |answer| answer.status().as_u16());
            Ok::<_, Infallible>(Response::builder().status(status).body(String::new()).unwrap())
        }
    });
    let server = DeadlineLayer::new(SECOND * 10).layer(handler);
    let answer = server.oneshot(Request::new(())).await.unwrap();
    (answer.status().as_u16(), told.lock().unwrap().clone())
}

#[tokio::test(start_paused = true)]
async fn what_is_left_travels_to_the_next_hop() {
    let policy =
        RetryPolicy::new().with_backoff(Backoff::fixed(SECOND * 2).with_jitter(Jitter::None));
    let some = |millis: u32| Some(millis.to_string());
    let all = vec![some(10_000), some(7_000), some(4_000)];
    assert_eq!(told(policy).await, (503, all), "the deadline of the request");
    let own = policy.with_total_timeout(SECOND * 5);
    assert_eq!(told(own).await, (503, vec![some(5_000), some(2_000)]), "that of the policy");
    let limited = policy.with_attempt_timeout(SECOND * 3).with_attempts(2);
    assert_eq!(told(limited).await, (503, vec![some(3_000), some(3_000)]), "that of an attempt");
}

/// The limit of an attempt begins with the attempt, and not with the wait for its admission.
#[tokio::test(start_paused = true)]
async fn an_attempt_on_an_upstream_knows_what_is_left_for_it() {
    static STORE: Upstream = Upstream::new("store").with_bulkhead(Bulkhead::new(1).with_queue(1));
    let store =
        service_fn(async |_: u32| Ok::<_, Infallible>(Deadline::current().map(Deadline::left)));
    let layer = UpstreamLayer::new(&STORE, Always).with_attempt_timeout(SECOND * 3);
    let busy = STORE.try_admit().unwrap();
    let release = async {
        sleep(SECOND * 2).await;
        drop(busy);
    };
    let (left, ()) = tokio::join!(layer.clone().layer(store).oneshot(7), release);
    assert_eq!(left.unwrap(), Some(SECOND * 3));
    let whole = layer.with_total_timeout(SECOND * 2).layer(store).oneshot(7);
    assert_eq!(whole.await.unwrap(), Some(SECOND * 2));
}

/// A deadline that is current cuts a call whose policy has no total timeout.
#[tokio::test(start_paused = true)]
async fn the_current_deadline_ends_a_call() {
    for is_retry in [true, false] {
        let script = Script::new(&[Step::Hang]);
        let began = Instant::now();
        let call = async {
            if is_retry {
                RetryLayer::new(RetryPolicy::new()).layer(script.watch()).oneshot(7).await
            } else {
                UpstreamLayer::new("store", Always).layer(script.watch()).oneshot(7).await
            }
        };
        let call = timeout(SECOND * 60, Deadline::after(SECOND * 3).scope(call));
        let gave_up = call.await.expect("a deadline").unwrap_err();
        assert_eq!((gave_up.reason(), began.elapsed()), (StopReason::Deadline, SECOND * 3));
        assert_eq!(script.seen().alive, 0);
    }
}

/// Callers with little time left say nothing about the service, so they do not open its breaker for all.
#[tokio::test(start_paused = true)]
async fn a_caller_in_a_hurry_does_not_open_the_breaker() {
    for (left, is_open) in [(SECOND / 50, false), (SECOND * 3 / 4, true)] {
        for is_retry in [true, false] {
            let breaker = Breaker::new().with_consecutive(10);
            let store = Arc::new(Upstream::new("store").with_breaker(breaker));
            for _ in 0..10 {
                let script = Script::new(&[Step::Hang]);
                let store = Arc::clone(&store);
                let call = async {
                    if is_retry {
                        let policy = RetryPolicy::new()
                            .with_total_timeout(SECOND * 5)
                            .with_attempt_timeout(SECOND);
                        RetryLayer::new(policy).on(store).layer(script.watch()).oneshot(7).await
                    } else {
                        UpstreamLayer::new(store, Always)
                            .with_total_timeout(SECOND * 5)
                            .with_attempt_timeout(SECOND)
                            .layer(script.watch())
                            .oneshot(7)
                            .await
                    }
                };
                let gave_up = Deadline::after(left).scope(call).await.unwrap_err();
                assert_eq!(gave_up.reason(), StopReason::Deadline);
                assert_eq!(gave_up.elapsed(), left);
            }
            let state = store.breaker().unwrap().state();
            assert_eq!(state == State::Open, is_open, "{left:?} {is_retry} {state:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_never_lengthens_the_one_around_it() {
    let inner = async { Deadline::current().unwrap().left() };
    let outer = Deadline::after(SECOND).scope(Deadline::after(SECOND * 5).scope(inner));
    assert_eq!(outer.await, SECOND);
    assert_eq!(Deadline::current(), None);
    let panics = std::panic::AssertUnwindSafe(async {
        let poll = std::future::poll_fn(|_| -> std::task::Poll<()> { panic!("within the scope") });
        Deadline::after(SECOND).scope(poll).await;
    });
    assert!(tokio::spawn(panics.0).await.is_err());
    assert_eq!(Deadline::current(), None, "after a panic");
}

#[tokio::test(start_paused = true)]
async fn a_policy_ends_at_the_deadline_or_before_it() {
    let policy = RetryPolicy::new().with_attempt_timeout(SECOND * 3);
    assert_eq!(until_deadline(policy), policy);
    for (total, left, ends) in [(5, 2, 2), (5, 0, 0), (2, 5, 2), (u64::MAX, 5, 5)] {
        let policy = policy.with_total_timeout(Duration::from_secs(total));
        let shorter = async { until_deadline(policy) };
        let shorter = Deadline::after(SECOND * left).scope(shorter).await;
        assert_eq!(shorter.total_timeout(), Some(Duration::from_secs(ends)), "{total} {left}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_form_of_the_header_is_that_of_the_request() {
    let client = service_fn(async |request: Request<()>| {
        Ok::<_, Infallible>(request.into_parts().0.headers)
    });
    let other = HeaderName::from_static("request-timeout-ms");
    let layer = TimeLeftLayer::new().with_header(other.clone());
    let ask = async |request: http::request::Builder| -> HeaderMap {
        let call = layer.layer(client).oneshot(request.body(()).unwrap());
        Deadline::after(SECOND * 2).scope(call).await.unwrap()
    };
    assert_eq!(ask(Request::get("/")).await[&other], "2000");
    let grpc = Request::post("/").header("content-type", "application/grpc");
    let grpc = ask(grpc).await;
    assert_eq!(
        (&grpc["grpc-timeout"], grpc.contains_key(&other)),
        (&"2050m".parse().unwrap(), false)
    );
    assert_eq!(
        ask(Request::get("/").header(&other, "70")).await[&other],
        "70",
        "a shorter one stays"
    );
    let outside = layer.layer(client).oneshot(Request::new(())).await.unwrap();
    assert!(outside.is_empty());
}
