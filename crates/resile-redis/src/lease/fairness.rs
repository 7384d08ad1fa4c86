//! Tests how much of a limit each process gets if many want it.

#![expect(clippy::cast_precision_loss, reason = "counts of a test are small")]

use std::time::Duration;

use proptest::prelude::*;
use resile::quota::Rate;

use super::world::{Calls, World};

/// The time that the figures leave out.
const WARM_UP: Duration = Duration::from_secs(3);
const LENGTH: Duration = Duration::from_secs(10);

/// Returns Jain's index: 1 if all are equal, and 1/n if one has all.
fn jain(counts: &[f64]) -> f64 {
    let (sum, squares) = (counts.iter().sum::<f64>(), counts.iter().map(|n| n * n).sum::<f64>());
    sum * sum / (counts.len() as f64 * squares)
}

/// Runs the processes. Returns the admissions of each in ten seconds.
fn shares(rate: Rate, calls: impl IntoIterator<Item = (Calls, u32)>) -> Vec<f64> {
    let mut world = World::new(rate, calls);
    world.run(WARM_UP + LENGTH);
    world.counts(WARM_UP, LENGTH)
}

const LOOPS: Calls = Calls::Loops { callers: 20, pause: Duration::ZERO };
/// One caller whose calls take 20 ms, as in the guide.
const GUIDE: Calls = Calls::Loops { callers: 1, pause: Duration::from_millis(20) };
/// One caller whose calls take no time.
const TIGHT: Calls = Calls::Loops { callers: 1, pause: Duration::ZERO };

fn limit(rate: &Rate) -> f64 {
    f64::from(rate.count()) / rate.period().as_secs_f64() * LENGTH.as_secs_f64()
}

/// Checks that the whole limit was used and no more. Two calls may be of the time before.
fn is_exact(counts: &[f64], rate: &Rate) {
    let (used, limit) = (counts.iter().sum::<f64>(), limit(rate));
    assert!(used >= 0.985 * limit && used <= 1.005 * limit + 2.0, "{used}, {rate:?}: {counts:?}");
}

/// Equal processes get equal parts of a limit, however their calls come.
#[test]
fn equals_get_equal_parts() {
    for (per_second, burst) in [(20_u32, 20), (40, 40), (40, 4), (200, 20), (1_000, 1_000)] {
        let rate = Rate::per_second(per_second.into()).with_burst(burst);
        for members in [4_u32, 12] {
            let open = Calls::Open(2.0 * f64::from(per_second) / f64::from(members));
            let guide = (per_second <= 10 * members).then_some(GUIDE);
            for calls in [Some(LOOPS), Some(open), guide].into_iter().flatten() {
                let counts = shares(rate, std::iter::repeat_n((calls, 1), members as usize));
                let jain = jain(&counts);
                assert!(jain >= 0.98, "{jain} {members} members, {calls:?}, {rate:?}: {counts:?}");
                is_exact(&counts, &rate);
            }
        }
    }
}

/// A process that wants less than its part gets what it wants. The others have the rest.
#[test]
fn a_small_demand_is_served_beside_a_large_one() {
    let rate = Rate::per_second(20).with_burst(4);
    for large in [Calls::Open(40.0), LOOPS] {
        let counts = shares(rate, [(Calls::Open(4.0), 1), (large, 1), (large, 1)]);
        is_exact(&counts, &rate);
        assert!((38.0..=42.0).contains(&counts[0]), "{counts:?}");
        assert!((counts[1] - counts[2]).abs() <= 4.0, "{counts:?}");
    }
}

#[test]
fn parts_follow_the_weights() {
    let rate = Rate::per_second(70).with_burst(7);
    let counts = shares(rate, [(LOOPS, 1), (LOOPS, 2), (LOOPS, 4)]);
    is_exact(&counts, &rate);
    for (count, expected) in counts.iter().zip([100.0, 200.0, 400.0]) {
        assert!((count - expected).abs() <= 0.04 * expected, "{counts:?}");
    }
}

