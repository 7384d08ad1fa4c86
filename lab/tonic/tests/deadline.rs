//! Handlers that call the next server, in both ways: what they tell it of the deadline of their own request.

use std::time::Duration;

use handler::serve;
use resile_tower::resile::{RetryPolicy, Upstream};
use resile_tower::resile_clients::Classifier;
use resile_tower::resile_clients::Idempotency::NotIdempotent;
use resile_tower::tonic_0_14::RetryChannel;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};
use weather::weather_client::WeatherClient;
use weather::weather_server::{Weather, WeatherServer};
use weather::{City, Report};

mod handler;

mod weather {
    tonic::include_proto!("weather");
}

const README: &str = include_str!("../../../crates/resile-tower/README.md");

static NEXT: Upstream = Upstream::new("next");

const SECOND: Duration = Duration::from_secs(1);

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempt_timeout(Duration::from_secs(50))
    .with_total_timeout(Duration::from_secs(100));

const ORDERS: RetryPolicy<Classifier> =
    POLICY.with_classifier(Classifier::non_idempotent().with_place("/weather.Weather/Order"));

/// The next server. It answers what it was told in `grpc-timeout`.
struct Next;

impl Next {
    fn told<T>(request: &Request<T>) -> Response<Report> {
        let text = request.metadata().get("grpc-timeout").unwrap().to_str().unwrap().to_owned();
        Response::new(Report { text })
    }
}

#[tonic::async_trait]
impl Weather for Next {
    async fn get(&self, request: Request<City>) -> Result<Response<Report>, Status> {
        Ok(Self::told(&request))
    }

    async fn order(&self, request: Request<City>) -> Result<Response<Report>, Status> {
        Ok(Self::told(&request))
    }
}

/// A server whose handlers call the next one: `get` through a layer, and `order` by a retry around the call.
pub struct Front {
    layered: WeatherClient<RetryChannel<Channel>>,
    plain: WeatherClient<Channel>,
}

impl Front {
    fn new(next: &Channel) -> WeatherServer<Self> {
        let layered = RetryChannel::new(next.clone(), POLICY, NotIdempotent).on(&NEXT);
        let (layered, plain) = (WeatherClient::new(layered), WeatherClient::new(next.clone()));
        WeatherServer::new(Self { layered, plain })
    }
}

#[tonic::async_trait]
impl Weather for Front {
    async fn get(&self, request: Request<City>) -> Result<Response<Report>, Status> {
        self.layered.clone().get(request.into_inner()).await
    }

    async fn order(&self, request: Request<City>) -> Result<Response<Report>, Status> {
        handler::order(&self.plain, request.into_inner()).await
    }
}

fn listen() -> (TcpIncoming, Channel) {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", incoming.local_addr().unwrap());
    (incoming, Channel::from_shared(url).unwrap().connect_lazy())
}

/// Starts the next server.
fn next() -> Channel {
    let (incoming, channel) = listen();
    let server = Server::builder().add_service(WeatherServer::new(Next));
    tokio::spawn(server.serve_with_incoming(incoming));
    channel
}

/// Returns what the next server is told by both handlers, whose caller waits so long.
async fn told(front: &Channel, waits: Option<Duration>) -> [Duration; 2] {
    let mut client = WeatherClient::new(front.clone());
    let request = || {
        let mut request = Request::new(City { name: "Paris".to_owned() });
        if let Some(waits) = waits {
            request.set_timeout(waits);
        }
        request
    };
    let read = client.get(request()).await.unwrap();
    let order = client.order(request()).await.unwrap();
    [read, order].map(|answer| {
        let text = answer.into_inner().text;
        let (count, unit) = text.split_at(text.len() - 1);
        let count = count.parse().unwrap();
        match unit {
            "m" => Duration::from_millis(count),
            "u" => Duration::from_micros(count),
            _ => panic!("{text}"),
        }
    })
}

#[test]
fn the_readme_shows_the_handler() {
    assert!(README.contains(include_str!("handler/mod.rs")));
}

#[tokio::test]
async fn a_handler_without_the_layer_tells_its_whole_timeout() {
    let (incoming, front) = listen();
    let server = Server::builder().add_service(Front::new(&next()));
    tokio::spawn(server.serve_with_incoming(incoming));
    for told in told(&front, Some(20 * SECOND)).await {
        assert!(told > 49 * SECOND, "{told:?}");
    }
}

#[tokio::test]
async fn a_handler_with_the_layer_tells_what_is_left() {
    let margin = Duration::from_millis(50);
    let (incoming, front) = listen();
    tokio::spawn(serve(Front::new(&next()), incoming));
    for told in told(&front, Some(20 * SECOND)).await {
        assert!(told <= 20 * SECOND + margin, "{told:?}");
    }
    for told in told(&front, None).await {
        assert!(told > 20 * SECOND + margin && told <= 30 * SECOND + margin, "{told:?}");
    }
}
