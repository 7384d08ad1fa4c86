//! The program of the README of `resile-tower` against a real server.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use tonic::transport::Server;
use tonic::{Request, Response, Status};
use weather::weather_server::{Weather, WeatherServer};
use weather::{City, Report};

mod line;
mod page;

mod weather {
    tonic::include_proto!("weather");
}

static READS: AtomicU32 = AtomicU32::new(0);
static ORDERS: AtomicU32 = AtomicU32::new(0);

/// Is unavailable at its first read and at each order.
struct Restarting;

#[tonic::async_trait]
impl Weather for Restarting {
    async fn get(&self, request: Request<City>) -> Result<Response<Report>, Status> {
        assert!(request.metadata().contains_key("grpc-timeout"));
        let before = request.metadata().get("grpc-previous-rpc-attempts");
        let reads = READS.fetch_add(1, SeqCst);
        assert_eq!(before.map_or("", |before| before.to_str().unwrap()), ["", "1"][reads as usize]);
        if reads == 0 {
            return Err(Status::unavailable("the server restarts"));
        }
        let text = format!("{}: 18 °C", request.into_inner().name);
        Ok(Response::new(Report { text }))
    }

    async fn order(&self, _: Request<City>) -> Result<Response<Report>, Status> {
        ORDERS.fetch_add(1, SeqCst);
        Err(Status::unavailable("the server restarts"))
    }
}

const README: &str = include_str!("../../../crates/resile-tower/README.md");

#[test]
fn the_readme_shows_the_program() {
    assert!(README.contains(include_str!("../src/client.rs")));
    assert!(README.contains(include_str!("../proto/weather.proto")));
    assert!(README.contains(&page::build("weather")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_prints_what_the_readme_shows() {
    let server = Server::builder().add_service(WeatherServer::new(Restarting));
    let program = env!("CARGO_BIN_EXE_tonic_client");
    let [printed, shown] = page::lines(program, server, README, "WARN resile");
    assert_eq!((READS.load(SeqCst), ORDERS.load(SeqCst)), (2, 1));
    assert_eq!(printed, shown);
}
