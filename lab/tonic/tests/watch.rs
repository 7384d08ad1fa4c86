//! The program for a stream of answers of the README of `resile-clients` against a real server.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use std::vec;

use feed::feed_server::{Feed, FeedServer};
use feed::{Change, Position};
use resile::stream::Resumption;
use resile::{Backoff, Classify, Never, RetryPolicy, Verdict, retry_stream};
use resile_clients::{Classifier, grpc};
use tokio_stream::StreamExt;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};

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

/// A handler ends its stream at the deadline of its request. The pair `late` opens it again, and the classifier alone
/// does not.
#[tokio::test]
async fn only_the_pair_opens_a_stream_again_that_its_handler_ended_late() {
    fn late(failure: &grpc::Failure) -> Option<Verdict> {
        let is_late = matches!(failure.code(), Code::DeadlineExceeded | Code::Cancelled);
        is_late.then(Verdict::transient)
    }

    async fn items(policy: RetryPolicy<impl Classify<grpc::Failure>>) -> usize {
        let open = async |_| {
            let late = Err(grpc::Failure::from(Status::deadline_exceeded("late")));
            Ok::<_, grpc::Failure>(tokio_stream::iter([Ok(1), late]))
        };
        let feed = retry_stream(open, policy.with_backoff(Backoff::none()), Never)
            .with_resumption(|_| Resumption::Resume)
            .on("feed");
        feed.filter(Result::is_ok).collect::<Vec<_>>().await.len()
    }

    let reads = Classifier::idempotent();
    let policy = RetryPolicy::new().with_attempt_timeout(Duration::from_secs(2));
    assert_eq!(items(policy.with_classifier(reads)).await, 1);
    assert_eq!(items(policy.with_classifier((late, reads))).await, 3);
}