/// The others make room within a second for a process whose calls begin.
#[test]
fn a_newcomer_has_its_part_within_a_second() {
    let rate = Rate::per_second(40).with_burst(4);
    let mut world = World::new(rate, [(LOOPS, 1), (LOOPS, 1), (LOOPS, 1), (LOOPS, 1)]);
    let late = std::mem::take(&mut world.processes[3].back);
    world.run(WARM_UP);
    world.processes[3].back = late;
    world.run(WARM_UP);
    let counts = world.counts(WARM_UP + Duration::from_secs(1), Duration::from_secs(2));
    assert!(counts.iter().all(|count| (count - 20.0).abs() <= 2.0), "{counts:?}");
    let first = world.counts(WARM_UP, Duration::from_secs(1));
    assert!(first[3] >= 7.0, "{first:?}");
}

/// A lease covers the time until the next exchange, so a small burst wastes nothing.
#[test]
fn a_small_burst_wastes_nothing() {
    for members in [1, 4] {
        for calls in [TIGHT, LOOPS] {
            let rate = Rate::per_second(200).with_burst(2);
            is_exact(&shares(rate, std::iter::repeat_n((calls, 1), members)), &rate);
        }
    }
    let counts = shares(Rate::per_second(200).with_burst(2), [(GUIDE, 1)]);
    assert!(counts[0] >= 490.0, "{counts:?} of 500: a call takes 20 ms");
}

/// A hundred members that all want more: each asks at most ten times a second.
#[test]
fn a_hundred_members_share_equally() {
    let rate = Rate::per_second(200).with_burst(20);
    let counts = shares(rate, std::iter::repeat_n((LOOPS, 1), 100));
    is_exact(&counts, &rate);
    assert!(jain(&counts) >= 0.99, "{counts:?}");
}

/// Returns the parts of a limit so that no demand gets more than another one of the same weight
/// that lacks something.
fn max_min(limit: f64, demands: &[(f64, f64)]) -> Vec<f64> {
    let (mut low, mut high) = (0.0, limit);
    for _ in 0..60 {
        let level = f64::midpoint(low, high);
        let sum: f64 = demands.iter().map(|(demand, weight)| demand.min(level * weight)).sum();
        if sum < limit { low = level } else { high = level }
    }
    demands.iter().map(|(demand, weight)| demand.min(low * weight)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// All processes get their max-min fair parts, whatever they want.
    #[test]
    fn parts_are_fair_by_demand(
        per_second in 20_u32..300,
        burst in 1_u32..60,
        open in prop::collection::vec((1.0_f64..200.0, 1_u32..5), 1..6),
        loops in prop::collection::vec(1_u32..5, 0..4),
    ) {
        let rate = Rate::per_second(u64::from(per_second)).with_burst(u64::from(burst));
        let calls = open.iter().map(|(rate, weight)| (Calls::Open(*rate), *weight));
        let calls: Vec<_> = calls.chain(loops.iter().map(|weight| (LOOPS, *weight))).collect();
        let demands: Vec<_> = open.iter().map(|(rate, weight)| (*rate, f64::from(*weight)))
            .chain(loops.iter().map(|weight| (1e6, f64::from(*weight)))).collect();
        let counts = shares(rate, calls);
        let fair = max_min(f64::from(per_second), &demands);
        for (count, fair) in counts.iter().zip(&fair) {
            let fair = fair * LENGTH.as_secs_f64();
            prop_assert!((count - fair).abs() <= 0.07 * fair + 8.0, "{:?} of {:?}", counts, fair);
        }
        let (used, most) = (counts.iter().sum::<f64>(), fair.iter().sum::<f64>() * 10.0);
        // The account may begin with what it has saved: the burst, or 0.15 s while units lack.
        let saved = f64::from(burst).max(0.15 * f64::from(per_second));
        prop_assert!(used >= 0.975 * most - 2.0 && used <= limit(&rate) + saved, "{}", used);
    }
}
