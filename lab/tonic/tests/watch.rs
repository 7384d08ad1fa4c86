//! The program for a stream of answers of the README of `resile-clients` against a real server.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::vec;

use feed::feed_server::{Feed, FeedServer};
use feed::{Change, Position};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

mod line;
mod page;

mod feed {
    tonic::include_proto!("feed");
}

static OPENED: AtomicU32 = AtomicU32::new(0);

/// Breaks its first stream off behind the second change. The feed has four.
struct Restarting;

#[tonic::async_trait]
impl Feed for Restarting {
    type WatchStream = tokio_stream::Iter<vec::IntoIter<Result<Change, Status>>>;

    async fn watch(
        &self,
        request: Request<Position>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        assert!(!request.metadata().contains_key("grpc-timeout"));
        let opened = OPENED.fetch_add(1, SeqCst);
        let from = request.into_inner().number;
        assert_eq!(from, [1, 3][opened as usize]);
        let changes = ["pen", "ink", "paper", "stamp"].into_iter().zip(1..);
        let changes = changes.filter(|(_, number)| *number >= from);
        let mut changes: Vec<_> =
            changes.map(|(text, number)| Ok(Change { number, text: text.to_owned() })).collect();
        if opened == 0 {
            changes[2] = Err(Status::unavailable("the server restarts"));
        }
        Ok(Response::new(tokio_stream::iter(changes)))
    }
}

const README: &str = include_str!("../../../crates/resile-clients/README.md");

#[test]
fn the_readme_shows_the_program() {
    assert!(README.contains(include_str!("../src/watch.rs")));
    assert!(README.contains(include_str!("../proto/feed.proto")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_prints_what_the_readme_shows() {
    let server = Server::builder().add_service(FeedServer::new(Restarting));
    let program = env!("CARGO_BIN_EXE_tonic_watch");
    let [printed, shown] = page::lines(program, server, README, "1 pen");
    assert_eq!(OPENED.load(SeqCst), 2);
    assert_eq!(printed, shown);
}
