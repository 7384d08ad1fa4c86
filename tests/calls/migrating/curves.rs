//! The curves of other crates and their equivalents.

use std::iter;
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::time::Duration;

use resile::{Backoff, Jitter, RetryPolicy, Verdict};

use super::{OLD, Old, SECOND, are_near, bounds, failing};
use crate::backoff::{plain, seeded};

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap()
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
    assert_eq!(failing(policy, Verdict::transient()).0, LIST);
}

/// The delays of `FibonacciBuilder` of backon without jitter: the first one at or above the cap repeats.
fn fibonacci_of_backon(min: Duration, max: Duration) -> impl Iterator<Item = Duration> {
    let mut state = (Duration::ZERO, min);
    iter::once(min).chain(iter::from_fn(move || {
        if state.1 < max {
            state = (state.1, state.0 + state.1);
        }
        Some(state.1)
    }))
}

#[test]
fn fibonacci_of_backon_passes_its_cap_by_one_step() {
    let same = Backoff::fibonacci(SECOND).with_cap(89 * SECOND).with_jitter(Jitter::None);
    for (retry, old) in (1..16).zip(fibonacci_of_backon(SECOND, 60 * SECOND)) {
        assert_eq!(plain(same, retry), old, "retry {retry}");
    }
    let old: Vec<_> = fibonacci_of_backon(SECOND, 60 * SECOND).skip(9).take(3).collect();
    assert_eq!(old, [55 * SECOND, 89 * SECOND, 89 * SECOND]);
}

/// The jitter of `FibonacciBuilder` adds up to the first delay to each delay, which no jitter here does.
#[test]
fn fibonacci_of_backon_with_jitter_is_custom() {
    const MIN: Duration = Duration::from_millis(100);
    const CURVE: Backoff = Backoff::fibonacci(MIN).with_jitter(Jitter::None);
    let f = |n| CURVE.delay(n, Duration::ZERO, |_| 0) + rand::random_range(Duration::ZERO..=MIN);
    let custom = Backoff::custom(f);
    for (retry, old) in (1..=8).zip(fibonacci_of_backon(MIN, 60 * SECOND)) {
        let drawn: Vec<_> = (0..1_000).map(|_| plain(custom, retry)).collect();
        assert!(drawn.iter().all(|delay| (old..=old + MIN).contains(delay)), "retry {retry}");
        let longer = drawn.iter().filter(|delay| **delay > old + MIN / 2).count();
        assert!((400..600).contains(&longer), "retry {retry}: {longer} of 1,000");
    }
    // The form with `Equal` has the same draws for the first two delays only.
    let equal = Backoff::fibonacci(2 * MIN).with_jitter(Jitter::Equal);
    assert_eq!([1, 2].map(|retry| bounds(equal, retry)), [(MIN, 2 * MIN); 2]);
    assert_eq!(bounds(equal, 3), (2 * MIN, 4 * MIN));
}

/// backon makes the first delay as it is and caps the others. Its jitter adds up to the delay itself.
#[test]
fn a_first_delay_above_the_cap_is_steps() {
    const STEPS: [Duration; 2] = [Duration::from_secs(4), SECOND];
    const TWICE: [Duration; 2] = [Duration::from_secs(8), Duration::from_secs(2)];
    let capped = Backoff::exponential(STEPS[0]).with_cap(SECOND);
    assert_eq!(plain(capped, 1), SECOND);
    let (none, equal) = (Backoff::steps(&STEPS), Backoff::steps(&TWICE).with_jitter(Jitter::Equal));
    for (retry, delay) in [(1, STEPS[0]), (2, SECOND), (3, SECOND)] {
        assert_eq!(bounds(none, retry), (delay, delay));
        assert_eq!(bounds(equal, retry), (delay, 2 * delay));
    }
}

/// A program that reads its delays at the start keeps them for good.
#[test]
fn a_list_of_the_configuration_is_steps_too() {
    let list = "100 500".split(' ').map(|ms| Duration::from_millis(ms.parse().unwrap()));
    let steps = Backoff::steps(list.collect::<Vec<_>>().leak());
    assert_eq!([1, 2].map(|retry| plain(steps, retry).as_millis()), [100, 500]);
}

