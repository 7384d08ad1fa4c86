//! `resile::Cooldown`: what one is told, all wait for.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::{Cancelled, Cooldown, ManualTimer, Never, ResilienceExt, RetryPolicy, Timer, Verdict, retry};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// One that releases all at one instant.
fn exact() -> Cooldown {
    Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO)
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Says what an error says of itself.
fn as_said(verdict: &Verdict) -> Verdict {
    *verdict
}

/// A clock that nobody may read.
struct NoClock;

impl Timer for NoClock {
    type Sleep = std::future::Pending<()>;

    fn now(&self) -> Duration {
        panic!("the clock was read")
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        panic!("a timer was made")
    }
}

#[test]
fn a_call_that_is_not_held_costs_nothing() {
    let cooldown = Cooldown::new().with_timer(NoClock);
    let counted = allocation_counter::measure(|| {
        let call = pin!(async { Ok::<_, Verdict>(7) }.paced_by(&cooldown));
        assert_eq!(poll(call), Poll::Ready(Ok(7)));
        assert_eq!(poll(pin!(cooldown.until(Never))), Poll::Ready(Ok(())));
        assert_eq!(cooldown.remaining(), None);
    });
    assert_eq!(counted.count_total, 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_it_may() {
    let cooldown = exact();
    cooldown.hold(20 * SECOND);
    let began = Instant::now();
    let call = async { Ok::<_, Verdict>(began.elapsed()) }.paced_by(&cooldown);
    assert!(call.await.unwrap() >= 20 * SECOND);
    assert_eq!(cooldown.remaining(), None);
}

#[test]
fn a_free_cooldown_reads_no_clock_again_after_a_hold() {
    struct Counting(ManualTimer, AtomicU32);
    impl Timer for Counting {
        type Sleep = resile::ManualSleep;
        fn now(&self) -> Duration {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.now()
        }
        fn sleep(&self, delay: Duration) -> Self::Sleep {
            self.0.sleep(delay)
        }
    }
    let timer = Counting(ManualTimer::new(), AtomicU32::new(0));
    let cooldown = Cooldown::new().with_timer(&timer);
    cooldown.hold(SECOND);
    timer.0.advance(SECOND + cooldown.least_spread());
    assert_eq!(cooldown.remaining(), None);
    let read = timer.1.load(Ordering::Relaxed);
    assert_eq!(poll(pin!(cooldown.until(Never))), Poll::Ready(Ok(())));
    assert_eq!(timer.1.load(Ordering::Relaxed), read);
}

#[test]
fn a_wait_that_is_extended_goes_on() {
    let timer = ManualTimer::new();
    let cooldown = exact().with_timer(&timer);
    cooldown.hold(10 * SECOND);
    let mut wait = pin!(cooldown.until(Never));
    assert!(poll(wait.as_mut()).is_pending());
    timer.advance(9 * SECOND);
    cooldown.hold(10 * SECOND);
    timer.advance(SECOND);
    assert!(poll(wait.as_mut()).is_pending());
    timer.advance(Duration::from_nanos(8_999_999_999));
    assert!(poll(wait.as_mut()).is_pending());
    timer.advance(Duration::from_nanos(1));
    assert_eq!(poll(wait), Poll::Ready(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn waiters_do_not_wake_at_one_instant() {
    static COOLDOWN: Cooldown = Cooldown::new();
    COOLDOWN.hold(20 * SECOND);
    let began = Instant::now();
    let waiters: Vec<_> = (0..1000)
        .map(|_| {
            tokio::spawn(async move {
                COOLDOWN.until(Never).await.unwrap();
                began.elapsed()
            })
        })
        .collect();
    let mut slots = [0_u32; 51];
    for waiter in waiters {
        let waited = waiter.await.unwrap();
        assert!(waited >= 20 * SECOND, "{waited:?} is shorter than was asked");
        let slot = waited.saturating_sub(20 * SECOND).as_millis() / 100;
        slots[usize::try_from(slot).unwrap()] += 1; // the spread is five seconds, and tokio rounds up
    }
    // Twenty are to be expected in each slot; more than seventy is 1e-17.
    assert!(slots.iter().all(|&n| n <= 70), "{slots:?}");
    assert!(slots[..50].iter().filter(|&&n| n > 0).count() > 45, "{slots:?}");
}

/// When the last of many calls that come now may go.
fn last_of_many(cooldown: &Cooldown<resile::Always, &ManualTimer>, timer: &ManualTimer) -> Duration {
    let (began, mut last) = (timer.now(), Duration::ZERO);
    let mut waits: Vec<_> = (0..200).map(|_| Box::pin(cooldown.until(Never))).collect();
    loop {
        waits.retain_mut(|wait| poll(wait.as_mut()).is_pending());
        if waits.is_empty() {
            return last;
        }
        timer.advance(timer.until_next().unwrap());
        last = timer.now().saturating_sub(began);
    }
}

#[test]
fn refused_amid_the_release_it_releases_more_slowly() {
    let timer = ManualTimer::new();
    let cooldown = Cooldown::new().with_jitter(0.5).with_timer(&timer);
    cooldown.hold(10 * SECOND);
    timer.advance(11 * SECOND);
    assert_eq!(cooldown.remaining(), None);
    cooldown.hold(10 * SECOND);
    let last = last_of_many(&cooldown, &timer);
    assert!((17 * SECOND..=20_500 * SECOND / 1000).contains(&last), "21 s in all: {last:?}");

    // After the release the next one is by itself again.
    timer.advance(4 * SECOND);
    cooldown.hold(10 * SECOND);
    let last = last_of_many(&cooldown, &timer);
    assert!((13 * SECOND..=15 * SECOND).contains(&last), "10 s: {last:?}");
}

#[test]
fn refused_for_long_it_releases_within_some_hints() {
    let timer = ManualTimer::new();
    let cooldown = Cooldown::new().with_timer(&timer);
    for _ in 0..1000 {
        cooldown.hold(SECOND);
        timer.advance(SECOND + Duration::from_millis(100));
    }
    cooldown.hold(SECOND);
    let last = last_of_many(&cooldown, &timer);
    assert!((7 * SECOND..=9 * SECOND).contains(&last), "a quarter of 32 hints: {last:?}");
}

#[test]
fn one_that_comes_amid_the_release_is_not_ahead_of_those_that_wait() {
    let timer = ManualTimer::new();
    let cooldown = Cooldown::new().with_jitter(1.0).with_timer(&timer);
    cooldown.hold(100 * SECOND);
    timer.advance(101 * SECOND);
    let goes = (0..1000).filter(|_| poll(pin!(cooldown.until(Never))).is_ready()).count();
    // A turn in sixteen: 63 are to be expected, with a deviation of 8.
    assert!((10..=120).contains(&goes), "{goes} of 1000");
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_the_wait_and_beats_the_release() {
    let cooldown = exact();
    let token = CancellationToken::new();
    cooldown.hold(20 * SECOND);
    let began = Instant::now();
    let (outcome, ()) = tokio::join!(cooldown.until(&token), async {
        tokio::time::sleep(SECOND).await;
        token.cancel();
    });
    assert_eq!((outcome, began.elapsed()), (Err(Cancelled), SECOND));
    assert_eq!(cooldown.remaining(), Some(19 * SECOND));
    tokio::time::advance(20 * SECOND).await;
    assert_eq!(cooldown.until(&token).await, Err(Cancelled)); // it is free, and nothing may start
}

#[test]
fn only_throttled_verdicts_hold() {
    let timer = ManualTimer::new();
    let cooldown = Cooldown::new().with_classify(as_said as fn(&Verdict) -> Verdict).with_timer(&timer);
    let fail = |verdict| {
        let outcome = poll(pin!(async { Err::<(), _>(verdict) }.paced_by(&cooldown)));
        assert_eq!(outcome, Poll::Ready(Err(verdict)));
        cooldown.remaining()
    };
    assert_eq!(fail(Verdict::fail()), None);
    assert_eq!(fail(Verdict::retry()), None);
    assert_eq!(fail(Verdict::retry_after(SECOND)), None);
    assert_eq!(fail(Verdict::throttled(Some(Duration::ZERO))), None);
    assert_eq!(fail(Verdict::throttled(None)), Some(cooldown.default_hold()));
    timer.advance(2 * SECOND);
    assert_eq!(fail(Verdict::throttled(Some(3 * SECOND))), Some(3 * SECOND));
    timer.advance(4 * SECOND); // its release is over as well
    assert_eq!(fail(Verdict::throttled(Some(Duration::MAX))), Some(cooldown.cap()));
}

#[test]
fn a_default_cooldown_learns_from_hold_alone() {
    let timer = ManualTimer::new();
    let cooldown = Cooldown::new().with_timer(&timer);
    let call = async { Err::<(), _>(Verdict::throttled(None)) };
    assert!(poll(pin!(call.paced_by(&cooldown))).is_ready());
    assert_eq!(cooldown.remaining(), None);
}

#[test]
fn no_hold_where_the_settings_say_none() {
    let timer = ManualTimer::new();
    let cooldown = Cooldown::new().with_cap(Duration::ZERO).with_timer(&timer);
    cooldown.hold(Duration::MAX);
    assert_eq!(cooldown.remaining(), None);
    let cooldown = Cooldown::new().with_default_hold(Duration::ZERO).with_classify(as_said as fn(&Verdict) -> Verdict);
    let cooldown = cooldown.with_timer(&timer);
    assert!(poll(pin!(async { Err::<(), _>(Verdict::throttled(None)) }.paced_by(&cooldown))).is_ready());
    assert_eq!(cooldown.remaining(), None);
}

/// Dropped at each of its awaits, a paced call leaves no sleeper and has taught nothing that it was not told.
#[test]
fn dropped_at_every_await() {
    for polls in 0..4 {
        let timer = ManualTimer::new();
        let cooldown = exact().with_classify(as_said as fn(&Verdict) -> Verdict).with_timer(&timer);
        cooldown.hold(SECOND);
        let mut started = false;
        {
            let mut call = pin!(
                async {
                    started = true;
                    timer.sleep(SECOND).await;
                    Err::<(), _>(Verdict::throttled(Some(5 * SECOND)))
                }
                .paced_by(&cooldown)
            );
            for _ in 0..polls {
                let _ = poll(call.as_mut());
                timer.advance(SECOND);
            }
        }
        assert_eq!(timer.sleepers(), 0, "after {polls} polls");
        assert_eq!(started, polls >= 2, "after {polls} polls");
        // At the third poll it ends, a second before now.
        let left = (polls == 3).then_some(4 * SECOND).or((polls == 0).then_some(SECOND));
        assert_eq!(cooldown.remaining(), left, "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn inside_a_retry_the_deadline_cuts_the_wait() {
    let cooldown = exact();
    cooldown.hold(20 * SECOND);
    let policy = RetryPolicy::new().with_deadline(5 * SECOND);
    let began = Instant::now();
    let outcome = retry(|_| async { Ok::<_, Verdict>(()) }.paced_by(&cooldown), &policy, Never).await;
    assert_eq!(outcome.unwrap_err().stop(), resile::Stop::Deadline);
    assert_eq!(began.elapsed(), 5 * SECOND);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(Duration),
    Hold(Duration),
    Wait,
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => (0..100_000_u64).prop_map(Duration::from_millis),
        1 => any::<u64>().prop_map(Duration::from_nanos),
        1 => Just(Duration::MAX),
        1 => Just(Duration::from_nanos(1)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![duration().prop_map(Step::Pass), duration().prop_map(Step::Hold), Just(Step::Wait)]
}

proptest! {
    /// The model: an end that only grows, a beginning that is set when nothing is held or released, and the longest
    /// hint since a hold last began to run.
    #[test]
    fn only_extends(
        steps in prop::collection::vec(step(), 1..60),
        cap in duration(),
        jitter in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -1.0..2.0_f64],
        least in duration(),
    ) {
        const LAST: Duration = Duration::from_nanos(u64::MAX);
        let timer = ManualTimer::new();
        let cooldown = Cooldown::new().with_cap(cap).with_jitter(jitter).with_least_spread(least).with_timer(&timer);
        let (mut since, mut until, mut hint) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let spread = |since: Duration, until: Duration, hint: Duration| {
            let held = until.saturating_sub(since).min(hint.saturating_mul(32)).min(cap);
            Duration::try_from_secs_f64(held.as_secs_f64() * cooldown.jitter()).unwrap_or(cap).max(least).min(LAST)
        };
        for step in steps {
            let now = timer.now().min(LAST);
            match step {
                Step::Pass(by) => timer.advance(by),
                Step::Hold(after) => {
                    cooldown.hold(after);
                    if !after.min(cap).is_zero() {
                        if until.is_zero() || until <= now && until.saturating_add(spread(since, until, hint)).min(LAST) <= now {
                            since = now;
                        }
                        let told = after.min(cap).min(LAST);
                        hint = if until <= now { told } else { hint.max(told) };
                        until = until.max(now.saturating_add(after.min(cap)).min(LAST));
                    }
                }
                Step::Wait => {
                    let mut wait = pin!(cooldown.until(Never));
                    let free = poll(wait.as_mut()).is_ready();
                    prop_assert!(!free || until <= now);
                    prop_assert!(free || until.saturating_add(spread(since, until, hint)).min(LAST) > now);
                    if let Some(delay) = timer.until_next() {
                        let rest = until.saturating_sub(now);
                        let most = (rest + spread(since, until, hint)).as_secs_f64();
                        prop_assert!(delay >= rest);
                        prop_assert!(delay.as_secs_f64() <= most * 1.000_001 + 1e-6);
                    }
                }
            }
            let left = until.saturating_sub(timer.now());
            prop_assert_eq!(cooldown.remaining(), (!left.is_zero()).then_some(left));
        }
    }
}
