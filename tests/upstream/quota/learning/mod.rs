//! Limits of a provider that are not the configured ones: seen, told and learned.
//!
//! A model of a provider answers callers that always want more. Each test asserts numbers of
//! `DESIGN.md`.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a model counts in floating point"
)]

mod blind;
mod provider;
mod run;
mod too_high;

use std::sync::Mutex;
use std::time::Duration;

use resile::observe::{Event, EventKind};
use resile::quota::{Dimension, Evidence, Learning, Limit, Limits, Rate};
use resile::{Quota, Upstream};

use provider::{Counts, Reports};
use run::{Record, World, run};

const ALL: [Counts; 3] = [Counts::Bucket, Counts::Windows, Counts::Sliding];

/// A provider with half of the configured limit.
fn half(world: World) -> World {
    World { limit: world.configured / 2, ..world }
}

/// Returns the findings as evidence, count and whether it is used.
fn findings(record: &Record) -> Vec<(Evidence, u32, bool)> {
    record.findings.iter().map(|(_, it)| (it.by, it.found.count(), it.is_used)).collect()
}

/// Pacing at exactly the limit would refuse every second call of a sliding window, because latency
/// moves them to both sides of its end.
async fn is_used_and_rarely_refuses(world: World, warm_up: u64, seconds: u64) {
    let record = run(&world, seconds).await;
    let (used, refused) = record.score(&world, world.limit, warm_up, seconds);
    assert!(used >= 0.98 && refused <= 1.0, "{used:.3} {refused:.2} {world:?}");
    assert_eq!(findings(&record), []);
}

#[tokio::test(start_paused = true)]
async fn a_limit_in_windows_is_used_and_rarely_refuses() {
    is_used_and_rarely_refuses(World::per_minute(Counts::Windows, 600, 1), 300, 1_200).await;
}

#[tokio::test(start_paused = true)]
async fn a_sliding_limit_is_used_and_rarely_refuses() {
    is_used_and_rarely_refuses(World::per_minute(Counts::Sliding, 600, 2), 300, 1_200).await;
}

/// A small burst needs no lesson of its own.
#[tokio::test(start_paused = true)]
async fn a_sliding_limit_and_a_small_burst() {
    let world = World::per_minute(Counts::Sliding, 600, 9);
    let world = World { burst: Some(6), has_cooldown: false, has_hint: false, ..world };
    is_used_and_rarely_refuses(world, 300, 1_200).await;
}

#[tokio::test(start_paused = true)]
async fn a_bucket_is_used_and_rarely_refuses() {
    is_used_and_rarely_refuses(World::per_minute(Counts::Bucket, 600, 3), 0, 600).await;
}

/// A true limit of half is found at the first answer that tells its window, and is told once.
#[tokio::test(start_paused = true)]
async fn a_reported_limit_of_half_is_taken_at_once() {
    for (counts, reports) in [
        (Counts::Bucket, Reports::Plain),
        (Counts::Windows, Reports::Plain),
        (Counts::Sliding, Reports::PerSecond),
    ] {
        let world = World { reports, ..half(World::per_minute(counts, 600, 4)) };
        let record = run(&world, 240).await;
        assert!(record.first(0, |share| share < 0.52).unwrap() <= 5, "{world:?}");
        assert_eq!(findings(&record), [(Evidence::Reported, 300, true)], "{world:?}");
        let (_, refused) = record.count(0, 240);
        assert!(refused <= 30.0, "{refused} {world:?}");
        let (used, refused) = record.score(&world, 300, 120, 240);
        assert!(used >= 0.97 && refused <= 2.0, "{used:.3} {refused:.2} {world:?}");
    }
}

/// Without headers refusals teach the limit within five minutes, and cost at most 0.6 of the calls
/// of a minute.
#[tokio::test(start_paused = true)]
async fn refusals_teach_a_limit_of_half() {
    for counts in ALL {
        for has_cooldown in [true, false] {
            let world = half(World::per_minute(counts, 600, 5));
            let world = World { has_cooldown, has_hint: false, ..world };
            let record = run(&world, 300).await;
            let found = record.first(0, |share| share < 0.55);
            assert!(found.is_some_and(|second| second < 300), "{found:?} {world:?}");
            let (accepted, refused) = record.count(0, 300);
            assert!(refused <= 0.6 * 600.0 && accepted >= 0.97 * 1_500.0, "{refused} {world:?}");
            let all = findings(&record);
            assert!((1..=4).contains(&all.len()), "{all:?}");
            assert!(all.iter().all(|(by, ..)| *by == Evidence::Refused), "{all:?}");
        }
    }
}

