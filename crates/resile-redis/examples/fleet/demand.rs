//! The calls that each process wants to make.

use std::time::Duration;

use crate::plan::{LIMIT, PROCESSES};

/// Returns the calls per second that a process wants to make at that time.
///
/// The busiest process has half of all calls, the next one a quarter, and so on. The last two have
/// the same. All together want twice the limit. In the second half of a run each process has the
/// place of another one.
pub(crate) fn per_second(process: usize, at: Duration, length: Duration) -> f64 {
    let moved = if at * 2 < length { 0 } else { PROCESSES / 2 };
    let rank = (process + moved) % PROCESSES;
    let part = 1 << (rank + 1).min(PROCESSES - 1);
    f64::from(2 * LIMIT) / f64::from(part)
}
