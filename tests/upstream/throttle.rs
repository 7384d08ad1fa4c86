//! A throttle: what it counts, what it refuses, and that it rests without refusals. The formula has its
//! laws beside it.

use std::cell::Cell;
use std::future::{Ready, pending, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::classify::Always;
use resile::time::{ManualTimer, Timer};
use resile::{Bulkhead, Health, HedgePolicy, Never, RetryPolicy, StopReason, Throttle, Upstream};
use resile::{Verdict, hedge, retry};

const SECOND: Duration = Duration::from_secs(1);

type Manual = Upstream<ManualTimer>;

fn throttled() -> (Manual, ManualTimer) {
    let timer = ManualTimer::with_seed(1);
    let upstream = Upstream::new("search").with_throttle(Throttle::new()).with_observer(&());
    (upstream.with_timer(timer.clone()), timer)
}

/// Makes an attempt that ends with `health`. Returns false if the throttle refuses it.
fn attempt<M: Timer>(upstream: &Upstream<M>, health: Health) -> bool {
    match upstream.try_admit() {
        Ok(sent) if health == Health::Healthy => sent.succeeded(),
        Ok(sent) => sent.settle(&Verdict::transient().with_health(health)),
        Err(refused) => {
            assert_eq!((refused.reason(), refused.attempts()), (StopReason::Throttled, 0));
            assert_eq!(refused.retry_after(), None);
            return false;
        }
    }
    true
}

/// The share of attempts that a throttle refuses after `accepted` and `refused` ones.
fn share(accepted: u32, refused: u32) -> f64 {
    let requests = f64::from(accepted + refused);
    ((requests - 2.0 * f64::from(accepted)) / (requests + 1.0)).clamp(0.0, 0.9)
}

fn throttles(upstream: &Manual, health: Health, attempts: u32) {
    for _ in 0..attempts {
        attempt(upstream, health);
    }
}

/// The handbook's law: an upstream that accepts `A` of a demand `D` gets the lesser of `D` and `2 A`,
/// and never less than a tenth of the demand.
#[test]
fn an_upstream_gets_twice_what_it_accepts() {
    for (demand, accepts) in [(20, 20), (20, 10), (20, 5), (20, 1), (20, 0), (50, 40), (200, 30)] {
        let (upstream, timer) = throttled();
        let mut sent = 0;
        for second in 0..900 {
            let mut left = accepts;
            for _ in 0..demand {
                timer.advance(SECOND / demand);
                let health = if left > 0 { Health::Healthy } else { Health::Throttling };
                if attempt(&upstream, health) {
                    left = u32::saturating_sub(left, 1);
                    sent += u32::from(second >= 300);
                }
            }
        }
        let expected = demand.min((2 * accepts).max(demand / 10));
        let rate = f64::from(sent) / 600.0;
        let off = (rate / f64::from(expected) - 1.0).abs();
        assert!(off < 0.12, "{rate} a second of {demand}, {accepts} accepted, not {expected}");
    }
}

/// A timer that counts what is asked of it.
struct Counting {
    timer: ManualTimer,
    readings: Cell<u32>,
    draws: Cell<u32>,
}

impl Timer for Counting {
    type Sleep = <ManualTimer as Timer>::Sleep;

    fn now(&self) -> Duration {
        self.readings.set(self.readings.get() + 1);
        self.timer.now()
    }

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        self.timer.sleep(delay)
    }

    fn draw(&self) -> u64 {
        self.draws.set(self.draws.get() + 1);
        self.timer.draw()
    }
}

#[test]
fn without_a_refusal_it_reads_no_clock_and_draws_nothing() {
    let timer = ManualTimer::with_seed(1);
    let counting = Counting { timer: timer.clone(), readings: Cell::new(0), draws: Cell::new(0) };
    let upstream = Upstream::new("search").with_throttle(Throttle::new()).with_observer(&());
    let upstream = upstream.with_timer(&counting);
    let policy = RetryPolicy::new().without_total_timeout();
    let call = || {
        let call = pin!(retry(|_| ready(Ok::<_, &str>(7)), policy, Never).on(&upstream));
        let polled = call.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(7))));
    };
    let asked = || (counting.readings.take(), counting.draws.take());
    (0..255).for_each(|_| call());
    assert_eq!(asked(), (0, 0));
    (0..2_560).for_each(|_| call());
    assert_eq!(asked(), (10, 0));
    // With a refusal in the window it reads the clock, but at a chance of zero it draws nothing.
    assert!(attempt(&upstream, Health::Throttling));
    assert_eq!(upstream.throttled(), Some(0.0));
    asked();
    call();
    let (readings, draws) = asked();
    assert!(readings > 0 && draws == 0);
    timer.advance(SECOND * 120);
    call();
    asked();
    (0..100).for_each(|_| call());
    assert_eq!(asked(), (0, 0));
}

proptest! {
    /// The chance is that of the formula, whatever came before the window, and however the attempts
    /// before the first refusal were counted.
    #[test]
    fn the_chance_is_that_of_the_formula(
        before in 0..2_000_u32, accepted in 0..400_u32, refused in 0..400_u32, is_first: bool,
    ) {
        let (upstream, timer) = throttled();
        throttles(&upstream, Health::Healthy, before);
        timer.advance(SECOND * 300);
        let mut local = 0;
        let kinds = [(Health::Healthy, accepted), (Health::Throttling, refused)];
        for (health, attempts) in if is_first { kinds } else { [kinds[1], kinds[0]] } {
            for _ in 0..attempts {
                while !attempt(&upstream, health) {
                    local += 1;
                }
            }
        }
        let chance = upstream.throttled().unwrap();
        // Attempts before the first refusal are spread over the time in which they came.
        let fresh = before % 256;
        let most = share(accepted, refused + local) + 0.01;
        let least = share(accepted + fresh, refused + local) - 0.01;
        prop_assert!(chance <= most && chance >= least, "{least} {chance} {most}");
    }

    /// Only an overload counts against an upstream. Other failures are answers.
    #[test]
    fn only_an_overload_throttles(healths in prop::collection::vec(0..3_usize, 1..500)) {
        let (upstream, timer) = throttled();
        for health in healths {
            timer.advance(SECOND / 10);
            let health = [Health::Healthy, Health::Failing, Health::Unknown][health];
            prop_assert!(attempt(&upstream, health));
        }
        prop_assert_eq!(upstream.throttled(), Some(0.0));
    }
}

