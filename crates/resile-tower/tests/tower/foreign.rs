//! The warning that another library retries the same request.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::{Debug, Write};
use std::future::{Ready, ready};
use std::sync::Once;
use std::time::Duration;

use http::{Request, Response};
use reqwest_middleware::ClientBuilder;
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use resile_tower::reqwest_middleware_0_5::RetryMiddleware;
use resile_tower::resile::{Backoff, RetryPolicy, Upstream};
use resile_tower::resile_clients::Idempotency::NotIdempotent;
use resile_tower::{RetryLayer, UpstreamLayer};
use tower::util::{ServiceFn, service_fn};
use tower::{Layer, Service, ServiceExt};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};

use super::server::{Does, Server};

thread_local! {
    /// The warnings of this thread.
    static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

struct Capture;

struct Words<'w>(&'w mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl<S: Subscriber> tracing_subscriber::Layer<S> for Capture {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = String::new();
        event.record(&mut Words(&mut words));
        let is_own = ["attempts multiply", "with_idempotent"].iter().any(|own| words.contains(own));
        if *event.metadata().level() == Level::WARN && is_own {
            TOLD.with_borrow_mut(|told| told.push(words));
        }
    }
}

/// Captures the warnings of the process, separately for each thread.
pub(crate) fn told() -> Vec<String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Capture);
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    TOLD.take()
}

type Answer = Ready<Result<Response<()>, Infallible>>;
type Fine = ServiceFn<fn(Request<String>) -> Answer>;

/// Sends a request through a layer to a service that answers at once, and returns the warnings.
async fn sent<L>(layer: &L, header: (&'static str, &'static str)) -> Vec<String>
where
    L: Layer<Fine, Service: Service<Request<String>, Error: Debug>>,
{
    told();
    let fine: Fine = service_fn(|_| ready(Ok(Response::new(()))));
    let request = Request::post("/").header(header.0, header.1).body(String::new()).unwrap();
    assert!(layer.layer(fine).oneshot(request).await.is_ok());
    told()
}

const POLICY: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::none());

#[tokio::test]
async fn a_retry_above_is_told_with_its_name_its_count_and_a_remedy() {
    let layer = RetryLayer::http(POLICY);
    for (header, words, remedy) in [
        (("amz-sdk-request", "attempt=2; max=3"), "attempt 2 of 3", "RetryConfig::disabled()"),
        (("x-stainless-retry-count", "1"), "attempt 2", "max_retries"),
        (("grpc-previous-rpc-attempts", "3"), "attempt 4", "retryPolicy"),
        (("x-envoy-attempt-count", "2"), "attempt 2", "retry_policy"),
    ] {
        let told = sent(&layer, header).await;
        let [told] = &told[..] else { panic!("{header:?}: {told:?}") };
        for part in [words, remedy, header.0, "foreign.rs:", "attempts multiply"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}

/// Once for each layer in the source and each library, also with another count.
#[tokio::test]
async fn a_retry_above_is_told_once() {
    let make = || RetryLayer::http(POLICY);
    assert_eq!(sent(&make(), ("amz-sdk-request", "attempt=1; max=3")).await.len(), 1);
    for header in [
        ("amz-sdk-request", "attempt=1; max=3"),
        ("amz-sdk-request", "ttl=20261124T190000Z; attempt=2; max=3"),
    ] {
        assert_eq!(sent(&make(), header).await, Vec::<String>::new(), "{header:?}");
    }
    assert_eq!(sent(&make(), ("x-stainless-retry-count", "1")).await.len(), 1);
    let elsewhere = RetryLayer::http(POLICY).judging(|_: &Response<()>| None);
    assert_eq!(sent(&elsewhere, ("x-stainless-retry-count", "1")).await.len(), 1);
    let grpc = RetryLayer::grpc(POLICY, NotIdempotent);
    assert_eq!(sent(&grpc, ("grpc-previous-rpc-attempts", "1")).await.len(), 1);
}

/// A first attempt of a client that may retry nothing, and what cannot be read.
#[tokio::test]
async fn a_request_that_nobody_repeats_is_not_told() {
    static STORE: Upstream = Upstream::new("store");
    let layer = RetryLayer::http(POLICY);
    for header in [
        ("amz-sdk-request", "attempt=1; max=1"),
        ("amz-sdk-request", "attempt=1"),
        ("amz-sdk-request", "max=3"),
        ("amz-sdk-request", "attempt=x; max=3"),
        ("amz-sdk-request", ";=;attempt"),
        ("x-stainless-retry-count", "0"),
        ("x-stainless-retry-count", "-1"),
        ("x-stainless-retry-count", "once"),
        ("x-stainless-retry-count", "99999999999"),
        ("grpc-previous-rpc-attempts", "0"),
        ("grpc-previous-rpc-attempts", ""),
        ("x-envoy-attempt-count", "1"),
        ("x-other", "2"),
    ] {
        assert_eq!(sent(&layer, header).await, Vec::<String>::new(), "{header:?}");
    }
    // One attempt multiplies nothing.
    let once = UpstreamLayer::http(&STORE);
    assert_eq!(sent(&once, ("amz-sdk-request", "attempt=2; max=3")).await, Vec::<String>::new());
}

/// `reqwest-retry` 0.9.1 below the middleware: its error says how often it has tried.
#[tokio::test]
async fn a_retry_below_is_told_once() {
    let short = Duration::from_millis(1);
    let policy = ExponentialBackoff::builder().retry_bounds(short, short);
    let below = RetryTransientMiddleware::new_with_policy(policy.build_with_max_retries(2));
    let http = reqwest::Client::builder().retry(reqwest::retry::never()).build().unwrap();
    let ours = RetryMiddleware::new(POLICY.with_attempts(2));
    let client = ClientBuilder::new(http).with(ours).with(below).build();
    let server = Server::start(&[Does::Close; 12]).await;
    told();
    client.get(server.url()).send().await.unwrap_err();
    assert_eq!(server.got().len(), 6, "two attempts of three each");
    let told = told();
    let [told] = &told[..] else { panic!("{told:?}") };
    for part in ["reqwest-retry", "attempt 3", "RetryTransientMiddleware", "foreign.rs:"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// A client above the middleware, such as an SDK that sends through it.
#[tokio::test]
async fn a_retry_above_the_middleware_is_told() {
    let http = reqwest::Client::builder().retry(reqwest::retry::never()).build().unwrap();
    let client = ClientBuilder::new(http).with(RetryMiddleware::new(POLICY)).build();
    let server = Server::start(&[Does::Answer(200)]).await;
    told();
    let post = client.post(server.url()).header("x-stainless-retry-count", "2");
    assert_eq!(post.send().await.unwrap().status(), 200);
    let told = told();
    assert!(told.len() == 1 && told[0].contains("attempt 3"), "{told:?}");
}
