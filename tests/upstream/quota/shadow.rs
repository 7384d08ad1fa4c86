//! Shadow mode: a quota that only watches.

use std::sync::Mutex;
use std::time::Duration;

use resile::classify::Always;
use resile::observe::{Event, EventKind, HeldBy};
use resile::quota::{Cost, Dimension, Rate, Usage};
use resile::upstream::Resource;
use resile::{Never, Quota, ResilienceExt, StopReason, Upstream, quota};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

const SECOND: Duration = Duration::from_secs(1);
const RATE: Rate = Rate::per_second(10).with_burst(5);

/// Calls at a fixed pace for 20 s. Returns those that waited and those that were refused.
async fn call(upstream: &'static Upstream, pause: Duration, cost: Cost<'static>) -> (u64, u64) {
    let began = Instant::now();
    let mut calls = JoinSet::new();
    for call in 0.. {
        let at = began + pause * call;
        if at >= began + 20 * SECOND {
            break;
        }
        calls.spawn(async move {
            sleep_until(at).await;
            let ask = async {
                quota::record(Usage::new().with_input(2).with_output(1));
                Ok::<_, std::io::Error>(Instant::now())
            };
            match ask.through(upstream.at_cost(cost), Always).await {
                Ok(answered) => (u64::from(answered > at), 0),
                Err(refused) => {
                    assert_eq!(refused.reason(), StopReason::Full);
                    (0, 1)
                }
            }
        });
    }
    let all = calls.join_all().await;
    all.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn leaked(quota: Quota) -> &'static Upstream {
    Box::leak(Box::new(Upstream::new("model").with_quota(quota)))
}

/// What the shadow counts is what the same quota does to the same calls.
#[tokio::test(start_paused = true)]
async fn a_shadow_counts_what_the_quota_would_do_and_does_nothing() {
    for (pause, queue) in [(200, 8), (95, 8), (50, 8), (50, 0), (50, 1_000), (20, 8)] {
        let quota = || Quota::new().with_requests(RATE).with_queue(queue);
        let (millis, pause) = (pause, Duration::from_millis(pause));
        let (delayed, refused) = call(leaked(quota()), pause, Cost::new()).await;
        let shadow = leaked(quota().with_shadow(true));
        assert_eq!(call(shadow, pause, Cost::new()).await, (0, 0), "all are admitted at once");
        let counts = shadow.quota().unwrap().shadow().unwrap();
        assert_eq!(counts.attempts, 20_000_u64.div_ceil(millis));
        let near = |a: u64, b: u64| a.abs_diff(b) <= 2;
        assert!(near(counts.delayed, delayed), "{counts} {delayed} {refused} {pause:?} {queue}");
        assert!(near(counts.refused, refused), "{counts} {delayed} {refused} {pause:?} {queue}");
    }
}

/// An attempt that would have been refused changes no level, whatever it uses or gives back.
#[tokio::test(start_paused = true)]
async fn a_refused_attempt_is_not_charged() {
    let quota = Quota::new().with_tokens(RATE).with_queue(0).with_concurrency(1);
    let upstream = leaked(quota.with_shadow(true));
    let level = || upstream.quota_level(Dimension::Tokens);
    let shadow = || upstream.quota().unwrap().shadow().unwrap();
    let cost = Cost::input(4).with_max_output(1);
    upstream.at_cost(cost).try_admit().unwrap().succeeded();
    assert_eq!((level(), shadow().refused), (Some(0), 0));
    for end in 0..4 {
        let mut admission = upstream.at_cost(cost).try_admit().unwrap();
        match end {
            0 => admission.withdraw(),
            1 => admission.succeeded(),
            2 => drop(admission),
            _ => {
                admission.record(Usage::new().with_input(1).with_output(0));
                admission.succeeded();
            }
        }
        assert_eq!(level(), Some(0), "{end}");
    }
    upstream.at_cost(Cost::input(50)).try_admit().unwrap().succeeded();
    assert_eq!((shadow().refused, shadow().delayed), (5, 0));
    assert_eq!(upstream.quota().unwrap().in_flight(), Some(0));
    assert_eq!(leaked(Quota::new()).quota().unwrap().shadow(), None);
}

/// Operators see the begin and the end, with the numbers.
#[tokio::test(start_paused = true)]
async fn a_line_says_what_would_have_happened() {
    let lines: &'static Mutex<Vec<String>> = Box::leak(Box::default());
    let observer = move |event: &Event<'_>| {
        let by = match event.kind {
            EventKind::Limiting { by, .. } | EventKind::Relieved { by, .. } => Some(by),
            _ => None,
        };
        if by == Some(HeldBy::Quota) {
            lines.lock().unwrap().push(event.to_string());
        }
    };
    let quota = Quota::new().with_requests(RATE).with_queue(2).with_shadow(true);
    let upstream = Upstream::new("model").with_quota(quota).with_shared_observer(observer);
    for _ in 0..9 {
        upstream.admit(Never).await.unwrap().succeeded();
    }
    sleep(11 * SECOND).await;
    upstream.admit(Never).await.unwrap().succeeded();
    assert_eq!(
        *lines.lock().unwrap(),
        [
            "model: quota in shadow mode used up: further calls would wait",
            "model: quota in shadow mode has units again: would have refused 2 and delayed 2 of 10 \
             attempts",
        ]
    );
}

/// A member without units in its lease admits too, and owes them to the fleet.
#[tokio::test(start_paused = true)]
async fn a_member_in_shadow_mode_owes_what_it_lacks() {
    let upstream = leaked(Quota::new().with_requests(RATE).with_shadow(true));
    let shared = upstream.share().unwrap();
    let requests = Resource::Quota(Dimension::Requests);
    shared.adjust(requests, 3);
    shared.extend(requests, SECOND);
    for _ in 0..7 {
        upstream.admit(Never).await.unwrap().succeeded();
    }
    assert_eq!(shared.balance(requests), Some(-4));
    let counts = upstream.quota().unwrap().shadow().unwrap();
    assert_eq!((counts.attempts, counts.delayed, counts.refused), (7, 4, 0));
}
