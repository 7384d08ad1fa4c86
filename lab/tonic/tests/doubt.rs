//! Orders that a real server executes, and whose callers get a status all the same.

use std::error::Error;
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use resile_tower::RetryLayer;
use resile_tower::grpc::answer_to_error;
use resile_tower::http::KeptBody;
use resile_tower::resile::error::Boxed;
use resile_tower::resile::{GaveUp, Never, RetryPolicy, StopReason, retry};
use resile_tower::resile_clients::Classifier;
use resile_tower::resile_clients::Idempotency::NotIdempotent;
use resile_tower::resile_clients::grpc::to_status;
use resile_tower::tonic_0_14::{RetryChannel, gave_up};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};
use tower::ServiceBuilder;
use weather::weather_client::WeatherClient;
use weather::weather_server::{Weather, WeatherServer};
use weather::{City, Report};

mod weather {
    tonic::include_proto!("weather");
}

/// Executes each order. It answers one for Oslo with 64 bytes, and any other one never.
struct Shop(&'static AtomicU32);

#[tonic::async_trait]
impl Weather for Shop {
    async fn get(&self, _: Request<City>) -> Result<Response<Report>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn order(&self, request: Request<City>) -> Result<Response<Report>, Status> {
        self.0.fetch_add(1, SeqCst);
        if request.into_inner().name != "Oslo" {
            pending::<()>().await;
        }
        Ok(Response::new(Report { text: "x".repeat(64) }))
    }
}

/// Starts a server that ends its handlers after 50 ms.
fn start(service: WeatherServer<Shop>) -> Channel {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", incoming.local_addr().unwrap());
    let server = Server::builder().timeout(Duration::from_millis(50)).add_service(service);
    tokio::spawn(server.serve_with_incoming(incoming));
    Channel::from_shared(url).unwrap().connect_lazy()
}

/// Orders by a retry around the call.
async fn order(client: &WeatherClient<Channel>, city: &str) -> GaveUp<Status> {
    let policy =
        RetryPolicy::contention().with_attempts(3).with_classifier(Classifier::non_idempotent());
    let attempt = |_| {
        let (mut client, city) = (client.clone(), City { name: city.to_owned() });
        async move { client.order(city).await }
    };
    retry(attempt, policy, Never).await.unwrap_err()
}

#[tokio::test]
async fn an_order_that_the_timeout_of_its_server_ended_is_in_doubt() {
    static ORDERS: AtomicU32 = AtomicU32::new(0);
    let channel = start(WeatherServer::new(Shop(&ORDERS)));
    let end = order(&WeatherClient::new(channel.clone()), "Paris").await;
    let status = end.last().unwrap();
    assert_eq!((status.code(), status.message()), (Code::Cancelled, "Timeout expired"));
    assert!(status.source().is_none(), "{status:?}");
    assert_eq!((end.reason(), end.is_in_doubt()), (StopReason::Fatal, true));

    let layered = ServiceBuilder::new()
        .map_err(to_status)
        .map_result(answer_to_error)
        .layer(RetryLayer::grpc(RetryPolicy::new(), NotIdempotent).keeping(65_536))
        .map_request(|request: http::Request<KeptBody<Body>>| request.map(Body::new))
        .service(channel);
    let city = City { name: "Paris".to_owned() };
    let status = WeatherClient::new(layered).order(city).await.unwrap_err();
    assert_eq!(status.code(), Code::Cancelled);
    let end = status.source().unwrap().downcast_ref::<GaveUp<Boxed>>().unwrap();
    assert_eq!((end.reason(), end.is_in_doubt()), (StopReason::Fatal, true));
    assert_eq!(ORDERS.load(SeqCst), 2);
}

#[tokio::test]
async fn an_order_whose_answer_is_too_large_is_in_doubt() {
    static ORDERS: AtomicU32 = AtomicU32::new(0);
    let channel = start(WeatherServer::new(Shop(&ORDERS)));
    let reads_little = WeatherClient::new(channel).max_decoding_message_size(16);
    let channel = start(WeatherServer::new(Shop(&ORDERS)).max_encoding_message_size(16));
    let of_one_that_writes_little = WeatherClient::new(channel);
    for (count, client) in [(1, reads_little), (2, of_one_that_writes_little)] {
        let end = order(&client, "Oslo").await;
        assert_eq!(end.last().unwrap().code(), Code::OutOfRange);
        assert_eq!((end.reason(), end.is_in_doubt()), (StopReason::Fatal, true), "{end:?}");
        assert_eq!(ORDERS.load(SeqCst), count);
    }
}

/// The server takes connections and closes them, so `hyper` never begins a request.
#[tokio::test]
async fn an_order_that_no_connection_took_is_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            drop(listener.accept().await.unwrap());
        }
    });
    let channel = Channel::from_shared(url).unwrap().connect_lazy();
    let end = order(&WeatherClient::new(channel.clone()), "Paris").await;
    let status = end.last().unwrap();
    assert_eq!((status.code(), status.message()), (Code::Cancelled, "operation was canceled"));
    assert_eq!((end.reason(), end.attempts()), (StopReason::Attempts, 3));
    assert!(!end.is_in_doubt());

    // So it is by the layer.
    let policy = RetryPolicy::contention().with_attempts(3);
    let channel = RetryChannel::new(channel, policy, NotIdempotent).on("weather");
    let city = City { name: "Paris".to_owned() };
    let status = WeatherClient::new(channel).order(city).await.unwrap_err();
    let below = gave_up(&status).unwrap();
    assert_eq!((below.reason(), below.attempts()), (StopReason::Attempts, 3));
    assert_eq!((below.verdict(), below.is_in_doubt()), (end.verdict(), false));
}
