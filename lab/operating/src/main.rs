use std::io::{self, ErrorKind};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use resile::observe::{Log, Metrics};
use resile::{Attempt, Budget, Never, RetryPolicy, Upstream, retry};

static WEATHER: Upstream =
    Upstream::new("weather").with_observer(&(Log, Metrics)).with_budget(Budget::new());

/// In seconds. Without them the exporter would make summaries.
const BUCKETS: [f64; 12] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// The first attempt fails.
async fn fetch(attempt: Attempt) -> io::Result<&'static str> {
    if attempt.is_first() {
        return Err(ErrorKind::ConnectionReset.into());
    }
    Ok("18 °C")
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let durations = Matcher::Suffix("_duration_seconds".to_owned());
    let metrics = PrometheusBuilder::new()
        .set_buckets_for_metric(durations, &BUCKETS)
        .unwrap()
        .install_recorder()
        .unwrap();
    retry(fetch, RetryPolicy::new(), Never).on(&WEATHER).await.unwrap();
    print!("{}", metrics.render()); // serve this text at `/metrics`
}
