//! The ratio of two times, measured in turn and in short windows. So other load on the machine hits
//! both alike. The windows run at several depths of the stack, because the address of a future
//! moves a figure of some nanoseconds by more than the difference in question.

use std::hint::black_box;
use std::time::Instant;

/// The code to measure: makes as many calls as it is given.
pub(crate) type Calls<'a> = &'a mut dyn FnMut(u32);

/// The number of windows at each depth. The quickest counts.
const WINDOWS: u32 = 100;
/// The number of calls in a window.
const CALLS: u32 = 1_000;

pub(crate) fn ratio(yardstick: Calls<'_>, other: Calls<'_>) -> f64 {
    let mut sums = [0.0; 2];
    let mut measure = || {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..WINDOWS {
            best[0] = best[0].min(window(yardstick));
            best[1] = best[1].min(window(other));
        }
        sums[0] += best[0];
        sums[1] += best[1];
    };
    deeper_by::<16>(&mut measure);
    deeper_by::<32>(&mut measure);
    deeper_by::<48>(&mut measure);
    deeper_by::<64>(&mut measure);
    deeper_by::<272>(&mut measure);
    deeper_by::<800>(&mut measure);
    sums[1] / sums[0]
}

fn window(calls: Calls<'_>) -> f64 {
    let began = Instant::now();
    calls(CALLS);
    began.elapsed().as_secs_f64()
}

#[inline(never)]
fn deeper_by<const BYTES: usize>(run: &mut dyn FnMut()) {
    let mut room = [0_u8; BYTES];
    black_box(&mut room);
    run();
    black_box(&mut room);
}
