use std::time::Duration;

use resile::http::{Classifier, Failure, error_for_status};
use resile::{Budget, Never, RetryPolicy, Upstream, retry};

// All calls to the site share it, and with it one budget of retries.
static SITE: Upstream = Upstream::new("site").with_budget(Budget::new());

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init(); // each retry logs one line
    let policy = RetryPolicy::new()
        .with_attempts(4)
        .with_attempt_timeout(Duration::from_secs(5))
        .with_total_timeout(Duration::from_secs(30))
        .with_classifier(Classifier::idempotent()); // a GET may be repeated
    let get = async |_| -> Result<String, Failure> {
        let answer = reqwest::get("http://example.com/").await?;
        // An error keeps `Retry-After`, and the next attempt waits for it.
        Ok(error_for_status(answer).await?.text().await?)
    };
    println!("{}", retry(get, policy, Never).on(&SITE).await?);
    Ok(())
}
