//! The program of the README of `resile-tower` against a real server.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use weather::weather_server::{Weather, WeatherServer};
use weather::{City, Report};

mod line;

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
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_prints_what_the_readme_shows() {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", incoming.local_addr().unwrap());
    let server = Server::builder().add_service(WeatherServer::new(Restarting));
    tokio::spawn(server.serve_with_incoming(incoming));
    let run = || {
        let program = env!("CARGO_BIN_EXE_tonic_client");
        Command::new(program).arg(url).env("NO_COLOR", "1").output()
    };
    let output = tokio::task::block_in_place(run).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((READS.load(SeqCst), ORDERS.load(SeqCst)), (2, 1));
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<_> = printed.lines().map(line::line).collect();
    let shown = README.split("```text\n").find(|block| block.starts_with("WARN resile")).unwrap();
    let shown: Vec<_> = shown.split("```").next().unwrap().lines().map(line::line).collect();
    assert_eq!(printed, shown);
}
