use std::time::Duration;

use resile::breaker::State;
use resile::time::ManualTimer;
use resile::{Backoff, Breaker, Upstream, Verdict};

/// The settings of a breaker with one probe. Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    Consecutive { failures: u32, open: u64 },
    Rate { slot: u64, percent: u32, least: u32, open: u64 },
}

/// The rate of opossum opens above its percentage, and that of the crate at it. No rate of fewer than
/// a thousand calls is so little above a percentage.
const ABOVE: f64 = 1e-7;

impl Setting {
    fn breaker(self) -> Breaker {
        let open = |open| Backoff::fixed(Duration::from_millis(open));
        match self {
            Self::Consecutive { failures, open: time } => Breaker::new()
                .with_consecutive(failures)
                .without_failure_rate()
                .with_open_time(open(time)),
            Self::Rate { slot, percent, least, open: time } => Breaker::new()
                .without_consecutive()
                .with_failure_rate(f64::from(percent) / 100.0 + ABOVE, least)
                .with_window(Duration::from_millis(16 * slot))
                .with_open_time(open(time)),
        }
        .with_probes(1.0, 1)
    }
}

/// The calls of a script on a breaker.
pub(crate) struct Ran {
    /// True for each call that the breaker let run.
    pub(crate) ran: Vec<bool>,
    /// The place of the first call that closed the breaker.
    pub(crate) first_closing: Option<usize>,
}

/// Makes the calls of a script: the milliseconds before each, and whether it succeeds.
pub(crate) fn run(setting: Setting, steps: &[(u64, bool)]) -> Ran {
    let timer = ManualTimer::new();
    let upstream = Upstream::new("store").with_breaker(setting.breaker()).with_timer(timer.clone());
    let is_closed = || upstream.breaker().is_some_and(|it| it.state() == State::Closed);
    let mut run = Ran { ran: Vec::with_capacity(steps.len()), first_closing: None };
    for (nth, &(later, is_good)) in steps.iter().enumerate() {
        timer.advance(Duration::from_millis(later));
        let was_closed = is_closed();
        let admission = upstream.try_admit().ok();
        run.ran.push(admission.is_some());
        match admission {
            Some(admission) if is_good => admission.succeeded(),
            Some(admission) => admission.settle(&Verdict::transient()),
            None => {}
        }
        if !was_closed && is_closed() {
            run.first_closing = run.first_closing.or(Some(nth));
        }
    }
    run
}
