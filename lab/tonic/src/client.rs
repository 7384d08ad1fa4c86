use std::error::Error;
use std::time::Duration;

use resile_tower::RetryLayer;
use resile_tower::deadline::TimeLeftLayer;
use resile_tower::grpc::answer_to_error;
use resile_tower::http::KeptBody;
use resile_tower::resile::error::Boxed;
use resile_tower::resile::{Breaker, Budget, GaveUp, RetryPolicy, Upstream};
use resile_tower::resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_tower::resile_clients::grpc::to_status;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tonic::{Request, Status};
use tower::ServiceBuilder;
use tower::util::BoxCloneSyncService;
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

/// A channel with its layers. A struct may hold a `WeatherClient<Layered>`.
type Layered = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>;

fn layered(url: String) -> Result<Layered, Box<dyn Error>> {
    let endpoint = Endpoint::from_shared(url)?.connect_timeout(Duration::from_millis(500));
    let channel = ServiceBuilder::new()
        .map_err(to_status) // UNAVAILABLE for an open breaker, DEADLINE_EXCEEDED for a timeout
        .map_result(answer_to_error) // the source of each status says how the call ended
        .layer(RetryLayer::grpc(POLICY, NotIdempotent).keeping(65_536).on(&WEATHER))
        .layer(TimeLeftLayer::new()) // the server stops when the attempt ends
        .map_request(|request: http::Request<KeptBody<Body>>| request.map(Body::new))
        .service(endpoint.connect_lazy());
    Ok(BoxCloneSyncService::new(channel))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let url = std::env::args().nth(1).unwrap_or("http://127.0.0.1:50051".to_owned());
    let mut client = WeatherClient::new(layered(url)?); // clone it for each task

    // A read may be executed twice.
    let mut read = Request::new(City { name: "Paris".to_owned() });
    read.extensions_mut().insert(Idempotent);
    println!("{}", client.get(read).await?.into_inner().text);

    // An order is sent again only if it surely was not executed.
    if let Err(status) = client.order(Request::new(City { name: "Oslo".to_owned() })).await {
        println!("{:?}: {}", status.code(), status.message());
        let end = status.source().and_then(|source| source.downcast_ref::<GaveUp<Boxed>>());
        if end.is_some_and(GaveUp::is_in_doubt) {
            println!("ask the server whether it has the order");
        }
    }
    Ok(())
}
