//! Takes jobs until a SIGTERM, finishes them and leaves the fleet.

use std::time::Duration;

use resile::quota::Rate;
use resile::{Budget, Drain, Quota, RetryPolicy, Upstream, retry};
use resile_redis::Fleet;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;

static MODEL: Upstream = Upstream::new("model")
    .with_budget(Budget::new())
    .with_quota(Quota::new().with_requests(Rate::per_second(10)));

const POLICY: RetryPolicy = RetryPolicy::new()
    // The longest time of an attempt in flight after the token.
    .with_attempt_timeout(Duration::from_secs(2))
    .with_total_timeout(Duration::from_secs(20));

/// One attempt. A real one sends a request.
async fn ask() -> std::io::Result<()> {
    sleep(Duration::from_millis(300)).await;
    Ok(())
}

/// Returns whether the job is done.
async fn job(token: CancellationToken) -> bool {
    let call = retry(|_| ask(), POLICY, Drain(&token)).on(&MODEL);
    call.await.is_ok() // a real one puts a job that is not done back
}

/// Returns the number of jobs begun, and of those done.
pub(crate) async fn serve(url: &str, end: impl Future<Output = ()>) -> anyhow::Result<(u32, u32)> {
    let member = Fleet::new(url)?.with_prefix("guide").join(&MODEL)?;
    let (mut jobs, token) = (JoinSet::new(), CancellationToken::new());
    let (mut begun, mut done) = (0, 0);
    let mut work = interval(Duration::from_millis(150));
    tokio::pin!(end);
    // 1. Take no new work after the signal.
    loop {
        tokio::select! {
            () = &mut end => break,
            Some(result) = jobs.join_next() => done += u32::from(result?),
            _ = work.tick() => {
                begun += 1;
                jobs.spawn(job(token.clone()));
            }
        }
    }
    // 2. Let the jobs end. After 5 s begin no further attempt. Those in
    //    flight end by themselves.
    tokio::spawn(async move {
        sleep(Duration::from_secs(5)).await;
        token.cancel();
    });
    while let Some(result) = jobs.join_next().await {
        done += u32::from(result?);
    }
    // 3. Leave: the others have the part of this process at once.
    member.leave().await;
    Ok((begun, done))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let mut term = signal(SignalKind::terminate())?;
    let end = async {
        term.recv().await;
    };
    let (begun, done) = serve("redis://127.0.0.1:6379", end).await?;
    println!("{done} of {begun} jobs are done");
    Ok(()) // 4. Exit.
}
