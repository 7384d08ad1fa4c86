use std::time::Duration;

use resile::http::{Classifier, Failure, error_for_status};
use resile::{Budget, Never, RetryPolicy, Upstream, retry};

static SITE: Upstream = Upstream::new("site").with_budget(Budget::new()); // all calls share it

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init(); // each retry logs one line
    let policy = RetryPolicy::new()
        .with_attempts(4)
        .with_attempt_timeout(Duration::from_secs(5))
        .with_total_timeout(Duration::from_secs(30))
        .with_classifier(Classifier::idempotent()); // a GET may be sent again, after `Retry-After`
    let get = async |_| -> Result<String, Failure> {
        let answer = error_for_status(reqwest::get("http://example.com/").await?).await?;
        Ok(answer.text().await?)
    };
    println!("{}", retry(get, policy, Never).on(&SITE).await?);
    Ok(())
}
