//! A million random steps on two threads that share a quota and a clock. No unit is lost or made.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use resile::quota::{Cost, Dimension, Limit, Limits, Rate, Usage};
use resile::{Quota, Verdict};

use super::RESERVED;
use crate::by_hand::{ByHand, Reservation};

const STEPS: u32 = 1_000_000;
const PHASES: u32 = 40;
const THREADS: u32 = 2;
const BURST: i64 = 60_000;
/// One unit refills in a millisecond.
const RATE: Rate = Rate::per_minute(60_000);

fn quota() -> ByHand {
    let quota = Quota::new().with_requests(RATE).with_input(RATE).with_output(RATE);
    let charge = RESERVED.with_cache_read_weight(0.0);
    ByHand::new(quota.with_tokens(RATE).with_concurrency(12).with_charge(charge))
}

/// One thread takes random steps while the clock stands. Returns the units that it took and did not
/// give back, by dimension.
fn work(quota: &ByHand, now: Duration, seed: u64, learns: bool) -> [i64; 4] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut open: Vec<(Reservation<'_>, [u32; 2])> = Vec::new();
    let mut taken = [0; 4];
    let mut add = |[input, output]: [u32; 2]| {
        let [input, output] = [i64::from(input), i64::from(output)];
        for (sum, units) in taken.iter_mut().zip([1, input, output, input + output]) {
            *sum += units;
        }
    };
    for step in 0..STEPS / PHASES / THREADS {
        let at = rng.random_range(0..8);
        let mut units = || [rng.random_range(0..40_u32), rng.random_range(0..90_u32)];
        let [input, output] = units();
        let usage = Usage::new().with_cache_reads(7).with_input(input.into());
        let usage = if output % 3 == 0 { usage } else { usage.with_output(output.into()) };
        if at >= open.len() {
            let cost = Cost::input(input.into()).with_max_output(output.into());
            if let Ok(mut reservation) = quota.try_reserve(cost, now) {
                if output % 2 == 0 {
                    reservation.sent();
                    open.push((reservation, [input, output]));
                } else {
                    drop(reservation);
                }
            }
            continue;
        }
        let (mut reservation, [held_input, held_output]) = open.swap_remove(at);
        let charged = [input, usage.output().map_or(held_output, |_| output)];
        match units()[0] {
            0..20 => {
                reservation.settle(usage, now);
                add(charged);
            }
            20..26 => {
                reservation.record(usage, now);
                open.push((reservation, charged));
            }
            26..30 => {
                let throttled = if learns { Verdict::throttled() } else { Verdict::overloaded() };
                // A reservation with a usage keeps what it was charged.
                reservation.record(Usage::new().with_input(input.into()).with_output(0), now);
                reservation.failed(&throttled, now);
                add([input, 0]);
            }
            30..32 if learns => {
                let limit = Limit::of_remaining(output.into());
                reservation.learn(&Limits::new().with(Dimension::Tokens, limit), now);
                open.push((reservation, [held_input, held_output]));
            }
            _ => {
                drop(reservation);
                add([held_input, held_output]);
            }
        }
        if step % 32 == 0 {
            let levels = Dimension::ALL.map(|dimension| quota.level_at(dimension, now).unwrap());
            assert!(levels.iter().all(|level| *level <= BURST), "{levels:?}");
        }
    }
    for (reservation, held) in open {
        drop(reservation);
        add(held);
    }
    taken
}

fn a_million_steps(seed: u64, learns: bool) {
    let (quota, mut now, mut model) = (quota(), Duration::ZERO, [BURST; 4]);
    let mut taken_in_all = 0;
    for phase in 0..PHASES {
        let seeds = (0..THREADS).map(|thread| seed << 16 | u64::from(phase << 4 | thread));
        let taken = std::thread::scope(|scope| {
            let work = |seed| {
                scope.spawn({
                    let quota = &quota;
                    move || work(quota, now, seed, learns)
                })
            };
            let threads: Vec<_> = seeds.map(work).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for (at, dimension) in Dimension::ALL.into_iter().enumerate() {
            let level = quota.level_at(dimension, now).unwrap();
            let taken = taken.iter().map(|taken| taken[at]).sum::<i64>();
            taken_in_all += taken;
            model[at] -= taken;
            if learns {
                assert!(level <= model[at], "{dimension:?} in phase {phase}: {level} of {model:?}");
                model[at] = level;
            } else {
                assert_eq!(level, model[at], "{dimension:?} in phase {phase}");
            }
        }
        assert_eq!((quota.reserved(), quota.in_flight(), quota.waiting()), (0, Some(0), 0));
        let refilled = if phase % 3 == 0 { 100_000 } else { 7_000 };
        now += Duration::from_millis(refilled);
        let refilled = i64::try_from(refilled).unwrap();
        model = model.map(|level| BURST.min(level + refilled));
    }
    assert!(taken_in_all > BURST / 4, "too little was taken: {taken_in_all}");
}

#[test]
fn a_million_steps_on_two_threads_lose_and_make_no_unit() {
    a_million_steps(1, false);
}

#[test]
fn a_million_steps_with_learned_limits_make_no_unit() {
    a_million_steps(2, true);
}
