//! Every random number comes from the timer: two equal seeds give equal values, another seed gives
//! others, and a call that succeeds draws nothing.

use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use resile::chaos::Chaos;
use resile::classify::Always;
use resile::observe::{Event, EventKind};
use resile::policy::Decision;
use resile::quota::Rate;
use resile::time::{ManualSleep, ManualTimer, Seeded, Timer, TokioTimer};
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, HedgePolicy, Jitter, Never, Quota,
    ResilienceExt, RetryPolicy, Run, Upstream, Verdict, hedge, retry,
};

use super::script::{drive, poll, upstream};

const SECOND: Duration = Duration::from_secs(1);

/// A place of the crate that draws: some values that depend on its draws.
type Place = fn(&ManualTimer) -> Vec<Duration>;

const PLACES: [(&str, Place); 6] = [
    ("the delays of a retry", delays_of_a_retry),
    ("the delays after a hint", delays_after_a_hint),
    ("the delays of a run", delays_of_a_run),
    ("the release of a cooldown", releases),
    ("the pauses of a breaker", pauses),
    ("the faults of a chaos without a seed", faults),
];

/// Makes a call that fails twenty times, and returns its delays.
fn delays(timer: &ManualTimer, verdict: Verdict) -> Vec<Duration> {
    let upstream = upstream(timer);
    let policy = RetryPolicy::new().with_attempts(21).with_classifier(move |_: &&str| verdict);
    let delays = Mutex::new(Vec::new());
    let note = |event: &Event<'_>| {
        if let EventKind::Waiting { delay, .. } = event.kind {
            delays.lock().unwrap().push(delay);
        }
    };
    let op = |_| ready(Err::<(), _>("down"));
    drive(retry(op, policy, Never).on(upstream.observed_by(&note)), timer).unwrap_err();
    delays.into_inner().unwrap()
}

fn delays_of_a_retry(timer: &ManualTimer) -> Vec<Duration> {
    delays(timer, Verdict::transient())
}

fn delays_after_a_hint(timer: &ManualTimer) -> Vec<Duration> {
    delays(timer, Verdict::transient().after(SECOND))
}

fn delays_of_a_run(timer: &ManualTimer) -> Vec<Duration> {
    let upstream = upstream(timer);
    let mut run = Run::new(RetryPolicy::new().with_attempts(21), Never).on(&upstream);
    let delay = |_| {
        let attempt = drive(run.next(), timer).unwrap();
        drop(run.failed("down"));
        attempt.delay()
    };
    (0..21).map(delay).skip(1).collect()
}

fn releases(timer: &ManualTimer) -> Vec<Duration> {
    let upstream = upstream(timer).with_cooldown(Cooldown::new());
    let wait = |_| {
        upstream.hold(SECOND);
        let refused = upstream.try_admit().unwrap_err();
        timer.advance(60 * SECOND);
        refused.retry_after().unwrap()
    };
    (0..20).map(wait).collect()
}

fn pauses(timer: &ManualTimer) -> Vec<Duration> {
    let breaker = Breaker::new().with_consecutive(1).with_probes(1.0, 1);
    let upstream = upstream(timer).with_breaker(breaker);
    let pause = |_| {
        upstream.try_admit().unwrap().settle(&Verdict::transient());
        let pause = upstream.snapshot().unwrap().retry_after.unwrap();
        timer.advance(pause);
        pause
    };
    (0..20).map(pause).collect()
}

fn faults(timer: &ManualTimer) -> Vec<Duration> {
    let upstream = upstream(timer);
    let chaos = Chaos::unseeded().with_errors(0.5, || 9).with_latency(0.9, Duration::ZERO, SECOND);
    let end = |_| {
        let began = timer.now();
        let failed = drive(ready(Ok::<u8, u8>(0)).chaos(&chaos).on(&upstream), timer).is_err();
        timer.now().saturating_sub(began) + if failed { 60 * SECOND } else { Duration::ZERO }
    };
    (0..20).map(end).collect()
}