#[test]
fn a_dropped_attempt_does_not_count() {
    let (upstream, _) = throttled();
    throttles(&upstream, Health::Throttling, 1);
    throttles(&upstream, Health::Healthy, 1);
    for _ in 0..100 {
        drop(upstream.try_admit().unwrap());
        let mut call = Box::pin(upstream.call(pending::<Result<(), &str>>(), Always));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    throttles(&upstream, Health::Throttling, 1);
    assert_eq!(upstream.throttled(), Some(0.25));
}

#[test]
fn a_call_within_an_attempt_counts_once() {
    for depth in 0..3 {
        for (health, expected) in [(Health::Throttling, 0.5), (Health::Healthy, 0.0)] {
            let (upstream, _) = throttled();
            throttles(&upstream, Health::Throttling, 1);
            throttles(&upstream, Health::Healthy, 1);
            nest(&upstream, depth, health);
            // With one more refusal it is (2 + 1 − 2) / 4 or (1 + 2 − 4 < 0).
            let one = if health == Health::Throttling { expected / 2.0 } else { expected };
            assert_eq!(upstream.throttled(), Some(one), "{depth} {health:?}");
        }
    }
}

/// Makes a call within `depth` attempts of other calls on the same upstream.
fn nest(upstream: &Manual, depth: u32, health: Health) {
    type Answer = Result<(), &'static str>;
    fn through<'u>(
        upstream: &'u Manual,
        depth: u32,
        health: Health,
    ) -> std::pin::Pin<Box<dyn Future<Output = Answer> + 'u>> {
        Box::pin(async move {
            if depth > 0 {
                let inner = through(upstream, depth - 1, health);
                return upstream.call(inner, verdict_of(health)).await.map_err(|_| "busy");
            }
            if health == Health::Healthy { Ok(()) } else { Err("busy") }
        })
    }
    let mut call = through(upstream, depth + 1, health);
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

fn verdict_of(health: Health) -> impl Fn(&&'static str) -> Option<Verdict> {
    move |_| Some(Verdict::transient().with_health(health))
}

/// A refused attempt takes no permit, no place in a queue and no token of the budget.
#[test]
fn a_refusal_costs_nothing_else() {
    let timer = ManualTimer::with_seed(0);
    let upstream = Upstream::new("search")
        .with_throttle(Throttle::new())
        .with_bulkhead(Bulkhead::new(1))
        .with_budget(resile::Budget::new().with_capacity(100))
        .with_observer(&())
        .with_timer(timer);
    throttles(&upstream, Health::Throttling, 1_000);
    let _permit = loop {
        match upstream.try_admit() {
            Ok(permit) => break permit,
            Err(refused) => assert_eq!(refused.reason(), StopReason::Throttled),
        }
    };
    let policy = RetryPolicy::new().with_attempts(9).without_total_timeout();
    let mut waiting = 0;
    for _ in 0..100 {
        let op = |_| -> Ready<Result<(), &str>> { panic!("the attempt was sent") };
        let mut call = Box::pin(retry(op, policy, Never).on(&upstream));
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => waiting += 1,
            Poll::Ready(refused) => {
                assert_eq!(refused.unwrap_err().reason(), StopReason::Throttled);
            }
        }
        assert_eq!(upstream.bulkhead().unwrap().in_flight(), 1);
    }
    assert!((1..40).contains(&waiting), "{waiting}");
    assert_eq!(upstream.bulkhead().unwrap().waiting(), 0);
    assert_eq!(upstream.budget().unwrap().available(), 100);
}

/// A hedge is an extra: without it the call goes on.
#[test]
fn a_refused_hedge_leaves_its_call_alone() {
    let (upstream, timer) = throttled();
    let policy = HedgePolicy::new().with_delay(SECOND).without_total_timeout();
    let calls: Vec<_> = (0..50)
        .map(|_| Box::pin(hedge(|_| pending::<Result<(), &str>>(), policy, Never).on(&upstream)))
        .collect();
    let mut calls = calls;
    let mut poll = || {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut cx).is_pending()));
    };
    poll();
    throttles(&upstream, Health::Throttling, 500);
    timer.advance(SECOND);
    poll();
    assert!(upstream.throttled() > Some(0.8));
}

#[test]
fn a_throttle_forgets_after_two_minutes() {
    let (upstream, timer) = throttled();
    throttles(&upstream, Health::Throttling, 200);
    assert!(upstream.throttled() > Some(0.85));
    timer.advance(SECOND * 121);
    assert_eq!(upstream.throttled(), Some(0.0));
    for _ in 0..200 {
        assert!(attempt(&upstream, Health::Healthy));
    }
    // Those two hundred count: as many refusals follow before the throttle acts.
    for _ in 0..200 {
        assert!(attempt(&upstream, Health::Throttling));
    }
    assert_eq!(upstream.throttled(), Some(0.0));
}
