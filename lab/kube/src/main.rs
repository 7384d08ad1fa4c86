//! A client of Kubernetes with these retries in place of its own, which repeat each method up to 15 times.
//! A client that is made from a `Config` needs `Config { default_retry: false, .. }`.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::Body;
use kube::client::middleware::BaseUriLayer;
use resile_tower::http::KeptBody;
use resile_tower::resile::{Breaker, Budget, RetryPolicy, Upstream};
use resile_tower::{BoxError, RetryLayer};
use serde_json::{Value, json};
use tower::ServiceBuilder;

static CLUSTER: Upstream =
    Upstream::new("cluster").with_budget(Budget::new()).with_breaker(Breaker::new());

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempt_timeout(Duration::from_secs(5))
    .with_total_timeout(Duration::from_secs(10));

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let base: Uri = format!("http://{}", listener.local_addr()?).parse()?;
    let server = tokio::spawn(serve(listener));

    let http: Client<_, KeptBody<Body>> = Client::builder(TokioExecutor::new()).build_http();
    let service = ServiceBuilder::new()
        .layer(BaseUriLayer::new(base))
        .layer(RetryLayer::http(POLICY).keeping(65_536).on(&CLUSTER))
        .service(http);
    let client = kube::Client::new(service, "default");

    let uri = "/api/v1/namespaces/default/configmaps/weather";
    let found: Value = client.request(Request::get(uri).body(Vec::new())?).await?;
    println!("GET: {}, {} requests", found["data"]["city"], CALLS.swap(0, Relaxed));

    let post = Request::post(uri).body(br#"{"data":{}}"#.to_vec())?;
    let refused = client.request::<Value>(post).await;
    let posts = CALLS.load(Relaxed);
    println!("POST: {}, {posts} request", refused.as_ref().unwrap_err());
    server.abort();
    if found["data"]["city"] == "Paris" && posts == 1 {
        Ok(())
    } else {
        Err("the GET should have been sent again, and the POST once".into())
    }
}

static CALLS: AtomicU32 = AtomicU32::new(0);

/// A server of the API that times out once for each method.
async fn serve(listener: tokio::net::TcpListener) {
    while let Ok((socket, _)) = listener.accept().await {
        let service = hyper::service::service_fn(answer);
        tokio::spawn(async move {
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_first = CALLS.fetch_add(1, Relaxed) == 0;
    let (status, body) = if is_first || request.method() == Method::POST {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 504,
            "reason": "Timeout", "message": "the server does not know whether it was done",
        });
        (504, status)
    } else {
        (200, json!({ "kind": "ConfigMap", "apiVersion": "v1", "data": { "city": "Paris" } }))
    };
    let answer = Response::builder().status(status).header("content-type", "application/json");
    Ok(answer.body(Full::from(body.to_string())).unwrap_or_default())
}
