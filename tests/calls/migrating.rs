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
use resile::{
    Attempt, Backoff, GaveUp, Jitter, Never, RetryPolicy, StopReason, Upstream, Verdict, retry,
};

use crate::backoff::{plain, seeded};
use crate::script::{Down, drive};

mod counted;
mod curves;
mod loops;
mod own_error;
mod runs;

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

/// Makes a call whose attempts fail at once with this verdict, and returns its delays and its end.
fn failing(policy: RetryPolicy, verdict: Verdict) -> (Vec<Duration>, GaveUp<&'static str>) {
    let waits = Mutex::new(vec![]);
    let note = |event: &Event<'_>| {
        if let EventKind::Waiting { delay, .. } = event.kind {
            waits.lock().unwrap().push(delay);
        }
    };
    let timer = ManualTimer::new();
    let upstream = Upstream::new("old").with_timer(&timer);
    let policy = policy.with_classifier(|_: &&str| verdict);
    let call = retry(|_| ready(Err::<(), _>("busy")), policy, Never);
    let gave_up = drive(call.on(&upstream.observed_by(&note)), &timer).unwrap_err();
    (waits.into_inner().unwrap(), gave_up)
}

const SECOND: Duration = Duration::from_secs(1);

/// backon waits for what `adjust` returns.
#[test]
fn a_hint_above_the_cap_ends_the_call() {
    let hint = Duration::from_secs(180);
    let policy = RetryPolicy::new().with_attempts(4);
    let (waits, gave_up) = failing(policy, Verdict::transient().after(hint));
    assert!(waits.is_empty());
    assert_eq!(gave_up.reason(), StopReason::HintTooLong);
    assert_eq!(gave_up.retry_after(), Some(hint));
    let (waits, _) = failing(policy.with_hint_cap(hint), Verdict::transient().after(hint));
    assert_eq!(waits.len(), 3);
    assert!(waits.iter().all(|wait| *wait >= hint), "{waits:?}");
}

/// The classifier's own floor counts as a hint there.
#[test]
fn a_floor_above_the_cap_ends_the_call_too() {
    let floor = Duration::from_secs(180);
    let policy = RetryPolicy::new().with_attempts(4);
    let (waits, gave_up) = failing(policy, Verdict::transient().at_least(floor));
    assert!(waits.is_empty());
    assert_eq!((gave_up.reason(), gave_up.retry_after()), (StopReason::HintTooLong, Some(floor)));
    let bare = policy.with_backoff(Backoff::none().with_jitter(Jitter::None));
    let lifted = bare.with_hint_cap(floor);
    assert_eq!(failing(lifted, Verdict::transient().at_least(floor)).0, [floor; 3]);
}

/// `adjust` of backon replaces a delay, also by a shorter one, and adds retries.
#[test]
fn a_hint_lengthens_a_delay_and_adds_no_attempt() {
    let short = Verdict::transient().after(Duration::from_millis(10));
    let policy = RetryPolicy::new().with_attempts(4);
    let (waits, gave_up) = failing(policy.with_backoff(Backoff::fixed(SECOND)), short);
    assert_eq!(waits, [SECOND; 3]);
    assert_eq!(gave_up.reason(), StopReason::Attempts);
    // With this backoff the hint is the whole delay.
    let bare = policy.with_backoff(Backoff::none().with_jitter(Jitter::None));
    assert_eq!(failing(bare, short).0, [Duration::from_millis(10); 3]);
}

#[test]
fn a_growing_delay_ends_at_30_s_unless_the_cap_is_lifted() {
    let half_a_minute = 30 * SECOND;
    for (base, retry, uncapped) in [(1_000, 8, 128_000), (200, 9, 51_200)] {
        let backoff = Backoff::exponential(Duration::from_millis(base));
        assert_eq!(plain(backoff, retry), half_a_minute);
        let lifted = plain(backoff.with_cap(Duration::MAX), retry);
        assert_eq!(lifted, Duration::from_millis(uncapped));
    }
}

/// Returns the attempts of a crate that asks after each attempt whether the time is over, as
/// `max_duration` of tokio-retry2 and `build_with_total_retry_duration` of reqwest-retry do.
fn attempts_if_asked_between(delay: Duration, limit: Duration) -> u32 {
    let ends = (1..).map(|attempt| delay * (attempt - 1));
    ends.take_while(|end| *end <= limit).zip(2..).last().map_or(1, |(_, attempts)| attempts)
}

/// Returns the attempts of a crate that adds the next delay first, as `with_total_delay` of backon and
/// `max_elapsed_time` of backoff do.
fn attempts_if_the_delay_must_fit(delay: Duration, limit: Duration) -> u32 {
    let ends = (1..).map(|attempt| delay * attempt);
    ends.take_while(|end| *end <= limit).zip(2..).last().map_or(1, |(_, attempts)| attempts)
}

#[test]
fn no_attempt_begins_after_the_total_timeout() {
    let delay = Duration::from_millis(220);
    assert_eq!(attempts_if_asked_between(delay, SECOND), 6);
    assert_eq!(attempts_if_the_delay_must_fit(delay, SECOND), 5);
    let policy = RetryPolicy::new()
        .with_attempts(u32::MAX)
        .with_total_timeout(SECOND)
        .with_backoff(Backoff::fixed(delay));
    let (_, gave_up) = failing(policy, Verdict::transient());
    assert_eq!((gave_up.attempts(), gave_up.reason()), (5, StopReason::Deadline));
}

/// `notify` of backon gets the error itself.
#[test]
fn an_observer_finds_the_error_of_the_program() {
    let seen = Mutex::new(vec![]);
    let notify = |event: &Event<'_>| {
        if let EventKind::Waiting { failure, .. } = event.kind {
            let error = failure.source.and_then(|error| error.downcast_ref::<Down>());
            seen.lock().unwrap().push(error.copied());
        }
    };
    let timer = ManualTimer::new();
    let upstream = Upstream::new("old").with_timer(&timer);
    let fetch = |attempt: Attempt| ready(Err::<(), _>(Down(attempt.number())));
    let call = retry(fetch, RetryPolicy::new(), Never);
    drive(call.on(&upstream.observed_by(&notify)), &timer).unwrap_err();
    assert_eq!(*seen.lock().unwrap(), [Some(Down(1)), Some(Down(2))]);
}
