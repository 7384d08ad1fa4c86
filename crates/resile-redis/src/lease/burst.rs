//! Tests what a fleet uses at once after a time without calls.

#![expect(clippy::cast_precision_loss, reason = "counts of a test are small")]

use std::time::Duration;

use resile::quota::{Dimension, Rate, Waiting};
use resile::upstream::Resource;

use super::Lease;
use super::world::{Calls, World};
use crate::scale::Scale;

const SECOND: Duration = Duration::from_secs(1);

/// A provider with the same limit and the same burst refuses nothing after a hold, although the units
/// of the leases are granted beyond the level of the account.
#[test]
fn a_fleet_that_was_held_uses_at_most_the_burst_at_once() {
    for (per_second, burst) in [(60, 12), (60, 30), (200, 40), (20, 20)] {
        for members in [1, 4, 8_u32] {
            let callers = 32 * per_second / 60 / members;
            let calls = Calls::Loops { callers, pause: Duration::from_millis(240) };
            let rate = Rate::per_second(u64::from(per_second)).with_burst(burst);
            let mut world = World::new(rate, std::iter::repeat_n((calls, 1), members as usize));
            world.run(8 * SECOND);
            for held in [6 * SECOND, SECOND, SECOND] {
                world.hold(held);
                world.run(held);
                let from = world.now;
                world.run(SECOND);
                let all = world.processes.iter().flat_map(|it| it.admitted.clone());
                let mut times: Vec<_> = all.filter(|at| *at >= from).collect();
                times.sort_unstable();
                let beyond = |(index, at): (usize, &Duration)| {
                    (index + 1) as f64
                        - f64::from(per_second) * at.saturating_sub(from).as_secs_f64()
                };
                let most = times.iter().enumerate().map(beyond).fold(0.0, f64::max);
                let what = format!("{members} members, a hold of {held:?}, {rate:?}");
                assert!(most <= burst as f64 + 0.5, "{most} at once, {what}");
                assert!(
                    times.len() as f64 >= 0.95 * f64::from(per_second),
                    "{}, {what}",
                    times.len()
                );
            }
        }
    }
}

/// Returns the least burst with which a provider of this limit refuses nothing.
fn needed(world: &World, per_second: u32) -> f64 {
    let mut times: Vec<_> = world.processes.iter().flat_map(|it| it.admitted.clone()).collect();
    times.sort_unstable();
    let (mut debt, mut most, mut before) = (0.0_f64, 0.0_f64, Duration::ZERO);
    for at in times {
        debt =
            (debt - f64::from(per_second) * at.saturating_sub(before).as_secs_f64()).max(0.0) + 1.0;
        (most, before) = (most.max(debt), at);
    }
    most
}

/// A provider with the same limit and the same burst refuses nothing, whether calls lack units or not,
/// if the burst is a quarter of a second or more. No refill of a limit that is wanted is lost.
#[test]
fn a_provider_with_the_same_burst_refuses_nothing() {
    for (per_second, burst) in [(60_u32, 12), (60, 30), (200, 40), (200, 20), (20, 20), (60, 1)] {
        for members in [1, 4, 8_u32] {
            let part = f64::from(per_second) / f64::from(members);
            let callers = (32 * per_second / 60 / members).max(1);
            let loops = [0, 240, 700].map(Duration::from_millis);
            let loops = loops.map(|pause| Calls::Loops { callers, pause });
            for calls in
                [0.3, 0.8, 0.97, 1.5].map(|it| Calls::Open(it * part)).into_iter().chain(loops)
            {
                let rate = Rate::per_second(u64::from(per_second)).with_burst(burst);
                let mut world = World::new(rate, std::iter::repeat_n((calls, 1), members as usize));
                for _ in 0..3 {
                    world.run(3 * SECOND);
                    world.hold(SECOND);
                }
                world.run(3 * SECOND);
                let what = format!("{members} members, {calls:?}, {rate:?}");
                let (needed, most) = (needed(&world, per_second), 0.25 * f64::from(per_second));
                assert!(needed <= most.max(burst as f64), "{needed}, {what}");
                if let Calls::Open(wanted) = calls {
                    let used = world.counts(SECOND, 10 * SECOND).iter().sum::<f64>() / 10.0;
                    let wanted = (wanted * f64::from(members)).min(f64::from(per_second));
                    assert!(used >= 0.97 * wanted, "{used} of {wanted}, {what}");
                }
            }
        }
    }
}

/// A report of an exchange without an answer is told again. What has arrived meanwhile belongs to it, so a late
/// one does not empty an account that is full again.
#[test]
fn a_refusal_is_told_with_the_rest_of_its_hold_and_a_late_one_with_what_has_arrived() {
    let scale = Scale::of_rate(&Rate::per_second(60).with_burst(30));
    let mut lease = Lease::new(Resource::Quota(Dimension::Requests), scale, 0);
    let at = |millis| Duration::from_millis(millis);
    let asked = |lease: &mut Lease, millis| {
        let (ask, _) = lease.ask(0, Waiting::default(), 1, at(millis));
        lease.lost(&ask);
        (ask.told, ask.pause)
    };
    lease.learn(Some(0), at(4_000));
    assert_eq!(asked(&mut lease, 1_000), (Some(0), at(3_000)));
    assert_eq!(asked(&mut lease, 3_500), (Some(0), at(500)));
    assert_eq!(asked(&mut lease, 5_000), (Some(0), at(0)), "it is on its way for a second");
    assert_eq!(asked(&mut lease, 7_000), (Some(120), at(0)), "all but this second counts");
    lease.learn(Some(5), at(7_100));
    let (ask, _) = lease.ask(0, Waiting::default(), 1, at(7_200));
    assert_eq!((ask.told, ask.pause), (Some(5), at(0)), "another report is lower");
}
