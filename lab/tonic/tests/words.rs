//! The words of an error of the transport, which are the same in both ways.

use std::error::Error;

use resile_tower::resile::{GaveUp, Never, RetryPolicy, retry};
use resile_tower::resile_clients::Idempotency::NotIdempotent;
use resile_tower::resile_clients::{Classifier, grpc};
use resile_tower::tonic_0_14::{RetryChannel, gave_up};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tonic::transport::Channel;
use weather::City;
use weather::weather_client::WeatherClient;

mod weather {
    tonic::include_proto!("weather");
}

const PLACE: &str = "/weather.Weather/Order";

/// Returns the end of an order without its first words: around the call, and through a layer.
async fn ends(url: String) -> [String; 2] {
    let channel = || Channel::from_shared(url.clone()).unwrap().connect_lazy();
    let city = City { name: "Paris".to_owned() };

    let client = WeatherClient::new(channel());
    let call =
        async |_| -> Result<_, grpc::Failure> { Ok(client.clone().order(city.clone()).await?) };
    let orders = Classifier::non_idempotent().with_place(PLACE);
    let policy = RetryPolicy::none().with_classifier(orders);
    let around = retry(call, policy, Never).on("weather").await.unwrap_err();

    let layered = RetryChannel::new(channel(), RetryPolicy::none(), NotIdempotent).on("weather");
    let status = WeatherClient::new(layered).order(city.clone()).await.unwrap_err();
    let layer = gave_up(&status).unwrap();
    assert!(status.message().ends_with(&format!("{layer:#}")), "{status:?}");
    // Who looks for the error of `tonic` finds it.
    let last = GaveUp::source(layer).unwrap();
    assert!(last.is::<tonic::transport::Error>(), "{last:?}");
    assert_eq!((layer.verdict(), layer.is_in_doubt()), (around.verdict(), around.is_in_doubt()));
    [format!("{around:#}"), format!("{layer:#}")].map(|end| {
        let (_, words) = end.split_once(&format!("{PLACE}: ")).unwrap();
        words.to_owned()
    })
}

#[tokio::test]
async fn a_refused_connection_has_the_same_words_in_both_ways() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let [around, layer] = ends(url).await;
    assert!(around.starts_with("UNAVAILABLE: tcp connect error: "), "{around}");
    assert!(!around.contains("transport error"), "{around}");
    assert_eq!(around, layer);
}

/// The server reads the request, and ends the connection in place of an answer.
#[tokio::test]
async fn a_cut_connection_has_the_same_words_in_both_ways() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut read = Vec::new();
            while !read.windows(5).any(|bytes| bytes == b"Paris") {
                connection.read_buf(&mut read).await.unwrap();
            }
            connection.shutdown().await.unwrap();
            let _ = connection.read_to_end(&mut read).await;
        }
    });
    let [around, layer] = ends(url).await;
    assert!(around.starts_with("UNKNOWN: connection error: "), "{around}");
    assert_eq!(around, layer);
}
