use std::error::Error;
use std::time::Duration;

use resile::{Breaker, Budget, GaveUp, Never, RetryPolicy, Upstream, retry};
use resile_clients::{Classifier, grpc};
use store::store_client::StoreClient;
use store::{Order, Receipt, StockReply, StockRequest};
use tonic::Code;
use tonic::transport::{self, Channel, Endpoint};

mod store {
    tonic::include_proto!("store");
}

static STORE: Upstream =
    Upstream::new("store").with_budget(Budget::new()).with_breaker(Breaker::new());

/// A read may be executed twice.
const READ: Classifier = Classifier::idempotent();

/// An order is sent again only if it surely was not executed.
const ORDER: Classifier = Classifier::non_idempotent();

/// The limits of each call. Three attempts with their longest delays fit into the total timeout.
const fn policy(classifier: Classifier) -> RetryPolicy<Classifier> {
    RetryPolicy::new()
        .with_attempt_timeout(Duration::from_secs(1))
        .with_total_timeout(Duration::from_secs(5))
        .with_classifier(classifier)
}

/// A client whose calls retry. Clone it for each task, or keep it in a struct.
#[derive(Clone)]
struct Store(StoreClient<Channel>);

impl Store {
    /// Makes the channel, once for all calls. A connection ends sooner than an attempt.
    fn new(url: String) -> Result<Self, transport::Error> {
        let endpoint = Endpoint::from_shared(url)?
            .connect_timeout(Duration::from_millis(500))
            .http2_keep_alive_interval(Duration::from_millis(500))
            .keep_alive_timeout(Duration::from_millis(500));
        Ok(Self(StoreClient::new(endpoint.connect_lazy())))
    }

    async fn stock(&self, item: &str) -> Result<StockReply, GaveUp<grpc::Failure>> {
        let call = async |attempt| {
            let message = StockRequest { item: item.to_owned() };
            Ok(self.0.clone().stock(grpc::request(message, attempt)).await?.into_inner())
        };
        retry(call, policy(READ.with_place("/store.Store/Stock")), Never).on(&STORE).await
    }

    async fn buy(&self, item: &str) -> Result<Receipt, GaveUp<grpc::Failure>> {
        let call = async |attempt| {
            let message = Order { item: item.to_owned() };
            Ok(self.0.clone().buy(grpc::request(message, attempt)).await?.into_inner())
        };
        retry(call, policy(ORDER.with_place("/store.Store/Buy")), Never).on(&STORE).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let url = std::env::args().nth(1).unwrap_or("http://127.0.0.1:50051".to_owned());
    let store = Store::new(url)?;

    match store.stock("pen").await {
        Ok(stock) => println!("{} pens", stock.count),
        Err(end) if end.last().is_some_and(|failure| failure.code() == Code::NotFound) => {
            println!("the store has no such item");
        }
        Err(end) => println!("{end:#}"),
    }
    match store.buy("pen").await {
        Ok(receipt) => println!("receipt {}", receipt.number),
        Err(end) => {
            println!("{end:#}");
            if end.is_in_doubt() {
                println!("ask the server whether it has the order");
            }
        }
    }
    Ok(())
}
