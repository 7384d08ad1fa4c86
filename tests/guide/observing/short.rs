use std::io;
use std::time::Duration;

use resile::{Attempt, Backoff, Never, RetryPolicy, Upstream, retry};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, format::debug_fn};
use tracing_subscriber::prelude::*;

static WEATHER: Upstream = Upstream::new("weather");

/// The lines of `resile` have their words alone, and all others their fields.
fn init() {
    let words = debug_fn(|to, field, value| match field.name() {
        "message" => write!(to, "{value:?}"),
        _ => Ok(()),
    });
    let resile = Targets::new().with_target("resile", LevelFilter::INFO);
    let others = Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target("resile", LevelFilter::OFF);
    let ours = fmt::layer().fmt_fields(words).without_time();
    let theirs = fmt::layer().without_time().with_target(false);
    tracing_subscriber::registry()
        .with(ours.with_target(false).with_filter(resile))
        .with(theirs.with_filter(others))
        .init();
}

async fn fetch(attempt: Attempt) -> io::Result<u32> {
    match attempt.number() {
        1 => Err(io::ErrorKind::ConnectionReset.into()),
        2 => Err(io::Error::other("503 Service Unavailable")),
        _ => Ok(18),
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    init();
    let delay = Backoff::fixed(Duration::from_millis(500));
    let policy = RetryPolicy::new().with_backoff(delay);
    let degrees = retry(fetch, policy, Never).on(&WEATHER).await.unwrap();
    tracing::info!(city = "Paris", degrees, "the answer is here");
}
