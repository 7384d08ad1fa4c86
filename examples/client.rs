//! Retries the calls of an HTTP client, with the policy and the upstream read from configuration.
//! Its calls share a budget, a breaker and a cooldown. Run it with:
//!
//! ```sh
//! cargo run --example client
//! ```
//!
//! It calls a server of its own. This server fails three times before it answers a read, and then it
//! takes an order. Ctrl-C stops the retries and lets the request in flight finish. A copy of this file needs these dependencies:
//!
//! ```toml
//! anyhow = "1"
//! reqwest = "0.13"
//! resile = { version = "0.1", features = ["reqwest", "serde"] }
//! serde = { version = "1", features = ["derive"] }
//! serde_json = "1"
//! tokio = { version = "1", features = ["io-util", "macros", "net", "rt-multi-thread", "signal"] }
//! tokio-util = "0.7"
//! tracing-subscriber = "0.3"
//! ```

use std::time::Duration;

use resile::http::{Classifier, Failure, error_for_status};
use resile::{Drain, RetryPolicy, Upstream, retry};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

/// The configuration. Any format of serde works. A missing field takes its default.
const CONFIG: &str = r#"{
    "upstream": {
        "name": "hello",
        "budget": { "capacity": 20 },
        "breaker": { "consecutive": 5 },
        "cooldown": {}
    },
    "policy": { "attempts": 5, "attempt_timeout": "1s", "total_timeout": "20s" }
}"#;

#[derive(Deserialize)]
struct Config {
    upstream: Upstream,
    policy: RetryPolicy,
}

/// Makes one attempt. A `Failure` keeps the `Retry-After` of an answer.
async fn get(http: &reqwest::Client, url: &str) -> Result<String, Failure> {
    let answer = error_for_status(http.get(url).send().await?).await?;
    Ok(answer.text().await?)
}

/// Makes one attempt of an order.
async fn order(http: &reqwest::Client, url: &str) -> Result<String, Failure> {
    let answer = error_for_status(http.post(url).body("a scarf").send().await?).await?;
    if answer.status() == reqwest::StatusCode::SEE_OTHER {
        // The order was taken. The receipt is not in this answer, and `Location` has its address.
        return Ok(format!("the receipt is at {:?}", answer.headers().get("location")));
    }
    Ok(answer.text().await?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init(); // each retry logs one line

    let Config { upstream, policy } = serde_json::from_str(CONFIG)?;
    // A GET may be sent again. An order is sent again only if it surely was not executed.
    // The place is for the line of a request that hangs: it has no error with a URL.
    let reads = policy.with_classifier(Classifier::idempotent().with_place("GET /"));
    let orders = policy.with_classifier(Classifier::non_idempotent().with_place("POST /"));
    let client = || {
        reqwest::Client::builder()
            // Less than the attempt timeout: an attempt that ends without a connection has sent no order.
            .connect_timeout(Duration::from_millis(500))
            // Retries at two levels multiply, so the client makes none.
            .retry(reqwest::retry::never())
            // Only for the server in this program. Leave it out of a copy, because yours may need a proxy.
            .no_proxy()
    };
    // A read follows redirects. A 303 that nobody follows is a success without content.
    let read_client = client().build()?;
    // A redirect after an order would be followed by a GET, whose failure looks like that of the order.
    let order_client = client().redirect(reqwest::redirect::Policy::none()).build()?;
    let token = CancellationToken::new();
    let url = server::start().await?;

    tokio::spawn({
        let token = token.clone();
        async move { tokio::signal::ctrl_c().await.map(|()| token.cancel()) }
    });
    let stop = Drain(&token); // the token alone would drop the request in flight too
    let greeting = retry(|_| get(&read_client, &url), &reads, stop).on(&upstream).await?;
    println!("{greeting}");
    match retry(|_| order(&order_client, &url), &orders, stop).on(&upstream).await {
        Ok(receipt) => println!("{receipt}"),
        Err(e) if e.is_in_doubt() => println!("ask the server whether the order came: {e:#}"),
        Err(e) => return Err(e.into()),
    }
    Ok(())
}

/// A server: it is unavailable, limits the rate, hangs, answers, and takes an order.
mod server {
    use std::io;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    const SCRIPT: [&str; 5] = [
        "503 Service Unavailable",
        "429 Too Many Requests\r\nretry-after: 1",
        "hang",
        "200 OK",
        "201 Created",
    ];

    pub(crate) async fn start() -> io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(async move {
            let mut open = Vec::new();
            for status in SCRIPT {
                let (mut stream, _) = listener.accept().await?;
                stream.read_buf(&mut Vec::with_capacity(4096)).await?;
                if status != "hang" {
                    let answer = format!(
                        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 6\r\n\r\nHello."
                    );
                    stream.write_all(answer.as_bytes()).await?;
                }
                open.push(stream);
            }
            io::Result::Ok(())
        });
        Ok(url)
    }
}