/// Returns the values of a place with this seed.
fn at(place: Place, seed: u64) -> Vec<Duration> {
    place(&ManualTimer::with_seed(seed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn equal_seeds_give_equal_values_and_other_seeds_give_others(seed: u64, other: u64) {
        for (name, place) in PLACES {
            let values = at(place, seed);
            prop_assert_eq!(values.len(), 20, "{}", name);
            prop_assert_eq!(&values, &at(place, seed), "{}", name);
            prop_assert_eq!(seed == other, values == at(place, other), "{}", name);
        }
    }

    /// A wrapped clock, a reference, an `Arc` and a clone have the draws of the seed.
    #[test]
    fn each_way_to_a_seeded_timer_has_the_same_draws(seed: u64) {
        fn draws<M: Timer>(timer: M) -> [u64; 8] {
            std::array::from_fn(|_| timer.draw())
        }
        let expected = draws(ManualTimer::with_seed(seed));
        prop_assert_eq!(draws(Seeded::new(ManualTimer::new(), seed)), expected);
        prop_assert_eq!(draws(Seeded::new(TokioTimer::new(), seed)), expected);
        let timer = Seeded::new(TokioTimer::new(), seed);
        prop_assert_eq!(draws::<&Seeded<TokioTimer>>(&timer), expected);
        prop_assert_eq!(draws(Arc::new(ManualTimer::with_seed(seed))), expected);
        let (timer, clone) = { let timer = ManualTimer::with_seed(seed); (timer.clone(), timer) };
        let shared: [u64; 8] =
            std::array::from_fn(|nth| if nth % 3 == 0 { timer.draw() } else { clone.draw() });
        prop_assert_eq!(shared, expected);
    }

    /// Decisions by hand take their numbers from any timer.
    #[test]
    fn a_decision_by_hand_is_that_of_a_call(seed: u64) {
        let (timer, policy) = (ManualTimer::with_seed(seed), RetryPolicy::new().with_attempts(21));
        let mut by_hand = Vec::new();
        for number in 1..=20 {
            let previous = by_hand.last().copied().unwrap_or_default();
            let failed = Attempt::new(number).with_delay(previous);
            let draw = |range| timer.draw_within(range);
            match policy.decide(failed, Some(Verdict::transient()), draw) {
                Decision::Retry(delay) => by_hand.push(delay),
                stop => prop_assert!(false, "{stop:?}"),
            }
        }
        prop_assert_eq!(by_hand, at(delays_of_a_retry, seed));
    }

    /// A seeded timer is its inner clock, moved so that its first reading is `FIRST`.
    #[test]
    fn a_seeded_timer_moves_its_clock(start in 0_u64..1 << 34, wait in 0_u64..1000, far: Duration) {
        let inner = ManualTimer::new();
        inner.advance(Duration::from_secs(start));
        let timer = Seeded::new(inner.clone(), 0);
        let first = Seeded::<ManualTimer>::FIRST;
        prop_assert_eq!(timer.now(), first);
        let wait = Duration::from_millis(wait);
        let mut until = pin!(timer.sleep_until(first + wait));
        let mut sleep = pin!(timer.sleep(wait));
        if !wait.is_zero() {
            prop_assert!(poll(until.as_mut()).is_pending() && poll(sleep.as_mut()).is_pending());
            prop_assert_eq!(inner.until_next(), Some(wait));
        }
        inner.advance(wait);
        prop_assert!(poll(until.as_mut()).is_ready() && poll(sleep.as_mut()).is_ready());
        prop_assert_eq!(timer.now(), first + wait);
        let mut far_sleep = pin!(timer.sleep_until(far));
        prop_assert_eq!(poll(far_sleep.as_mut()).is_ready(), far <= first + wait);
    }
}

/// The draws of the thread's generator differ, also between two timers.
#[test]
fn without_a_seed_each_draw_is_another_one() {
    let draws = [TokioTimer::new().draw(), TokioTimer::new().draw(), TokioTimer::new().draw()];
    assert!(draws[0] != draws[1] && draws[1] != draws[2], "{draws:?}");
    assert_eq!(ManualTimer::new().draw(), ManualTimer::with_seed(0).draw());
    assert_eq!(ManualTimer::default().draw(), ManualTimer::new().draw());
}

/// A timer whose draws are constant.
#[derive(Clone)]
struct Constant(ManualTimer, u64);

impl Timer for Constant {
    type Sleep = ManualSleep;

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, delay: Duration) -> ManualSleep {
        self.0.sleep(delay)
    }

    fn draw(&self) -> u64 {
        self.1
    }
}

#[test]
fn constant_draws_are_the_ends_of_a_range() {
    for (draw, delay, pause) in [(0, Duration::ZERO, 4 * SECOND), (u64::MAX, SECOND, 6 * SECOND)] {
        let timer = Constant(ManualTimer::new(), draw);
        let upstream = Upstream::new("constant")
            .with_breaker(Breaker::new().with_consecutive(2))
            .with_timer(timer.clone());
        let mut run = Run::new(
            RetryPolicy::new().with_backoff(Backoff::exponential(SECOND).with_jitter(Jitter::Full)),
            Never,
        )
        .on(&upstream);
        drive(run.next(), &timer.0).unwrap();
        run.failed("down").unwrap();
        assert_eq!(drive(run.next(), &timer.0).unwrap().delay(), delay);
        drop(run.failed("down"));
        assert_eq!(upstream.snapshot().unwrap().retry_after, Some(pause));
    }
}

/// A timer that must not draw.
struct NoDraw(ManualTimer);

impl Timer for NoDraw {
    type Sleep = ManualSleep;

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, delay: Duration) -> ManualSleep {
        self.0.sleep(delay)
    }

    fn draw(&self) -> u64 {
        panic!("a random number was drawn")
    }
}

