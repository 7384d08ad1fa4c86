use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use feed::feed_client::FeedClient;
use feed::{Change, Position};
use resile::stream::Resumption;
use resile::{GaveUp, Never, RetryPolicy, StreamResilienceExt, Upstream, retry_stream};
use resile_clients::{Classifier, grpc};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::{Channel, Endpoint};

mod feed {
    tonic::include_proto!("feed");
}

static FEED: Upstream = Upstream::new("feed");

/// The limits until the first change of a stream. A stream that flows has none of them.
const POLICY: RetryPolicy<Classifier> = RetryPolicy::new()
    .with_attempt_timeout(Duration::from_secs(2))
    .with_total_timeout(Duration::from_secs(10))
    .with_classifier(Classifier::idempotent().with_place("/feed.Feed/Watch"));

/// Watches the changes from a number on. A stream that breaks off goes on behind the last change.
fn watch(
    client: FeedClient<Channel>,
    from: u64,
) -> impl Stream<Item = Result<Change, GaveUp<grpc::Failure>>> {
    let next = Arc::new(AtomicU64::new(from));
    let open = move |attempt| {
        let (mut client, next) = (client.clone(), Arc::clone(&next));
        async move {
            let position = Position { number: next.load(Relaxed) };
            let changes = client.watch(grpc::request(position, attempt)).await?.into_inner();
            let changes = changes.map(move |change| -> Result<_, grpc::Failure> {
                let change = change?;
                next.store(change.number + 1, Relaxed);
                Ok(change)
            });
            Ok::<_, grpc::Failure>(changes.idle_timeout(Duration::from_secs(20)))
        }
    };
    retry_stream(open, POLICY, Never)
        .with_resumption(|_| Resumption::Resume)
        .with_attempts_renewed()
        .on(&FEED)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let url = std::env::args().nth(1).unwrap_or("http://127.0.0.1:50051".to_owned());
    let endpoint = Endpoint::from_shared(url)?
        .connect_timeout(Duration::from_millis(500))
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(2));
    let client = FeedClient::new(endpoint.connect_lazy());

    let mut changes = std::pin::pin!(watch(client, 1));
    while let Some(change) = changes.next().await {
        match change {
            Ok(change) => println!("{} {}", change.number, change.text),
            Err(end) => println!("{end:#}"),
        }
    }
    Ok(())
}
