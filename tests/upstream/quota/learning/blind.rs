//! The same laws for limits, latencies and seeds that nobody looked at while the law was made.

use std::time::Duration;

use super::provider::Counts;
use super::run::{World, run};

fn world(counts: Counts, limit: u32, seconds: u64, latency: f64, seed: u64) -> World {
    let period = Duration::from_secs(seconds);
    World { period, latency, ..World::per_minute(counts, limit, seed) }
}

#[tokio::test(start_paused = true)]
async fn other_limits_are_used_and_rarely_refuse() {
    for (counts, limit, seconds, latency, seed) in [
        (Counts::Windows, 1_100, 60, 800.0, 71),
        (Counts::Sliding, 900, 60, 150.0, 72),
        (Counts::Sliding, 250, 30, 400.0, 73),
        (Counts::Windows, 75, 10, 60.0, 74),
    ] {
        let mut world = world(counts, limit, seconds, latency, seed);
        world.has_cooldown = seed % 2 == 0;
        let record = run(&world, 900).await;
        let (used, refused) = record.score(&world, limit, 300, 900);
        assert!(used >= 0.97 && refused <= 1.5, "{used:.3} {refused:.2} {world:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_limits_are_found() {
    for (counts, limit, configured, latency, seed) in [
        (Counts::Bucket, 700, 1_000, 500.0, 81),
        (Counts::Windows, 150, 400, 200.0, 82),
        (Counts::Sliding, 500, 1_300, 1_000.0, 83),
    ] {
        let world = World { configured, ..world(counts, limit, 60, latency, seed) };
        let record = run(&world, 300).await;
        let share = f64::from(limit) / f64::from(configured);
        let found = record.first(0, |used| used < share * 1.1);
        let (_, refused) = record.count(0, 300);
        assert!(found.is_some(), "{:?} {world:?}", record.shares.last());
        assert!(refused <= 0.6 * f64::from(configured), "{refused} {world:?}");
    }
}
