//! Many failures at once: a few lines at WARN, one a minute, and one at the end.

use std::time::Duration;

use ::tracing::Level;
use futures_util::future::join_all;
use resile::{Backoff, Health, Jitter, Never, RetryPolicy, Upstream, Verdict, retry};
use tokio::time::{Instant, sleep};

use super::script::Down;
use super::strains::SECOND;
use super::tracing::{capture, messages};

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(u32::MAX)
    .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));

/// Twenty tasks ask for half a minute. The upstream is down for its first `outage` and answers then.
async fn asks(feed: &Upstream, outage: Duration) {
    let start = Instant::now();
    let ask = |number: u32| async move {
        sleep(Duration::from_millis(37) * number).await;
        while start.elapsed() < outage + SECOND * 30 {
            let op = async |_| {
                sleep(SECOND / 10).await;
                if start.elapsed() < outage { Err(Down(7)) } else { Ok(()) }
            };
            retry(op, POLICY, Never).on(feed).await.unwrap();
            sleep(SECOND).await;
        }
    };
    join_all((0..20).map(ask)).await;
}

fn loud() -> Vec<String> {
    let loud = messages().into_iter().filter(|(level, _)| *level <= Level::INFO);
    loud.map(|(level, message)| format!("{level} {message}")).collect()
}

#[tokio::test(start_paused = true)]
async fn an_outage_without_parts_has_ten_lines_and_one_at_its_end() {
    capture();
    let feed = Upstream::new("feed");
    asks(&feed, SECOND * 10).await;
    let lines = loud();
    let retries = lines.iter().filter(|line| line.contains("retrying in")).count();
    assert_eq!((retries, lines.len()), (9, 11), "{lines:#?}");
    let surge = "WARN feed: surge of failures: 10 attempts announced a retry within 333.0ms, \
                 the lines of further ones are at DEBUG: down, 7";
    let over = "INFO feed: surge of failures over: 180 attempts announced a retry within 9.5s, \
                until 10.3s ago";
    assert_eq!(lines[9..], [surge, over]);

    // The next outage has lines again.
    asks(&feed, SECOND * 2).await;
    assert_eq!(loud().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_long_outage_has_one_more_line_a_minute() {
    capture();
    let feed = Upstream::new("feed");
    asks(&feed, SECOND * 150).await;
    let lines = loud();
    assert_eq!(lines.len(), 9 + 1 + 2 + 1, "{lines:#?}");
    assert!(lines[10].starts_with("WARN feed: surge of failures goes on: "), "{lines:#?}");
    assert!(lines[10].ends_with(": down, 7"), "{lines:#?}");
}

/// Each collision is at DEBUG, so a busy row does not flood the log. Many of them have a line, and one a minute.
#[tokio::test(start_paused = true)]
async fn collisions_have_a_line_at_their_start_and_one_a_minute() {
    capture();
    let feed = Upstream::new("feed");
    let busy = POLICY
        .with_attempts(131)
        .with_classifier(|_: &Down| Verdict::transient().with_health(Health::Healthy));
    let collide = async |_| Err::<(), _>(Down(1));
    retry(collide, busy, Never).on(&feed).await.unwrap_err();
    let (surge, announced) =
        ("surge of retries on a healthy upstream", "attempts announced a retry within");
    let begins =
        format!("INFO feed: {surge}: 10 {announced} 9.0s, their lines are at DEBUG: down, 1");
    let first = [
        begins.clone(),
        format!("INFO feed: {surge} goes on: 70 {announced} 69.0s: down, 1"),
        format!("INFO feed: {surge} goes on: 130 {announced} 129.0s: down, 1"),
        "WARN feed: gave up after 131 of 131 attempts: down, 1".to_owned(),
    ];
    assert_eq!(loud(), first);

    // A failure does not belong to them, so its retry is still at WARN. It does not end them either.
    retry(async |_| Err::<(), _>(Down(2)), POLICY.with_attempts(2), Never)
        .on(&feed)
        .await
        .unwrap_err();
    assert_eq!(loud().len(), 2);
    retry(collide, busy.with_attempts(20), Never).on(&feed).await.unwrap_err();
    assert_eq!(loud().len(), 1);

    // After ten quiet seconds they begin anew. Fewer have no line.
    sleep(SECOND * 10).await;
    retry(collide, busy.with_attempts(10), Never).on(&feed).await.unwrap_err();
    assert_eq!(loud().len(), 1);
    sleep(SECOND * 10).await;
    retry(collide, busy.with_attempts(11), Never).on(&feed).await.unwrap_err();
    assert_eq!(loud()[0], begins);
}
