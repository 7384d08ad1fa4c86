use std::error::Error;
use std::time::Duration;

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use resile_tower::reqwest_middleware_0_5::RetryMiddleware;
use resile_tower::resile::{Backoff, RetryPolicy, Upstream};

static WEATHER: Upstream = Upstream::new("weather");

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(4)
    .with_attempt_timeout(Duration::from_secs(5))
    .with_total_timeout(Duration::from_secs(20))
    .with_backoff(
        Backoff::exponential(Duration::from_secs(1))
            .with_cap(Duration::from_secs(30 * 60)),
    );

fn client() -> reqwest::Result<ClientWithMiddleware> {
    let http = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .connect_timeout(Duration::from_secs(3))
        // For the body too. Longer than the attempt timeout, which cuts first.
        .read_timeout(Duration::from_secs(10))
        .build()?;
    let retries = RetryMiddleware::new(POLICY).on(&WEATHER);
    Ok(ClientBuilder::new(http).with(retries).build())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let http = client()?;
    let url =
        "https://api.open-meteo.com/v1/forecast?latitude=48.86&longitude=2.35";
    let answer = http.get(url).send().await?.error_for_status()?;
    println!("{}", answer.text().await?);
    Ok(())
}
