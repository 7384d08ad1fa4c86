//! A web service that reads prices from a shop and takes orders for it. The shop fails. Run it with:
//!
//! ```sh
//! cargo run --example service
//! ```
//!
//! The program starts the shop, sends some requests to itself, prints the answers and shuts down. `examples/client.rs`
//! explains the two clients and a 303. A copy of this file needs these dependencies:
//!
//! ```toml
//! anyhow = "1"
//! axum = "0.8"
//! reqwest = "0.13"
//! resile = { version = "0.1", features = ["reqwest", "serde"] }
//! serde = { version = "1", features = ["derive"] }
//! serde_json = "1"
//! tokio = { version = "1", features = ["macros", "net", "rt-multi-thread", "signal", "sync", "time"] }
//! tokio-util = { version = "0.7", features = ["rt"] }
//! tracing = "0.1"
//! tracing-subscriber = "0.3"
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use reqwest::redirect::Policy;
use resile::error::Conclusion;
use resile::http::headers::retry_after_secs;
use resile::http::{Classifier, Failure, error_for_status};
use resile::{Drain, GaveUp, RetryPolicy, Upstream, retry};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// The configuration. Any format of serde works. A missing field takes its default.
const CONFIG: &str = r#"{
    "upstream": {
        "name": "shop",
        "budget": {},
        "breaker": {},
        "bulkhead": { "limit": 50, "queue": 50, "max_wait": "1s" },
        "cooldown": {}
    },
    "policy": { "attempts": 4, "attempt_timeout": "2s", "total_timeout": "8s" }
}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    upstream: Upstream,
    policy: RetryPolicy,
}

/// The header of an idempotency key.
const KEY: &str = "idempotency-key";

/// Everything that a handler needs. All calls to the shop share one upstream.
struct Service {
    shop: String,
    read_client: reqwest::Client,
    order_client: reqwest::Client,
    policy: RetryPolicy,
    upstream: Upstream,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    /// The number of asks for each key that are in flight or may have been executed. Keep it in a database, because
    /// another process may get the same key.
    asks: Mutex<HashMap<HeaderValue, u32>>,
}

impl Service {
    fn new(config: &str, shop: String) -> anyhow::Result<Self> {
        let Config { upstream, policy } = serde_json::from_str(config)?;
        let client = || {
            reqwest::Client::builder()
                .connect_timeout(Duration::from_secs(1)) // less than the attempt timeout
                .retry(reqwest::retry::never())
                .no_proxy() // only for the shop in this program
        };
        Ok(Self {
            shop,
            read_client: client().build()?,
            order_client: client().redirect(Policy::none()).build()?,
            policy,
            // For metrics add an observer here: `upstream.with_shared_observer((Log, Metrics))`.
            upstream,
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
            asks: Mutex::default(),
        })
    }

    async fn price(&self, item: u32) -> Result<String, GaveUp<Failure>> {
        let reads = Classifier::idempotent().with_place("GET /price/{item}");
        let ask = async |_| {
            let url = format!("{}/price/{item}", self.shop);
            let answer = error_for_status(self.read_client.get(url).send().await?).await?;
            Ok(answer.text().await?)
        };
        let policy = self.policy.with_classifier(reads);
        retry(ask, policy, Drain(&self.shutdown)).on(&self.upstream).await
    }

    /// Sends an order. With a key it may be sent again after any failure.
    async fn order(
        &self,
        item: &str,
        key: Option<&HeaderValue>,
    ) -> Result<String, GaveUp<Failure>> {
        let orders = if key.is_some() { Classifier::keyed() } else { Classifier::non_idempotent() };
        let send = async |_| {
            let request = self.order_client.post(format!("{}/orders", self.shop));
            let mut request = request.body(item.to_owned());
            if let Some(key) = key {
                request = request.header(KEY, key);
            }
            let answer = error_for_status(request.send().await?).await?;
            Ok(answer.text().await?)
        };
        let policy = self.policy.with_classifier(orders.with_place("POST /orders"));
        retry(send, policy, Drain(&self.shutdown)).on(&self.upstream).await
    }

    /// Counts an ask with this key. Returns whether it is the first one.
    fn begin(&self, key: &HeaderValue) -> bool {
        let mut asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        let count = asks.entry(key.clone()).or_default();
        *count += 1;
        *count == 1
    }

    /// Takes an ask back that surely had no effect.
    fn take_back(&self, key: &HeaderValue) {
        let mut asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = asks.get_mut(key) {
            *count -= 1;
        }
    }
}

async fn price(State(service): State<Arc<Service>>, Path(item): Path<u32>) -> Response {
    match service.price(item).await {
        Ok(price) => price.into_response(),
        Err(end) => failed(&end, end.conclusion()),
    }
}

async fn order(State(service): State<Arc<Service>>, headers: HeaderMap, item: String) -> Response {
    let key = headers.get(KEY).cloned();
    let is_first = key.as_ref().is_none_or(|key| service.begin(key));
    // Each line of the log has the span, so a line of a doubt names its order.
    let span = tracing::info_span!("order", item, key = ?key);
    // A handler is dropped when its client goes away. The task goes on, so nobody drops an order.
    let tasks = service.tasks.clone();
    let call = async move {
        let end = service.order(&item, key.as_ref()).await;
        let had_none = end.as_ref().is_err_and(GaveUp::is_without_effect);
        if let Some(key) = key.filter(|_| had_none) {
            service.take_back(&key);
        }
        end
    };
    let end = tasks.spawn(call.instrument(span.clone())).await;
    span.in_scope(|| match end {
        Ok(Ok(receipt)) => (StatusCode::CREATED, receipt).into_response(),
        Ok(Err(end)) if is_first => failed(&end, end.conclusion_if_first()),
        Ok(Err(end)) => failed(&end, end.conclusion()),
        Err(_) => answer(IN_DOUBT), // the task has panicked
    })
}

