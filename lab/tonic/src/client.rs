use std::error::Error;
use std::time::Duration;

use resile_tower::RetryLayer;
use resile_tower::deadline::TimeLeftLayer;
use resile_tower::http::KeptBody;
use resile_tower::resile::http::Classifier;
use resile_tower::resile::{Breaker, Budget, RetryPolicy, Upstream};
use resile_tower::resile_clients::Idempotency::NotIdempotent;
use resile_tower::resile_clients::grpc::to_status;
use tonic::Request;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::ServiceBuilder;
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

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let url = std::env::args().nth(1).unwrap_or("http://127.0.0.1:50051".to_owned());
    let channel = Endpoint::from_shared(url)?.connect_lazy();
    let channel = ServiceBuilder::new()
        .map_err(to_status) // UNAVAILABLE for an open breaker, DEADLINE_EXCEEDED for a timeout
        .layer(RetryLayer::grpc(POLICY, NotIdempotent).keeping(65_536).on(&WEATHER))
        .layer(TimeLeftLayer::new()) // the server stops when the attempt ends
        .map_request(|request: http::Request<KeptBody<Body>>| request.map(Body::new))
        .service(channel);
    let mut client = WeatherClient::new(channel); // clone it for each task

    // A read may be executed twice.
    let mut read = Request::new(City { name: "Paris".to_owned() });
    read.extensions_mut().insert(Classifier::idempotent());
    println!("{}", client.get(read).await?.into_inner().text);

    // An order is sent again only if it surely was not executed.
    if let Err(status) = client.order(Request::new(City { name: "Oslo".to_owned() })).await {
        println!("{:?}: {}", status.code(), status.message());
    }
    Ok(())
}
