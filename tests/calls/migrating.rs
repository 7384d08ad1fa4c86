//! The delays of other crates and their equivalents, as `docs/guide/migrating.md` states them.
//!
//! The formulas are those of backon 1.6, tokio-retry 0.3, tokio-retry2 0.9 and backoff 0.4. Each
//! takes the capped delay of the curve and draws uniformly from an interval around it.

use std::future::ready;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;
use resile::observe::{Event, EventKind};
use resile::time::ManualTimer;
use resile::{Backoff, Jitter, Never, RetryPolicy, Upstream, retry};

use crate::backoff::{plain, seeded};
use crate::script::drive;

/// The interval of a draw, as multiples of the capped delay.
type Interval = (f64, f64);

const BACKON: Interval = (1.0, 2.0);
const TOKIO_RETRY: Interval = (0.0, 1.0);
const TOKIO_RETRY2: Interval = (0.5, 1.5);

/// Differences of this size come from the rounding of a factor.
const ROUNDING: u64 = 4;

/// A migrated call: the curve and the cap of the other crate.
#[derive(Clone, Copy, Debug)]
struct Old {
    base: Duration,
    factor: f64,
    cap: Duration,
}

impl Old {
    fn curve(self, scale: u32) -> Backoff {
        Backoff::exponential(self.base * scale).with_factor(self.factor)
    }

    /// Returns the capped delay before that retry, without jitter.
    fn delay(self, retry: u32) -> Duration {
        plain(self.curve(1).with_cap(self.cap), retry)
    }

    fn bounds(self, retry: u32, (low, high): Interval) -> (Duration, Duration) {
        let delay = self.delay(retry);
        (delay.mul_f64(low), delay.mul_f64(high))
    }

    fn like_backon(self) -> Backoff {
        self.curve(2).with_cap(2 * self.cap).with_jitter(Jitter::Equal)
    }

    fn like_tokio_retry(self) -> Backoff {
        self.curve(1).with_cap(self.cap)
    }

    fn like_tokio_retry2(self) -> Backoff {
        self.curve(1).with_cap(self.cap * 3 / 2).with_jitter(Jitter::Proportional(0.5))
    }
}

/// Returns the least and the greatest delay before that retry.
fn bounds(backoff: Backoff, retry: u32) -> (Duration, Duration) {
    let at = |end: fn(RangeInclusive<u64>) -> u64| backoff.delay(retry, Duration::ZERO, end);
    (at(|range| *range.start()), at(|range| *range.end()))
}

fn are_near((a, b): (Duration, Duration), (c, d): (Duration, Duration)) -> bool {
    a.abs_diff(c).as_nanos() <= ROUNDING.into() && b.abs_diff(d).as_nanos() <= ROUNDING.into()
}

fn olds() -> impl Strategy<Value = Old> {
    let times = (1_000..10_000_000_000_u64, 1_u64..1_000);
    (times, 1.0..4.0_f64).prop_map(|((base, growth), factor)| Old {
        base: Duration::from_nanos(base),
        factor,
        cap: Duration::from_nanos(base * growth),
    })
}

proptest! {
    #[test]
    fn delays_of_backon_and_tokio_retry_have_an_equivalent(old in olds(), retry in 1_u32..40) {
        let (new, of) = (bounds(old.like_backon(), retry), old.bounds(retry, BACKON));
        prop_assert!(are_near(new, of), "{new:?} for {of:?}");
        let (new, of) = (bounds(old.like_tokio_retry(), retry), old.bounds(retry, TOKIO_RETRY));
        prop_assert!(are_near(new, of), "{new:?} for {of:?}");
    }

    /// The form with `Proportional` is the same below the old cap. At the cap it has the same
    /// upper end, but its lower end falls.
    #[test]
    fn delays_of_tokio_retry2_have_an_equivalent_below_the_cap(old in olds(), retry in 1_u32..40) {
        let (new, of) = (bounds(old.like_tokio_retry2(), retry), old.bounds(retry, TOKIO_RETRY2));
        if plain(old.curve(1).with_cap(Duration::MAX), retry) <= old.cap {
            prop_assert!(are_near(new, of), "{new:?} for {of:?}");
        } else {
            prop_assert!(are_near((of.0, new.1), of), "{new:?} for {of:?}");
            prop_assert!(new.0 <= of.0, "{new:?} for {of:?}");
        }
    }
}

const OLD: Old = Old { base: Duration::from_millis(100), factor: 2.0, cap: Duration::from_secs(1) };

const LISTED: Backoff = Backoff::steps(&[
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_secs(1),
])
.with_jitter(Jitter::Proportional(0.5));

#[test]
fn listed_delays_are_those_of_tokio_retry2_at_the_cap_too() {
    for retry in 1..40 {
        assert_eq!(bounds(LISTED, retry), OLD.bounds(retry, TOKIO_RETRY2), "retry {retry}");
    }
    let at_the_cap = bounds(OLD.like_tokio_retry2(), 9);
    assert_eq!(at_the_cap, (Duration::ZERO, Duration::from_millis(1500)));
}

/// Returns the percentage of calls whose delays together last at least a second.
fn outliving_a_second(backoff: Backoff, retries: u32) -> u32 {
    let mut draw = seeded(7);
    let calls = 20_000;
    let lasting = (0..calls).filter(|_| {
        let delays = (1..=retries).map(|retry| backoff.delay(retry, Duration::ZERO, &mut draw));
        delays.sum::<Duration>() >= Duration::from_secs(1)
    });
    let lasting = u32::try_from(lasting.count()).unwrap();
    (lasting * 100 + calls / 2) / calls
}

/// The table of the chapter: an upstream is down for a second.
#[test]
fn the_same_numbers_with_full_jitter_end_more_calls() {
    let full = OLD.like_tokio_retry();
    let backon = [full, OLD.like_backon()].map(|backoff| outliving_a_second(backoff, 5));
    assert_eq!(backon, [72, 100]);
    let retry2 = [full, OLD.like_tokio_retry2()].map(|backoff| outliving_a_second(backoff, 4));
    assert_eq!(retry2, [20, 98]);
}

/// A list of delays ends a call of tokio-retry2, and the last step here repeats. So the attempts are one
/// more than the delays.
#[test]
fn a_list_of_delays_is_steps_with_one_attempt_more() {
    const LIST: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
    let steps = Backoff::steps(&LIST);
    for (retry, delay) in (1..).zip(LIST) {
        assert_eq!(bounds(steps, retry), (delay, delay));
    }
    assert_eq!(bounds(steps, 3), (LIST[1], LIST[1]));
    let policy = RetryPolicy::new().with_attempts(3).with_backoff(steps);
    let waits = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::Waiting { delay, .. } = event.kind {
            waits.lock().unwrap().push(delay);
        }
    };
    let timer = ManualTimer::new();
    let upstream = Upstream::new("old").with_timer(&timer);
    let call = retry(|_| ready(Err::<(), _>("busy")), policy, Never);
    drive(call.on(&upstream.observed_by(&note)), &timer).unwrap_err();
    assert_eq!(*waits.lock().unwrap(), LIST);
}
