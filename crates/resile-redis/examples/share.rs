//! Shares ten calls a second with all processes that run this program.

use std::time::{Duration, Instant};

use resile::quota::Rate;
use resile::{Breaker, Budget, Cooldown, Never, Quota, RetryPolicy, Upstream, retry};
use resile_redis::Fleet;
use tokio::time::sleep;

static MODEL: Upstream = Upstream::new("model")
    // Metrics need `.with_observer(&(Log, Metrics))` of `resile::observe`.
    .with_breaker(Breaker::new())
    .with_budget(Budget::new())
    .with_cooldown(Cooldown::new())
    // With half of the limit the last of ten calls waits for two seconds.
    .with_quota(Quota::new().with_requests(Rate::per_second(10).with_burst(2)).with_queue(10));

const POLICY: RetryPolicy = RetryPolicy::new().with_total_timeout(Duration::from_secs(5));

/// One attempt. A real one sends a request.
async fn ask() -> std::io::Result<&'static str> {
    sleep(Duration::from_millis(20)).await;
    Ok("a coat")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let fleet = Fleet::new(&url)?.with_prefix("guide").with_votes(true);
    let member = fleet.join(&MODEL)?; // a dropped one stays in the fleet

    for _ in 0..20 {
        let (began, mut calls) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(1) {
            match retry(|_| ask(), POLICY, Never).on(&MODEL).await {
                Ok(_) => calls += 1,
                // The log has the reason. An open breaker refuses at once.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
        if let Some(status) = MODEL.fleet() {
            println!("{calls} calls in a second, {status}");
        }
        let seen = member.snapshot();
        if let Some(votes) = seen.votes.filter(|votes| votes.open > 0) {
            let (open, all) = (votes.open, votes.members);
            println!("{open} of {all} vote open: {:?}", seen.open_voters);
        }
    }
    member.leave().await; // the others have all ten at once
    Ok(())
}