/// A success draws nothing, on an upstream with all parts. A failure draws nothing if there is
/// nothing to spread.
#[test]
fn nothing_is_drawn_without_a_delay_to_spread() {
    let timer = NoDraw(ManualTimer::new());
    let upstream = Upstream::new("all parts")
        .with_budget(Budget::new())
        .with_breaker(Breaker::new())
        .with_cooldown(Cooldown::new())
        .with_bulkhead(Bulkhead::new(2))
        .with_quota(Quota::new().with_requests(Rate::per_minute(600)))
        .with_timer(&timer);
    let (policy, hedging) = (RetryPolicy::new(), HedgePolicy::new());
    let ok = |_| ready(Ok::<_, &str>(1));
    assert!(matches!(poll(pin!(retry(ok, policy, Never).on(&upstream))), Poll::Ready(Ok(1))));
    assert!(matches!(poll(pin!(hedge(ok, hedging, Never).on(&upstream))), Poll::Ready(Ok(1))));
    assert!(matches!(poll(pin!(upstream.call(ok(Attempt::new(1)), Always))), Poll::Ready(Ok(1))));
    let fixed = policy.with_backoff(Backoff::fixed(SECOND));
    let down = |_| ready(Err::<(), _>("down"));
    let gave_up = drive(retry(down, fixed, Never).on(&upstream), &timer.0).unwrap_err();
    assert_eq!((gave_up.attempts(), gave_up.elapsed()), (3, 2 * SECOND));
}

/// A seeded upstream fits a `static`.
static SEEDED: Upstream<Seeded<TokioTimer>> =
    Upstream::new("seeded").with_budget(Budget::new()).with_seed(7);

#[tokio::test(start_paused = true)]
async fn a_static_upstream_has_a_seed() {
    let began = tokio::time::Instant::now();
    let down = |_| ready(Err::<(), _>("down"));
    let gave_up = retry(down, RetryPolicy::new(), Never).on(&SEEDED).await.unwrap_err();
    // Two delays with full jitter: the draws 0 and 1 of the seed.
    let timer = ManualTimer::with_seed(7);
    let delays = [500, 1000].map(|most| timer.draw_within(0..=most * 1_000_000));
    let exact = Duration::from_nanos(delays.iter().sum());
    let late = began.elapsed().checked_sub(exact).expect("no sleep ends early");
    assert!(late <= Duration::from_millis(2) && gave_up.attempts() == 3, "{late:?}");
}
