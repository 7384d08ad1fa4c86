//! Makes one HTTP call to a server that fails four times, each time in another way. It limits the
//! rate, is unavailable, resets the connection, and hangs. Run it with:
//!
//! ```sh
//! cargo run --example quickstart
//! ```
//!
//! The call takes about five seconds. The exit code is 0 after an answer, 1 after giving up, and
//! 130 after Ctrl-C. This file uses the crate. `server.rs` is the server, and `panel.rs` prints the
//! events.

mod panel;
mod server;

use std::process::ExitCode;
use std::time::Duration;

use resile::http::{Classifier, Failure, error_for_status};
use resile::observe::Event;
use resile::{
    Backoff, Breaker, Budget, Cooldown, Jitter, RetryPolicy, StopReason, Upstream, retry,
};
use tokio_util::sync::CancellationToken;

use panel::Panel;

/// The limits and delays of a call. A policy is plain data and can come from a configuration file.
const POLICY: RetryPolicy<Classifier> = RetryPolicy::new()
    .with_attempts(6)
    .with_attempt_timeout(LIMIT) // leaves time for the attempt after one that hangs
    .with_total_timeout(Duration::from_secs(15))
    .with_backoff(BACKOFF)
    .with_classifier(Classifier::idempotent()); // a GET may be sent again

const LIMIT: Duration = Duration::from_secs(1);

/// Short delays of at least half their nominal length, so that the panel has time to show them. The
/// default suits a real service.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(400))
    .with_cap(Duration::from_millis(1500))
    .with_jitter(Jitter::Equal);

/// The state that all calls to this server share. The budget limits their retries, the breaker
/// refuses them, and the cooldown makes them wait.
static GREETER: Upstream = Upstream::new("greeter")
    .with_budget(Budget::new().with_capacity(10))
    .with_breaker(Breaker::new())
    .with_cooldown(Cooldown::new());

/// Makes one attempt. A `Failure` keeps the `Retry-After` of an answer.
async fn greeting(client: &reqwest::Client, url: &str) -> Result<String, Failure> {
    let answer = error_for_status(client.get(url).send().await?).await?;
    Ok(answer.text().await?)
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    if let Some(argument) = std::env::args_os().nth(1) {
        eprintln!("quickstart: unexpected argument {argument:?}: it takes no arguments");
        return Ok(ExitCode::from(2));
    }

    // Retries at two levels multiply, so the client makes none.
    let client = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never()).build()?;
    let url = server::start().await?;

    let token = CancellationToken::new();
    let ctrl_c = token.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            ctrl_c.cancel();
        }
    });

    let panel = Panel::new();
    panel.say(&format!(
        "GET {url}: up to {} attempts of {LIMIT:?} each (Ctrl-C stops)",
        POLICY.attempts()
    ));

    // Without the panel, write `.on(&GREETER)`.
    let shown = |event: &Event<'_>| panel.show(event, LIMIT);
    let outcome =
        retry(|_| greeting(&client, &url), POLICY, &token).on(GREETER.observed_by(&shown)).await;

    // The budget allows this many more retries.
    let left = GREETER.budget().map_or(0, Budget::available);
    match outcome {
        Ok(greeting) => {
            panel.say(&format!("The server says {greeting:?} ({left} retries left)."));
            Ok(ExitCode::SUCCESS)
        }
        Err(gave_up) => {
            panel.say(&format!("No answer: {gave_up} ({left} retries left)."));
            Ok(ExitCode::from(if gave_up.reason() == StopReason::Cancelled { 130 } else { 1 }))
        }
    }
}
