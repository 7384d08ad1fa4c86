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

use std::process::ExitCode;
use std::time::Duration;

use resile::http::{Classifier, Refused};
use resile::{Backoff, Budget, Elapsed, Event, Jitter, ResilienceExt, RetryPolicy, Stop, Verdict, retry};
use tokio_util::sync::CancellationToken;

use panel::Panel;

/// How often, how long, after what delays. Plain data: it may as well come from a configuration file.
const POLICY: RetryPolicy =
    RetryPolicy::new().with_attempts(6).with_deadline(Duration::from_secs(15)).with_backoff(BACKOFF);

/// Short, and never less than half a delay: so that there is something to see. The default suits a real service.
const BACKOFF: Backoff =
    Backoff::exponential(Duration::from_millis(400)).with_cap(Duration::from_millis(1500)).with_jitter(Jitter::Equal);

/// How long one attempt may take, so that one that hangs leaves time for the next.
const LIMIT: Duration = Duration::from_secs(1);

/// What all calls to this server may spend on retries. Each success earns a part of one back.
static BUDGET: Budget = Budget::new().with_capacity(10);

/// All that can go wrong with one attempt.
#[derive(Debug, thiserror::Error)]
enum CallError {
    /// The server answered 4xx or 5xx.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The attempt took longer than its limit.
    #[error(transparent)]
    Elapsed(#[from] Elapsed),
    /// There was no answer, or not all of it.
    #[error("no answer")]
    Unanswered(#[from] reqwest::Error),
}

/// What each error means for the call. It is a GET, so it may be made twice.
fn judge(error: &CallError) -> Verdict {
    const GET: Classifier = Classifier::idempotent();
    match error {
        CallError::Refused(refused) => GET.verdict(refused.status(), refused.retry_after()),
        CallError::Elapsed(_) => GET.unanswered(true),
        CallError::Unanswered(error) if error.is_builder() => Verdict::fail(), // no request came about
        CallError::Unanswered(error) => GET.unanswered(!error.is_connect()),
    }
}

/// One attempt.
async fn greeting(client: &reqwest::Client, url: &str) -> Result<String, CallError> {
    let response = client.get(url).send().await?;
    Refused::check(response.status(), response.headers())?;
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
    panel.say(&format!("GET {url}, with up to {} attempts of {LIMIT:?}. Ctrl-C stops it.", POLICY.attempts()));

    let outcome = retry(
        |attempt| {
            panel.attempting(attempt, POLICY.attempts(), LIMIT);
            greeting(&client, &url).timeout(LIMIT)
        },
        &POLICY.with_classify(judge),
        &token,
    )
    .with_budget(&BUDGET)
    .with_observer(|event: &Event<'_, CallError>| panel.show(event))
    .await;

    let budget = format!("{} of {} retries left in the budget", BUDGET.available(), BUDGET.capacity());
    match outcome {
        Ok(greeting) => {
            panel.say(&format!("The server says {greeting:?}; {budget}."));
            Ok(ExitCode::SUCCESS)
        }
        Err(gave_up) => {
            panel.say(&format!("No greeting: {gave_up}; {budget}."));
            Ok(ExitCode::from(if gave_up.stop() == Stop::Cancelled { 130 } else { 1 }))
        }
    }
}
