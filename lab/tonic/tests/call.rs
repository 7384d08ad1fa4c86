//! The program of the README of `resile-clients` against a real server.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use store::store_server::{Store, StoreServer};
use store::{Order, Receipt, StockReply, StockRequest};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

mod line;
mod page;

mod store {
    tonic::include_proto!("store");
}

static READS: AtomicU32 = AtomicU32::new(0);
static ORDERS: AtomicU32 = AtomicU32::new(0);

/// Is unavailable at its first read and at each order.
struct Restarting;

#[tonic::async_trait]
impl Store for Restarting {
    async fn stock(&self, request: Request<StockRequest>) -> Result<Response<StockReply>, Status> {
        let told = |name| request.metadata().get(name).map(|told| told.to_str().unwrap());
        assert_eq!(told("grpc-timeout"), Some("1050000u"));
        let reads = READS.fetch_add(1, SeqCst);
        assert_eq!(told("grpc-previous-rpc-attempts"), [None, Some("1")][reads as usize]);
        if reads == 0 {
            return Err(Status::unavailable("the server restarts"));
        }
        Ok(Response::new(StockReply { count: 3 }))
    }

    async fn buy(&self, _: Request<Order>) -> Result<Response<Receipt>, Status> {
        ORDERS.fetch_add(1, SeqCst);
        Err(Status::unavailable("the server restarts"))
    }
}

const README: &str = include_str!("../../../crates/resile-clients/README.md");

#[test]
fn the_readme_shows_the_program() {
    assert!(README.contains(include_str!("../src/call.rs")));
    assert!(README.contains(include_str!("../proto/store.proto")));
    assert!(README.contains(&page::build("store")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_prints_what_the_readme_shows() {
    let server = Server::builder().add_service(StoreServer::new(Restarting));
    let program = env!("CARGO_BIN_EXE_tonic_call");
    let [printed, shown] = page::lines(program, server, README, "WARN resile: store");
    assert_eq!((READS.load(SeqCst), ORDERS.load(SeqCst)), (2, 1));
    assert_eq!(printed, shown);
}
