use std::error::Error;
use std::time::Duration;

use resile_tower::resile::{Breaker, Budget, GaveUp, RetryPolicy, Upstream};
use resile_tower::resile_clients::Idempotency::NotIdempotent;
use resile_tower::tonic_0_14::{RetryChannel, gave_up};
use tonic::Request;
use tonic::transport::{Channel, Endpoint};
use weather::City;
use weather::weather_client::WeatherClient;

mod weather {
    tonic::include_proto!("weather");
}

static WEATHER: Upstream =
    Upstream::new("weather").with_budget(Budget::new()).with_breaker(Breaker::new());

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempt_timeout(Duration::from_secs(1))
    .with_total_timeout(Duration::from_secs(5));

/// The methods that may be executed twice.
const READS: &[&str] = &["/weather.Weather/Get"];

/// A client with retries. Clone it for each task, or keep it in a struct.
fn client(url: String) -> Result<WeatherClient<RetryChannel<Channel>>, Box<dyn Error>> {
    let endpoint = Endpoint::from_shared(url)?
        .connect_timeout(Duration::from_millis(500))
        .http2_keep_alive_interval(Duration::from_millis(500))
        .keep_alive_timeout(Duration::from_millis(500));
    let channel = RetryChannel::new(endpoint.connect_lazy(), POLICY, NotIdempotent);
    Ok(WeatherClient::new(channel.with_idempotent(READS).on(&WEATHER)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let url = std::env::args().nth(1).unwrap_or("http://127.0.0.1:50051".to_owned());
    let mut client = client(url)?;

    let read = Request::new(City { name: "Paris".to_owned() });
    match client.get(read).await {
        Ok(weather) => println!("{}", weather.into_inner().text),
        Err(status) => println!("{:?}: {}", status.code(), status.message()),
    }

    // An order is sent again only if it surely was not executed.
    if let Err(status) = client.order(Request::new(City { name: "Oslo".to_owned() })).await {
        println!("{:?}: {}", status.code(), status.message());
        if gave_up(&status).is_some_and(GaveUp::is_in_doubt) {
            println!("ask the server whether it has the order");
        }
    }
    Ok(())
}