/// `ConstantBuilder` of backon, `FixedInterval` with `jitter`,
/// `FibonacciBackoff`, `LinearBackoff` and `ExponentialBackoff` of tokio-retry2.
#[test]
fn other_curves_have_an_equivalent() {
    const WITH_INCREMENT: Backoff = Backoff::custom(|retry| {
        Duration::from_millis(100) + Duration::from_millis(200) * (retry - 1)
    });
    let constant = Backoff::fixed(2 * SECOND).with_jitter(Jitter::Equal);
    let fixed = Backoff::fixed(SECOND).with_jitter(Jitter::Proportional(0.5));
    let powers = Backoff::exponential(Duration::from_millis(30)).with_factor(10.0);
    let powers = powers.with_cap(Duration::MAX).with_jitter(Jitter::None);
    let (mut this, mut next) = (SECOND, SECOND);
    for retry in 1..12 {
        assert_eq!(bounds(constant, retry), (SECOND, 2 * SECOND));
        assert_eq!(bounds(fixed, retry), (SECOND / 2, SECOND * 3 / 2));
        assert_eq!(plain(powers, retry), Duration::from_millis(3 * 10_u64.pow(retry)));
        let fibonacci = Backoff::fibonacci(SECOND).with_cap(Duration::MAX);
        assert_eq!(bounds(fibonacci.with_jitter(Jitter::None), retry), (this, this));
        (this, next) = (next, this + next);
        let linear = Backoff::linear(SECOND).with_jitter(Jitter::None);
        assert_eq!(bounds(linear, retry), (SECOND * retry, SECOND * retry));
        let old = Duration::from_millis(100 + 200 * u64::from(retry - 1));
        assert_eq!(bounds(WITH_INCREMENT, retry), (old, old));
    }
}

/// The delays of loops by hand. The growing ones have full jitter, if the policy does not say otherwise.
#[test]
fn delays_of_a_loop_have_an_equivalent() {
    let base = Duration::from_millis(100);
    for attempt in 1..=5_u32 {
        assert_eq!(bounds(Backoff::fixed(base), attempt), (base, base));
        for (backoff, delay) in [
            (Backoff::linear(base), base * attempt),
            (Backoff::exponential(2 * base), Duration::from_millis(100 << attempt)),
        ] {
            assert_eq!(bounds(backoff, attempt), (Duration::ZERO, delay));
            assert_eq!(plain(backoff, attempt), delay);
        }
    }
}

/// `d / 2 + rand(0..d / 2)`.
#[test]
fn equal_jitter_of_a_loop_has_an_equivalent() {
    for retry in 1..=6 {
        let curve = Backoff::exponential(OLD.base).with_cap(OLD.cap);
        let delay = plain(curve, retry);
        assert_eq!(bounds(curve.with_jitter(Jitter::Equal), retry), (delay / 2, delay));
    }
}

/// `min(c, rand(base, prev * 3))`, where the first `prev` is the base.
#[test]
fn decorrelated_jitter_of_a_loop_is_the_same_below_the_cap() {
    let (base, cap) = (Duration::from_millis(100), 2 * SECOND);
    let backoff = Backoff::exponential(base).with_cap(cap).with_jitter(Jitter::Decorrelated);
    let drawn = |retry, previous| {
        let at = |end: fn(RangeInclusive<u64>) -> u64| backoff.delay(retry, previous, end);
        (at(|range| *range.start()), at(|range| *range.end()))
    };
    assert_eq!(drawn(1, Duration::ZERO), (base, 3 * base));
    for (retry, previous) in (2..).zip([100, 250, 500, 666].map(Duration::from_millis)) {
        assert_eq!(drawn(retry, previous), (base, 3 * previous));
    }
    // The loop draws up to 3 × prev and waits for the cap instead. After the cap these are two of three draws.
    assert_eq!(drawn(6, cap), (base, cap));
    let (mut draw, calls) = (seeded(7), 30_000);
    let (mut clipped, mut at_cap) = (0, 0);
    for _ in 0..calls {
        let waited = draw(nanos(base)..=nanos(3 * cap)).min(nanos(cap));
        clipped += u32::from(waited == nanos(cap));
        at_cap += u32::from(backoff.delay(6, cap, &mut draw) == cap);
    }
    assert!(clipped.abs_diff(calls * 2 / 3) < calls / 20, "{clipped} of {calls}");
    assert_eq!(at_cap, 0);
    // A base above a third of the cap: the lower end is a third of the cap.
    let narrow = backoff.with_cap(2 * base);
    let low = narrow.delay(1, Duration::ZERO, |range| *range.start());
    assert_eq!(low, 2 * base / 3);
}

