//! A setting above the limit of the provider, for each way of counting and each wait that a refusal names.

use std::time::Duration;

use super::ALL;
use super::provider::Counts;
use super::run::{World, run};

/// The provider allows fewer than the 38 a second of the setting. After a minute the quota uses its limit, within
/// a tenth, and few calls are refused.
async fn a_setting_that_is_too_high_is_learned(counts: Counts, limit: u32, burst: Option<u32>) {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for (retry_after, has_cooldown, least, most) in [
        (None, false, 0.94, 30.0),
        (None, true, 0.94, 10.0),
        (seconds(1), true, 0.9, 10.0),
        (seconds(3), true, 0.75, 10.0),
    ] {
        let world = World { configured: 38, burst, ..World::per_second(counts, limit, 7) };
        let world = World { latency: 15.0, retry_after, has_cooldown, ..world };
        let record = run(&world, 180).await;
        let found = record.first(0, |share| share < 1.1 * f64::from(limit) / 38.0);
        assert!(found.is_some_and(|second| second < 60), "{found:?} {world:?}");
        let (used, refused) = record.score(&world, limit, 60, 180);
        assert!(used >= least && refused <= most, "{used:.3} {refused:.2} {world:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_setting_with_a_small_burst_is_learned() {
    for counts in ALL {
        a_setting_that_is_too_high_is_learned(counts, 30, Some(8)).await;
        a_setting_that_is_too_high_is_learned(counts, 10, Some(8)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_setting_with_the_burst_of_a_second_is_learned() {
    for counts in ALL {
        a_setting_that_is_too_high_is_learned(counts, 25, None).await;
    }
}
