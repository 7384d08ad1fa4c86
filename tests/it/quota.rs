use resile::quota::{self, Cost, Quota, Rate, Usage};
use resile::{Never, RetryPolicy, Upstream, retry};

#[tokio::test(start_paused = true)]
async fn waits() {
    static MODEL: Upstream = Upstream::new("model").with_quota(
        Quota::new().with_requests(Rate::per_minute(500)).with_tokens(Rate::per_minute(30_000)),
    );
    async fn ask() -> std::io::Result<&'static str> {
        quota::record(Usage::new().with_input(20_000).with_output(4_000));
        Ok("answer")
    }
    let began = tokio::time::Instant::now();
    let cost = Cost::input(20_000).with_max_output(8_000);
    for _ in 0..2 {
        retry(|_| ask(), RetryPolicy::new(), Never).on(MODEL.at_cost(cost)).await.unwrap();
        eprintln!("{:?} {:?}", began.elapsed(), MODEL.quota_level(quota::Dimension::Tokens));
    }
}
