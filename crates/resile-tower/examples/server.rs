//! A server that protects itself: it ends each request at the caller's deadline, and refuses what it has
//! no room for. It asks itself a few questions, prints the answers and ends.
//!
//! ```sh
//! cargo run -p resile-tower --example server
//! ```

use std::time::Duration;

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::http::StatusCode;
use axum::routing::get;
use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use resile_tower::deadline::{Deadline, DeadlineLayer};
use resile_tower::resile::{Bulkhead, Upstream};
use resile_tower::server::RefusalLayer;
use resile_tower::{BoxError, UpstreamLayer};
use tower::ServiceBuilder;

/// This server takes two requests at a time, and one more that waits for at most 100 ms.
static OWN: Upstream = Upstream::new("server")
    .with_bulkhead(Bulkhead::new(2).with_queue(1).with_max_wait(Duration::from_millis(100)));

/// The longest time of a request, whatever its caller asks for.
const LONGEST: Duration = Duration::from_secs(2);

/// A handler that takes 300 ms.
async fn work() -> String {
    let left = Deadline::current().map(Deadline::left).unwrap_or_default();
    tokio::time::sleep(Duration::from_millis(300)).await;
    format!("had {} s", left.as_secs_f32().round())
}

/// An error that is no refusal.
async fn broken(_: BoxError) -> StatusCode {
    StatusCode::INTERNAL_SERVER_ERROR
}

fn app() -> Router {
    // The first layer is the outermost one.
    let layers = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(broken))
        .layer(RefusalLayer::new())
        .layer(DeadlineLayer::new(LONGEST))
        .layer(UpstreamLayer::http(&OWN));
    Router::new().route("/", get(work)).layer(layers)
}

/// Asks the server, with what the caller waits in milliseconds.
async fn ask(url: String, waits: Option<&'static str>) -> Result<String, BoxError> {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let mut request = Request::get(url);
    if let Some(waits) = waits {
        request = request.header("x-envoy-expected-rq-timeout-ms", waits);
    }
    let answer = client.request(request.body(Empty::new())?).await?;
    Ok(answer.status().to_string())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let server = tokio::spawn(async move { axum::serve(listener, app()).await });

    println!("alone: {}", ask(url.clone(), None).await?);
    let late = ask(url.clone(), Some("100")).await?;
    println!("a caller that waits for 100 ms: {late}");
    let calls = [(); 4].map(|()| tokio::spawn(ask(url.clone(), None)));
    let mut refused = 0;
    for call in calls {
        let status = call.await??;
        println!("one of four at once: {status}");
        refused += u32::from(status.starts_with("503"));
    }
    // One finds the queue full, and the one in the queue waits in vain.
    println!("{refused} of 4 were refused");
    server.abort();
    if refused == 2 && late.starts_with("504") {
        Ok(())
    } else {
        Err("two requests should have been refused, and one should have been late".into())
    }
}
