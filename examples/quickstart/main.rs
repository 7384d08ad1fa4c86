//! One HTTP call against a server that fails four times, each time in another way: rate limited, unavailable,
//! connection reset, hanging.
//!
//! ```sh
//! cargo run --example quickstart
//! ```
//!
//! It takes about five seconds and exits with 0 when it was answered, 1 when it gave up, 130 when Ctrl-C stopped it.
//! This file is how the crate is used; `server.rs` is what it is used against, `panel.rs` what you see.

mod panel;
mod server;

use std::error::Error;
use std::iter::successors;
use std::process::ExitCode;
use std::time::Duration;

use resile::http::{Classifier, StatusError};
use resile::observe::Event;
use resile::{
    Backoff, Breaker, Budget, Classify, Cooldown, Jitter, RetryPolicy, StopReason, Upstream,
    Verdict, retry,
};
use tokio_util::sync::CancellationToken;

use panel::Panel;

/// How often, how long, after what delays. Plain data: it may as well come from a configuration file.
const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(6)
    .with_attempt_timeout(LIMIT) // so that an attempt that hangs leaves time for the next
    .with_total_timeout(Duration::from_secs(15))
    .with_backoff(BACKOFF);

const LIMIT: Duration = Duration::from_secs(1);

/// Short, and never less than half a delay: so that there is something to see. The default suits a real service.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(400))
    .with_cap(Duration::from_millis(1500))
    .with_jitter(Jitter::Equal);

/// What all calls to this server share: what they may spend on retries, when they are refused, and when they all wait.
static GREETER: Upstream = Upstream::new("greeter")
    .with_budget(Budget::new().with_capacity(10))
    .with_breaker(Breaker::new())
    .with_cooldown(Cooldown::new());

/// All that can go wrong with one attempt.
#[derive(Debug, thiserror::Error)]
enum CallError {
    /// The server answered 4xx or 5xx.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// There was no answer, or not all of it.
    #[error("no answer: {}", root(.0))]
    Unanswered(#[from] reqwest::Error),
}

/// What each error means. It is a GET, so it may be sent twice.
fn classify(error: &CallError) -> Option<Verdict> {
    const GET: Classifier = Classifier::idempotent();
    match error {
        CallError::Status(refused) => GET.classify(refused),
        CallError::Unanswered(error) => GET.classify(error),
    }
}

/// What lies at the bottom of an error.
fn root(error: &reqwest::Error) -> &dyn Error {
    successors(Some(error as &dyn Error), |&error| error.source()).last().unwrap_or(error)
}

/// One attempt.
async fn greeting(client: &reqwest::Client, url: &str) -> Result<String, CallError> {
    let response = client.get(url).send().await?;
    StatusError::check(response.status(), response.headers())?;
    Ok(response.text().await?)
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    if let Some(argument) = std::env::args_os().nth(1) {
        eprintln!("quickstart: unexpected argument {argument:?}, it takes none");
        return Ok(ExitCode::from(2));
    }

    // Retries at two levels multiply: the client makes none of its own.
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
        "GET {url}, with up to {} attempts of {LIMIT:?}. Ctrl-C stops it.",
        POLICY.attempts()
    ));

    // Without the panel it is `.on(&GREETER)`.
    let shown = |event: &Event<'_>| panel.show(event, LIMIT);
    let outcome = retry(|_| greeting(&client, &url), POLICY.with_classifier(classify), &token)
        .on(GREETER.observed_by(&shown))
        .await;

    let left = GREETER.budget().map_or(0, Budget::available);
    match outcome {
        Ok(greeting) => {
            panel.say(&format!("The server says {greeting:?}; {left} retries left in the budget."));
            Ok(ExitCode::SUCCESS)
        }
        Err(gave_up) => {
            panel.say(&format!("No greeting: {gave_up}; {left} retries left in the budget."));
            Ok(ExitCode::from(if gave_up.reason() == StopReason::Cancelled { 130 } else { 1 }))
        }
    }
}