/// A limit of half that becomes whole again: the quota has all of it, and says so once.
#[tokio::test(start_paused = true)]
async fn a_limit_that_rises_is_found_again() {
    for (reports, most) in [(Reports::Nothing, 180), (Reports::Plain, 15)] {
        let world = half(World::per_second(Counts::Windows, 100, 6));
        let world = World { reports, has_cooldown: false, later: vec![(60, 100)], ..world };
        let record = run(&world, 60 + most).await;
        assert!(record.first(0, |share| share < 0.55).unwrap() < 60);
        let back = record.first(60, |share| share > 0.95);
        assert!(back.is_some(), "{:?} {world:?}", record.shares.last());
        if reports == Reports::Nothing {
            let told = record.findings.iter().filter(|(_, it)| it.by == Evidence::Accepted);
            assert_eq!(told.count(), 1);
        }
    }
}

/// Without learning the limit is told, and used as configured.
#[tokio::test(start_paused = true)]
async fn without_learning_a_limit_is_only_told() {
    let world = half(World::per_minute(Counts::Bucket, 600, 7));
    let world = World { learning: Learning::Off, reports: Reports::Plain, ..world };
    let record = run(&world, 180).await;
    assert_eq!(findings(&record), [(Evidence::Reported, 300, false)]);
    assert!(record.shares.iter().all(|share| *share >= 1.0));
}

/// A limit of twice the configured one is told once. It is used only if asked for.
#[tokio::test(start_paused = true)]
async fn more_than_configured_is_used_only_if_asked_for() {
    for (learning, share, is_used) in
        [(Learning::Off, 1.0, false), (Learning::Lower, 1.0, false), (Learning::Both, 2.0, true)]
    {
        let world = World::per_minute(Counts::Bucket, 1_200, 8);
        let world = World { configured: 600, learning, reports: Reports::Plain, ..world };
        let record = run(&world, 180).await;
        assert_eq!(findings(&record), [(Evidence::Reported, 1_200, is_used)]);
        assert_eq!(record.shares.last(), Some(&share));
        let (used, refused) = record.score(&world, 600, 120, 180);
        assert!(used >= 0.95 * share && refused < 1.0, "{used:.3} {refused:.2}");
    }
}

/// A limit without its window says nothing of the rate, whatever the learning is: the quota keeps its
/// own, and the line says only what is known. A window that comes later is told.
#[test]
fn a_limit_without_its_window_is_told_once_and_keeps_the_quota() {
    let told: &'static Mutex<Vec<String>> = Box::leak(Box::default());
    let observer = move |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Learned(_)) {
            told.lock().unwrap().push(event.to_string());
        }
    };
    for learning in [Learning::Off, Learning::Lower, Learning::Both] {
        let quota = Quota::new().with_requests(Rate::per_minute(500)).with_learning(learning);
        let model = Upstream::new("model").with_quota(quota).with_shared_observer(observer);
        let tell = |window| {
            let limits = Limits::new().with(Dimension::Requests, Limit::of(10, window));
            model.try_admit().unwrap().learn(limits);
            model.quota_rate(Dimension::Requests).unwrap().count()
        };
        assert_eq!([tell(None), tell(None)], [500; 2]);
        let unsure = "model: quota may be too high: the upstream reports a limit of 10 requests without its \
                      window, so the quota of 500 per 60s does not use it: compare the setting";
        let seen = std::mem::take(&mut *told.lock().unwrap());
        assert_eq!(seen, [unsure]);
        let is_taken = learning != Learning::Off;
        assert_eq!(tell(Some(Duration::from_secs(60))), if is_taken { 10 } else { 500 });
        let seen = std::mem::take(&mut *told.lock().unwrap());
        let [line] = &*seen else { panic!("{seen:?}") };
        let reports =
            "model: quota too high: the upstream reports 10 requests per 60s, the quota has 500";
        assert!(line.starts_with(reports), "{line}");
        assert_eq!(line.contains("uses the reported limit"), is_taken, "{line}");
    }
}

/// Each line names the limit, both numbers, and what to do.
#[test]
fn a_line_says_what_was_found_and_what_to_do() {
    let told: &'static Mutex<Vec<String>> = Box::leak(Box::default());
    for (count, seconds) in [(5, 1), (30, 1)] {
        let observer = move |event: &Event<'_>| {
            if matches!(event.kind, EventKind::Learned(_)) {
                told.lock().unwrap().push(event.to_string());
            }
        };
        let quota = Quota::new().with_tokens(Rate::per_minute(600)).with_learning(Learning::Off);
        let model = Upstream::new("model").with_quota(quota).with_shared_observer(observer);
        let window = Some(Duration::from_secs(seconds));
        let limits = Limits::new().with(Dimension::Tokens, Limit::of(count, window));
        model.try_admit().unwrap().learn(limits);
    }
    assert_eq!(
        *told.lock().unwrap(),
        [
            "model: quota too high: the upstream reports 5 tokens per 1s, the quota has 600 per 60s \
             and does not learn, so calls above it may be refused: lower the setting or let the quota learn",
            "model: quota too low: the upstream reports 30 tokens per 1s, the quota has 600 per 60s, \
             so the rest is not used: raise the setting if you need more",
        ]
    );
}