/// `jitter_with_bounds(low, high)` of tokio-retry2, below the cap.
#[test]
fn bounds_of_jitter_have_an_equivalent() {
    for interval @ (low, high) in [(0.5, 1.0), (0.25, 0.75), (1.0, 3.0)] {
        let middle = f64::midpoint(low, high);
        let backoff = Backoff::exponential(OLD.base.mul_f64(middle))
            .with_cap(OLD.cap.mul_f64(high))
            .with_jitter(Jitter::Proportional((high - low) / (high + low)));
        for retry in 1..=4 {
            let (new, of) = (bounds(backoff, retry), OLD.bounds(retry, interval));
            assert!(are_near(new, of), "{new:?} for {of:?}");
        }
    }
}

/// `ExponentialBackoff` of backoff: its default, and one with a `randomization_factor` of its own. Below the cap.
#[test]
fn the_default_and_the_settings_of_backoff_have_an_equivalent() {
    let default = Backoff::exponential(Duration::from_millis(500))
        .with_factor(1.5)
        .with_cap(90 * SECOND)
        .with_jitter(Jitter::Proportional(0.5));
    let old = Old { base: Duration::from_millis(500), factor: 1.5, cap: 60 * SECOND };
    let own = |r: f64| {
        let curve = Backoff::exponential(OLD.base).with_cap(OLD.cap.mul_f64(1.0 + r));
        (OLD, curve.with_jitter(Jitter::Proportional(r)), r, 4)
    };
    // The twelfth delay of the default is the last one below 60 s.
    for (old, new, r, last) in [(old, default, 0.5, 12), own(0.25), own(1.0)] {
        for retry in 1..=last {
            let (new, of) = (bounds(new, retry), old.bounds(retry, (1.0 - r, 1.0 + r)));
            assert!(are_near(new, of), "{retry}: {new:?} for {of:?}");
        }
    }
}

/// The same form on another curve.
#[test]
fn bounds_of_jitter_have_an_equivalent_on_fibonacci() {
    let (low, high) = (0.5, 1.0);
    let backoff = Backoff::fibonacci(SECOND.mul_f64(f64::midpoint(low, high)))
        .with_jitter(Jitter::Proportional((high - low) / (high + low)));
    for (retry, times) in (1..).zip([1, 1, 2, 3, 5, 8]) {
        let (new, of) = (bounds(backoff, retry), (SECOND * times / 2, SECOND * times));
        assert!(are_near(new, of), "{new:?} for {of:?}");
    }
}

/// The same beyond the cap: the delays of the old curve are listed, and the last one is its cap.
#[test]
fn bounds_of_jitter_have_an_equivalent_beyond_the_cap() {
    const MIDDLE: Duration = Duration::from_millis(750); // of 0.5 and 1.0
    const LISTED: [Duration; 5] = [
        MIDDLE,
        MIDDLE,
        MIDDLE.saturating_mul(2),
        MIDDLE.saturating_mul(3),
        MIDDLE.saturating_mul(4),
    ];
    let (low, high) = (0.5, 1.0);
    let listed =
        Backoff::steps(&LISTED).with_jitter(Jitter::Proportional((high - low) / (high + low)));
    // A Fibonacci curve from 1 s with a cap of 4 s.
    for (retry, times) in (1..).zip([1, 1, 2, 3, 4, 4, 4]) {
        let (new, of) = (bounds(listed, retry), (SECOND * times / 2, SECOND * times));
        assert!(are_near(new, of), "{new:?} for {of:?}");
    }
    // The form with a cap draws from another interval there.
    let capped = Backoff::fibonacci(MIDDLE).with_cap(4 * SECOND);
    let capped = capped.with_jitter(Jitter::Proportional((high - low) / (high + low)));
    assert!(!are_near(bounds(capped, 9), (2 * SECOND, 4 * SECOND)));
}

