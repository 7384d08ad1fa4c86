//! More calls than the quota allows, for a long time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use resile::quota::Rate;
use resile::{Never, Quota, RetryPolicy, StopReason, Upstream, retry};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const MS: Duration = Duration::from_millis(1);

struct Counts {
    /// The attempts that the upstream answered or worked on.
    sent: u32,
    answered: u32,
    /// The latest end of a call after its start.
    slowest: Duration,
    reasons: Vec<(StopReason, u32)>,
}

/// Makes a call each `gap` for a minute. An attempt takes `latency`, of which the upstream learns nothing
/// if its caller leaves.
async fn overload(gap: Duration, latency: fn(Duration) -> Duration) -> Counts {
    let quota = Quota::new().with_requests(Rate::per_second(100).with_burst(25));
    let model = Arc::new(Upstream::new("model").with_quota(quota).with_observer(&()));
    let (sent, began) = (Arc::new(AtomicU32::new(0)), Instant::now());
    let mut calls = JoinSet::new();
    while began.elapsed() < Duration::from_secs(60) {
        let (model, sent) = (Arc::clone(&model), Arc::clone(&sent));
        calls.spawn(async move {
            let policy = RetryPolicy::new()
                .with_attempts(1)
                .with_attempt_timeout(Duration::from_secs(1))
                .with_total_timeout(Duration::from_secs(5));
            let start = Instant::now();
            let ask = async |_| {
                sent.fetch_add(1, Relaxed);
                sleep(latency(began.elapsed())).await;
                Ok::<_, io::Error>(())
            };
            let end = retry(ask, policy, Never).on(&*model).await;
            (end.map_err(|end| (end.reason(), end.attempts())), start.elapsed())
        });
        sleep(gap).await;
    }
    let ends = calls.join_all().await;
    Counts {
        sent: sent.load(Relaxed),
        answered: u32::try_from(ends.iter().filter(|(end, _)| end.is_ok()).count()).unwrap(),
        slowest: ends.iter().map(|(_, took)| *took).max().unwrap(),
        reasons: ends.into_iter().filter_map(|(end, _)| end.err()).collect(),
    }
}

/// Each call waits for nearly its whole time, because the line is as long as the deadlines allow. The
/// upstream must not work for callers that have gone.
#[tokio::test(start_paused = true)]
async fn an_answer_still_reaches_its_caller_in_a_long_overload() {
    let latencies: [fn(Duration) -> Duration; 3] = [
        |_| MS * 50,
        |_| MS * 400,
        // Slower for a while, and then fast again.
        |at| if (20..30).contains(&at.as_secs()) { MS * 900 } else { MS * 50 },
    ];
    for (at, latency) in latencies.into_iter().enumerate() {
        let Counts { sent, answered, slowest, reasons } = overload(MS * 1000 / 160, latency).await;
        assert!(sent >= 5_900, "{at}: the quota is used: {sent}");
        assert!(answered * 100 >= sent * 97, "{at}: {answered} answers for {sent} attempts");
        assert!(slowest <= Duration::from_secs(5), "{at}: {slowest:?}");
        let ends = |(reason, _): &(StopReason, u32)| matches!(reason, StopReason::Deadline);
        assert!(reasons.iter().all(ends), "{at}: {reasons:?}");
    }
}

/// A process of a fleet does not know how long the wait for units is. So its calls wait until little of their time
/// is left, and those that came together are all cut at one moment.
#[cfg(feature = "fleet")]
#[tokio::test(start_paused = true)]
async fn no_call_of_a_fleet_begins_in_the_last_moments_of_its_time() {
    use resile::fleet::State;
    use resile::quota::Dimension;
    use resile::upstream::Resource;

    let quota = Quota::new().with_requests(Rate::per_second(200).with_burst(50)).with_queue(4_096);
    let model = Arc::new(Upstream::new("model").with_quota(quota).with_observer(&()));
    let shared = model.share().unwrap();
    let requests = Resource::Quota(Dimension::Requests);
    shared.report(State::Shared, 2);
    shared.extend(requests, Duration::from_secs(60));
    let (sent, mut calls) = (Arc::new(AtomicU32::new(0)), JoinSet::new());
    for _ in 0..500 {
        let (model, sent) = (Arc::clone(&model), Arc::clone(&sent));
        calls.spawn(async move {
            let ask = async |_| {
                sent.fetch_add(1, Relaxed);
                sleep(MS * 30).await;
                Ok::<_, io::Error>(())
            };
            let policy = RetryPolicy::new().with_total_timeout(Duration::from_secs(2));
            retry(ask, policy, Never).on(&*model).await.is_ok()
        });
    }
    for _ in 0..420 {
        shared.answered();
        shared.adjust(requests, 1);
        sleep(MS * 5).await;
    }
    let answered = calls.join_all().await.into_iter().filter(|is_ok| *is_ok).count();
    let sent = sent.load(Relaxed);
    assert!(sent >= 390, "the units are used: {sent}");
    assert_eq!(answered, sent as usize, "attempts were cut");
}
