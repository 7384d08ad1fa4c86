//! Tests what the processes use during an outage and after it.

#![expect(clippy::cast_precision_loss, reason = "counts of a test are small")]

use std::time::Duration;

use proptest::prelude::*;
use resile::fleet::State;
use resile::quota::{Dimension, Rate, Waiting};
use resile::upstream::Resource;

use super::world::{Calls, Process, World};
use super::{INTERVAL, Lease};
use crate::scale::Scale;
use crate::scripts::LeaseReply;

const SECOND: Duration = Duration::from_secs(1);

/// Lets the server be away for a time. Returns the most admissions since the beginning of the
/// outage beyond the refill, and the units that the account and the processes had at its beginning.
fn excess(
    rate: Rate,
    members: usize,
    calls: Calls,
    before: Duration,
    outage: Duration,
) -> (f64, f64) {
    let mut world = World::new(rate, std::iter::repeat_n((calls, 1), members));
    world.run(before);
    let from = world.now;
    world.outage = (from, from + outage);
    let held: i64 = world.processes.iter().map(|process| process.balance.max(0)).sum();
    let had = (world.account.level / i128::from(world.scale.parts)).max(0) + i128::from(held);
    world.run(outage + 6 * SECOND);
    let mut times: Vec<_> = world.processes.iter().flat_map(|it| it.admitted.clone()).collect();
    times.retain(|at| *at >= from);
    times.sort_unstable();
    let per_second = f64::from(rate.count()) / rate.period().as_secs_f64();
    let beyond = times
        .iter()
        .enumerate()
        .map(|(index, at)| (index + 1) as f64 - per_second * at.saturating_sub(from).as_secs_f64());
    (beyond.fold(0.0, f64::max), had as f64)
}

/// A limit of 6,000 a minute is used up, and 900 calls wait in each of eight processes. The first
/// ones that came back got what was saved during the outage, which all had used.
#[test]
fn what_was_used_during_an_outage_is_not_spent_again() {
    let rate = Rate::per_minute(6_000);
    let calls = Calls::Loops { callers: 900, pause: Duration::ZERO };
    for seconds in [3, 6, 20] {
        let (excess, had) = excess(rate, 8, calls, 8 * SECOND, seconds * SECOND);
        println!("an outage of {seconds} s: {excess:.0} beyond the refill, {had:.0} were there");
        assert!(excess <= had + 30.0, "{excess}, {had} were there");
    }
}

/// One process comes back a second before the others, which go on with their shares. It uses its own share, also
/// while the account is full.
#[test]
fn the_first_process_that_comes_back_leaves_the_shares_of_the_others() {
    let calls = Calls::Loops { callers: 2, pause: Duration::ZERO };
    let is_back = |it: &&Process| it.lease.mode.state() == State::Learning;
    let share = 0.7 * 156.0 / 8.0;
    for burst in [60, 305, 1_000] {
        let mut scenes = 0;
        for outage in (1_500..2_000).step_by(10).map(Duration::from_millis) {
            let rate = Rate::per_second(156).with_burst(burst);
            let mut world = World::new(rate, std::iter::repeat_n((calls, 1), 8));
            world.run(4 * SECOND);
            let from = world.now;
            world.outage = (from, from + outage);
            world.run(outage + Duration::from_millis(900));
            let back: Vec<_> = world.processes.iter().filter(is_back).collect();
            let [first] = back[..] else { continue };
            scenes += 1;
            let since = from + outage + Duration::from_millis(200);
            let used = first.admitted.iter().filter(|at| **at >= since).count();
            assert!((used as f64 - share).abs() <= 8.0, "burst {burst}: {used}, {share}");
        }
        assert!(scenes > 0, "burst {burst}: no process comes back alone");
    }
}

/// Returns the times at which a process would tell its operators that the fleet has no units, in
/// milliseconds since the beginning of an outage of five seconds. Four processes share 60 a second.
fn shorts(per_second: f64) -> Vec<u128> {
    let rate = Rate::per_second(60).with_burst(15);
    let mut world = World::new(rate, std::iter::repeat_n((Calls::Open(per_second), 1), 4));
    world.run(8 * SECOND);
    let from = world.now;
    world.outage = (from, from + 5 * SECOND);
    let mut times = Vec::new();
    while world.now < from + 12 * SECOND {
        world.run(Duration::from_millis(2));
        if world.processes.iter().any(|process| process.lease.is_short(world.now)) {
            times.push(world.now.saturating_sub(from).as_millis());
        }
    }
    times
}

/// Returns whether a process would tell its operators that the fleet has no units. Each answer says that
/// there are none for a second, and so many calls wait.
fn is_short(calls: u64) -> bool {
    let scale = Scale::of_rate(&Rate::per_second(100).with_burst(25));
    let mut lease = Lease::new(Resource::Quota(Dimension::Requests), scale, 0);
    let mut waiting = Waiting::default();
    (waiting.all, waiting.first) = (calls, calls.min(1));
    (0..8).any(|exchange| {
        let (now, balance) = (SECOND + INTERVAL * exchange, -2); // it uses 20 a second
        lease.observe(balance, waiting, now);
        let (ask, _) = lease.ask(balance, waiting, 4, now);
        assert!(exchange < 4 || ask.want > 0, "it wants a reserve");
        let (granted, wait, stepped) = (ask.spent, Some(SECOND), Duration::ZERO);
        let reply = LeaseReply { granted, level: 0, wait, is_new: false, stepped, room: 0 };
        lease.answered(&ask, &reply, now);
        lease.is_short(now)
    })
}

/// The account of a fleet at its limit is always empty.
#[test]
fn an_empty_account_is_no_lack_while_no_call_waits() {
    assert!(!is_short(0));
    assert!(is_short(1));
}

/// Calls wait at the beginning of the outage and at its end, because no exchange brings units.
#[test]
fn an_outage_below_the_share_is_no_lack_of_units() {
    assert_eq!(shorts(10.0), []);
}

/// The store knows all members two seconds after the outage, and says then that it has no units.
#[test]
fn a_share_that_is_used_up_is_a_lack_of_units() {
    let times = shorts(25.0);
    let within = |from, to| times.iter().filter(|at| (from..to).contains(*at)).count();
    assert!(within(0, 100) > 0, "before it: {times:?}");
    assert_eq!(within(400, 1_000), 0, "its share has just begun");
    assert!(within(2_000, 5_000) > 1_000, "while it is in safe mode");
    assert_eq!(within(6_100, 6_900), 0, "while it learns");
    assert!(within(8_000, 12_000) > 100, "after it");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Since the beginning of an outage all processes use at most what the account and they had,
    /// the refill, and the refill of a quarter of a second.
    #[test]
    fn the_excess_of_an_outage_is_bounded(
        per_second in 20_u32..300,
        burst in 1_u32..2_000,
        members in 2_usize..10,
        callers in 1_u32..100,
        (before, outage) in (2_000_u64..8_000, 100_u64..9_000),
    ) {
        let calls = Calls::Loops { callers, pause: Duration::ZERO };
        let [before, outage] = [before, outage].map(|millis| Duration::from_millis(millis / 2 * 2));
        let rate = Rate::per_second(u64::from(per_second)).with_burst(u64::from(burst));
        let (excess, had) = excess(rate, members, calls, before, outage);
        let slack = 0.25 * f64::from(per_second) + members as f64;
        prop_assert!(excess <= had + slack, "{} of {}", excess, had);
    }
}