/// `increment` and `max_delay` of `LinearBackoff` of tokio-retry2.
#[test]
fn a_linear_delay_with_an_increment_and_a_cap_is_custom() {
    const CAPPED: Backoff =
        Backoff::custom(|retry| Duration::from_millis(100 + 70 * u64::from(retry - 1)))
            .with_cap(Duration::from_millis(200));
    let millis: Vec<_> = CAPPED.schedule().take(4).map(|delay| delay.as_millis()).collect();
    assert_eq!(millis, [100, 170, 200, 200]);
    assert_eq!(CAPPED.jitter(), Jitter::None);
}

/// `max_delay` of `FibonacciBackoff` and `LinearBackoff` of tokio-retry2, and the whole number of
/// `jitter_range`, which multiplies the capped delays.
#[test]
fn a_cap_and_a_multiple_of_a_whole_curve_have_an_equivalent() {
    let (base, cap) = (Duration::from_millis(10), Duration::from_millis(35));
    let fibonacci = (Backoff::fibonacci as fn(_) -> Backoff, [10, 10, 20, 30, 35, 35]);
    let linear = (Backoff::linear as fn(_) -> Backoff, [10, 20, 30, 35, 35, 35]);
    for (curve, old) in [fibonacci, linear] {
        for k in 0..4 {
            let backoff = curve(base * k).with_cap(cap * k).with_jitter(Jitter::None);
            let delays = backoff.schedule().take(6).collect::<Vec<_>>();
            assert_eq!(delays, old.map(|delay| Duration::from_millis(delay) * k));
        }
    }
}

#[test]
fn a_factor_below_one_is_one() {
    let backoff = Backoff::exponential(SECOND);
    for (factor, second) in [(0.5, SECOND), (1.0, SECOND), (1.5, SECOND * 3 / 2)] {
        assert_eq!(plain(backoff.with_factor(factor), 2), second, "{factor}");
    }
}

/// A delay of `Jitter::Bounded` of reqwest-retry, with the draw in the function.
fn bounded(retry: u32) -> Duration {
    let (least, most) = (SECOND / 2, SECOND * 2_u32.pow(retry - 1));
    rand::random_range(least..=most)
}

#[test]
fn a_function_can_draw_its_delay_from_other_bounds() {
    let backoff = Backoff::custom(bounded);
    for (retry, most) in [(1, SECOND), (2, 2 * SECOND), (3, 4 * SECOND)] {
        let drawn: Vec<_> = (0..1_000).map(|_| plain(backoff, retry)).collect();
        assert!(drawn.iter().all(|delay| (SECOND / 2..=most).contains(delay)));
        let middle = (SECOND / 2 + most) / 2;
        for half in [SECOND / 2..middle, middle..most] {
            let share = drawn.iter().filter(|delay| half.contains(delay)).count();
            assert!((400..600).contains(&share), "retry {retry}: {share} of 1,000 in {half:?}");
        }
    }
}

static STEP: OnceLock<Duration> = OnceLock::new();

/// The function captures nothing, so it reads what the program has read at its start.
#[test]
fn a_function_finds_the_step_of_the_configuration() {
    const STEPPED: Backoff = Backoff::custom(|retry| STEP.get().copied().unwrap_or(SECOND) * retry);
    assert_eq!(plain(STEPPED, 2), 2 * SECOND);
    STEP.set(Duration::from_millis(250)).unwrap();
    assert_eq!([1, 2, 3].map(|retry| plain(STEPPED, retry).as_millis()), [250, 500, 750]);
}