/// Answers the caller of this service after a call that gave up.
fn failed(end: &GaveUp<Failure>, conclusion: Conclusion) -> Response {
    let (status, words) = match conclusion {
        Conclusion::NotDone => (503, "failed, nothing is done: ask again"),
        Conclusion::AskAgain => (503, "not known: ask again"),
        Conclusion::AskAgainWithKey => (503, "not known yet: ask again with the same key"),
        Conclusion::Unresolved => {
            tracing::warn!("a person has to look for the order: {end:#}");
            (500, "not known: a person has to look")
        }
        Conclusion::InDoubt => IN_DOUBT,
        // Only here the last error tells of the whole call.
        Conclusion::SeeError => match end.last().and_then(Failure::status).map(|it| it.as_u16()) {
            Some(status @ (400 | 404 | 422)) => (status, "the shop refuses this request"),
            _ => (500, "failed"),
        },
    };
    let mut response = answer((status, words));
    if status == 503 {
        let seconds = end.retry_after().map_or(1, retry_after_secs);
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The status is none that the client of the caller may repeat, such as a 5xx or a 409.
const IN_DOUBT: (u16, &str) = (499, "it may be ordered: do not send it again");

fn answer((status, words): (u16, &'static str)) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, words).into_response()
}

/// Waits for Ctrl-C, or for the SIGTERM that ends a container.
async fn signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            result = tokio::signal::ctrl_c() => result,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init(); // each retry logs one line

    let service = Arc::new(Service::new(CONFIG, shop::start().await?)?);
    let (shutdown, tasks) = (service.shutdown.clone(), service.tasks.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let requests = tokio::spawn(requests(listener.local_addr()?, shutdown.clone()));
    tokio::spawn({
        let shutdown = shutdown.clone();
        async move { signal().await.map(|()| shutdown.cancel()) }
    });
    let router = Router::new()
        .route("/price/{item}", get(price))
        .route("/orders", post(order))
        .with_state(service);
    // From here on `Drain` makes no further attempt, and the attempts in flight may finish.
    axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await?;
    // The end of `main` would drop the orders whose callers have gone.
    tasks.close();
    tasks.wait().await;
    requests.await??;
    anyhow::ensure!(shop::has_sent_slow(), "the order of the caller who has gone is lost");
    Ok(())
}

/// Plays the callers of the service. Leave it out of a copy, as the shop below.
async fn requests(address: SocketAddr, shutdown: CancellationToken) -> anyhow::Result<()> {
    let _shutdown = shutdown.drop_guard();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let get = |item: u32| client.get(format!("http://{address}/price/{item}"));
    let order = |item: u32| client.post(format!("http://{address}/orders")).body(item.to_string());
    for (what, request, expected) in [
        ("the price of item 7", get(7), 200),
        ("the price of item 8", get(8), 404),
        ("an order with a key", order(7).header(KEY, "red"), 201),
        // The 503 may have come from an order that the shop took.
        ("an order of item 8", order(8).header(KEY, "blue"), 500),
        ("an order without a key", order(7), 499),
        ("an order that the shop refuses", order(8).header(KEY, "green"), 422),
        ("another order without a key", order(7), 499),
        ("the refused order again", order(8).header(KEY, "green"), 422),
    ] {
        let answer = request.send().await?;
        let status = answer.status();
        println!("{what}: {}: {}", status.as_u16(), answer.text().await?);
        anyhow::ensure!(status == expected, "expected {expected}");
    }
    tokio::select! {
        answer = order(9).send() => anyhow::bail!("expected no answer yet: {answer:?}"),
        () = shop::has_slow() => println!("an order whose caller goes away"),
    }
    Ok(())
}

/// The shop. It answers each other request by a 503, also if it has taken the order. It has item 7, and an order of item
/// 9 is slow.
mod shop {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    use axum::Router;
    use axum::extract::Path;
    use axum::http::StatusCode;
    use axum::routing::{get, post};
    use tokio::net::TcpListener;
    use tokio::sync::Notify;
    use tokio::time::sleep;

    type Answer = (StatusCode, &'static str);

    static SLOW: Notify = Notify::const_new();
    static HAS_SENT_SLOW: AtomicBool = AtomicBool::new(false);

    /// Waits until the slow order is here.
    pub(crate) async fn has_slow() {
        SLOW.notified().await;
    }

    /// Returns whether the slow order still had its client at its end.
    pub(crate) fn has_sent_slow() -> bool {
        HAS_SENT_SLOW.load(Ordering::Relaxed)
    }

    fn answer(item: &str, good: Answer, none: StatusCode) -> Answer {
        static REQUESTS: AtomicU32 = AtomicU32::new(0);
        match item {
            _ if REQUESTS.fetch_add(1, Ordering::Relaxed) % 2 == 0 => {
                (StatusCode::SERVICE_UNAVAILABLE, "busy")
            }
            "7" => good,
            _ => (none, "no such item"),
        }
    }

    async fn price(Path(item): Path<String>) -> Answer {
        answer(&item, (StatusCode::OK, "12 euros"), StatusCode::NOT_FOUND)
    }

    async fn order(item: String) -> Answer {
        if item == "9" {
            SLOW.notify_one();
            sleep(Duration::from_millis(500)).await;
            HAS_SENT_SLOW.store(true, Ordering::Relaxed);
            return (StatusCode::CREATED, "receipt 2");
        }
        answer(&item, (StatusCode::CREATED, "receipt 1"), StatusCode::UNPROCESSABLE_ENTITY)
    }

    pub(crate) async fn start() -> std::io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let router = Router::new().route("/price/{item}", get(price)).route("/orders", post(order));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(url)
    }
}
