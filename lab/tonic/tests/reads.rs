//! The test of the README of `resile-tower`: each method that a program lists as a read is sent again.

use std::convert::Infallible;

use resile_tower::resile::{Backoff, RetryPolicy};
use resile_tower::resile_clients::Idempotency::NotIdempotent;
use resile_tower::tonic_0_14::{RetryChannel, gave_up};
use tonic::body::Body;
use tower::service_fn;
use weather::City;
use weather::weather_client::WeatherClient;

mod weather {
    tonic::include_proto!("weather");
}

const README: &str = include_str!("../../../crates/resile-tower/README.md");

/// The methods that may be executed twice.
const READS: &[&str] = &["/weather.Weather/Get"];

/// Returns the attempts of each read behind a server that is down, with these paths in the list.
async fn attempts(reads: &'static [&'static str]) -> Vec<u32> {
    let down = service_fn(async |_: http::Request<Body>| {
        let answer = http::Response::builder().header("grpc-status", "14");
        Ok::<_, Infallible>(answer.body(Body::empty()).unwrap())
    });
    let policy = RetryPolicy::new().with_backoff(Backoff::none());
    let channel = RetryChannel::new(down, policy, NotIdempotent).with_idempotent(reads);
    let mut client = WeatherClient::new(channel);
    // One line for each read of the service.
    let ends = [client.get(City::default()).await.unwrap_err()];
    ends.iter().map(|status| gave_up(status).unwrap().attempts()).collect()
}

#[tokio::test]
async fn each_read_is_sent_again() {
    assert!(attempts(READS).await.iter().all(|attempts| *attempts > 1));
}

#[tokio::test]
async fn a_wrong_letter_is_found() {
    for wrong in [["/weather.Weather/get"], ["/weather.weather/Get"], ["/Weather/Get"]] {
        assert_eq!(attempts(wrong.to_vec().leak()).await, [1], "{wrong:?}");
    }
}

#[test]
fn the_readme_shows_the_test() {
    let (_, rest) = include_str!("reads.rs").split_once("/// Returns the attempts").unwrap();
    let (shown, _) = rest.split_once("#[tokio::test]\nasync fn a_wrong").unwrap();
    assert!(README.contains(shown.trim_end()));
}
