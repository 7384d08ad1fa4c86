//! The client of `hyper-util` with retries: its server is busy twice and then answers. The body is a
//! stream, so it is kept while it is sent.
//!
//! ```sh
//! cargo run -p resile-tower --example client
//! ```

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::put;
use bytes::Bytes;
use http::Request;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use resile_tower::deadline::TimeLeftLayer;
use resile_tower::http::KeptBody;
use resile_tower::resile::{Breaker, Budget, RetryPolicy, Upstream};
use resile_tower::{BoxError, RetryLayer};
use tower::{ServiceBuilder, ServiceExt};

/// The state that all calls to the store share.
static STORE: Upstream =
    Upstream::new("store").with_budget(Budget::new()).with_breaker(Breaker::new());

/// The limits of each call.
const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(5)
    .with_attempt_timeout(Duration::from_secs(2))
    .with_total_timeout(Duration::from_secs(10));

/// The body of a request, which cannot be cloned.
type Body = UnsyncBoxBody<Bytes, Infallible>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/city", listener.local_addr()?);
    let app = Router::new().route("/city", put(store));
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let client: Client<_, KeptBody<Body>> = Client::builder(TokioExecutor::new()).build_http();
    let client = ServiceBuilder::new()
        .layer(RetryLayer::http(POLICY).keeping(65_536).on(&STORE))
        .layer(TimeLeftLayer::new())
        .service(client);

    let request = Request::put(url).body(Full::from("Paris").boxed_unsync())?;
    let answer = client.oneshot(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    println!("{status}: {}", String::from_utf8_lossy(&body));
    server.abort();
    if status.is_success() { Ok(()) } else { Err("the store should have answered".into()) }
}

/// The server is busy twice, and asks for 0.2 s.
async fn store(headers: HeaderMap, body: String) -> impl IntoResponse {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let number = CALLS.fetch_add(1, Relaxed) + 1;
    let waits = headers.get("x-envoy-expected-rq-timeout-ms").and_then(|waits| waits.to_str().ok());
    println!("request {number}: {body}, its caller waits for {} ms", waits.unwrap_or("?"));
    let busy = [("retry-after", "0.2")];
    match number {
        1 | 2 => (StatusCode::SERVICE_UNAVAILABLE, busy).into_response(),
        _ => format!("stored {body}").into_response(),
    }
}
