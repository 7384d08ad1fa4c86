//! A bulkhead in an upstream: each attempt acquires a permit or waits in the queue.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::breaker::State;
use resile::classify::Always;
use resile::observe::{Event, EventKind, HeldBy};
use resile::time::{ManualTimer, Timer};
use resile::{
    Backoff, Breaker, Budget, Bulkhead, Cooldown, GaveUp, HedgePolicy, Never, RetryPolicy, Run,
    StopReason, Upstream, Verdict, hedge, retry,
};
use tokio_util::sync::CancellationToken;

use super::script::{Down, Script, Step, drive, poll};

const SECOND: Duration = Duration::from_secs(1);
const POLICY: RetryPolicy = RetryPolicy::new().with_backoff(Backoff::fixed(SECOND));

type Manual = Upstream<ManualTimer>;

fn limited(bulkhead: Bulkhead, timer: &ManualTimer) -> Manual {
    Upstream::new("limited").with_bulkhead(bulkhead).with_observer(&()).with_timer(timer.clone())
}

/// Returns the numbers of calls in flight and in the queue.
fn seen<M: Timer>(upstream: &Upstream<M>) -> (u32, u32) {
    let bulkhead = upstream.bulkhead().unwrap();
    (bulkhead.in_flight(), bulkhead.waiting())
}

/// Returns the reason and the attempts of a call that has ended.
fn gave_up<T, E>(polled: Poll<Result<T, GaveUp<E>>>) -> (StopReason, u32) {
    match polled {
        Poll::Ready(Err(gave_up)) => (gave_up.reason(), gave_up.attempts()),
        Poll::Ready(Ok(_)) => panic!("the call succeeded"),
        Poll::Pending => panic!("the call waits"),
    }
}

#[test]
fn attempts_wait_in_the_order_of_arrival() {
    let timer = ManualTimer::new();
    let upstream = limited(Bulkhead::new(1).with_queue(3), &timer);
    let (script, ahead) = (Script::new(&[Step::Hang]), upstream.try_admit().unwrap());
    let mut first = Box::pin(retry(|_| script.play(), POLICY, Never).on(&upstream));
    let mut second = Box::pin(upstream.admit(Never));
    let mut third = Box::pin(upstream.call(script.play(), Always));
    assert!(
        poll(first.as_mut()).is_pending()
            && poll(second.as_mut()).is_pending()
            && poll(third.as_mut()).is_pending()
    );
    assert_eq!((seen(&upstream), script.begun()), ((1, 3), 0));
    // The queue is full. A new call is refused at once, without a time to come back.
    let mut refused = Box::pin(retry(|_| script.play(), POLICY, Never).on(&upstream));
    let Poll::Ready(Err(refused)) = poll(refused.as_mut()) else { panic!("the call is refused") };
    assert_eq!(
        (refused.reason(), refused.attempts(), refused.retry_after()),
        (StopReason::Full, 0, None)
    );
    assert_eq!(gave_up(poll(Box::pin(upstream.admit(Never)).as_mut())), (StopReason::Full, 0));
    assert_eq!(
        gave_up(poll(Box::pin(upstream.call(script.play(), Always)).as_mut())),
        (StopReason::Full, 0)
    );
    assert_eq!(upstream.try_admit().unwrap_err().reason(), StopReason::Full);
    ahead.succeeded();
    assert_eq!(
        upstream.try_admit().unwrap_err().reason(),
        StopReason::Full,
        "the permit belongs to the first waiter"
    );
    assert!(poll(third.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    assert_eq!(script.begun(), 0);
    assert!(poll(first.as_mut()).is_pending());
    assert_eq!((seen(&upstream), script.begun()), ((1, 2), 1));
    drop(first);
    assert!(poll(third.as_mut()).is_pending());
    let Poll::Ready(Ok(admission)) = poll(second.as_mut()) else {
        panic!("the permit belongs to the second waiter")
    };
    assert!(poll(third.as_mut()).is_pending());
    drop(admission);
    assert!(poll(third.as_mut()).is_pending());
    assert_eq!((seen(&upstream), script.begun()), ((1, 0), 2));
    drop(third);
    assert_eq!((seen(&upstream), timer.now()), ((0, 0), Duration::ZERO));
}

#[test]
fn try_admit_does_not_wait() {
    let timer = ManualTimer::new();
    let upstream = limited(Bulkhead::new(1), &timer);
    let admission = upstream.try_admit().unwrap();
    let refused = upstream.try_admit().unwrap_err();
    assert_eq!(
        (refused.reason(), refused.attempts(), seen(&upstream)),
        (StopReason::Full, 0, (1, 0))
    );
    assert!(refused.to_string().starts_with("limited: gave up after 0 attempts"), "{refused}");
    admission.settle(&Verdict::transient());
    upstream.try_admit().unwrap().succeeded();
    assert_eq!(seen(&upstream), (0, 0));
}

/// Each attempt acquires its own permit. The delay between attempts holds no permit.
#[test]
fn a_delay_holds_no_permit() {
    let timer = ManualTimer::new();
    let upstream = limited(Bulkhead::new(1).with_queue(1), &timer);
    let script = Script::new(&[Step::Pend(1, false), Step::Succeed]);
    let mut call = Box::pin(retry(|_| script.play(), POLICY, Never).on(&upstream));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(seen(&upstream), (1, 0));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!((seen(&upstream), script.starts()), ((0, 0), 1));
    // Another call acquires the permit during the delay, so the second attempt waits for it.
    let other = upstream.try_admit().unwrap();
    timer.advance(SECOND);
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!((seen(&upstream), script.starts()), ((1, 1), 1));
    drop(other);
    assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(2))));
    assert_eq!(seen(&upstream), (0, 0));
}

/// A waiter that is dropped passes its permit on, woken or not.
#[test]
fn a_dropped_waiter_leaves_the_queue() {
    for granted in [false, true] {
        for kind in 0..5 {
            let timer = ManualTimer::new();
            let budget = Budget::new().with_capacity(1);
            let upstream = limited(Bulkhead::new(1).with_queue(2), &timer).with_budget(budget);
            let script = Script::new(&[Step::Fail, Step::Hang]);
            let mut ahead = None;
            let mut run = Run::new(POLICY, Never).on(&upstream);
            let mut waits: Pin<Box<dyn Future<Output = ()> + '_>> = match kind {
                0 => Box::pin(async {
                    drop(retry(|_| script.play(), POLICY, Never).on(&upstream).await);
                }),
                1 => Box::pin(async { drop(upstream.call(script.play(), Always).await) }),
                2 => Box::pin(async { drop(upstream.admit(Never).await) }),
                3 => Box::pin(async { drop(run.attempt(script.play()).await) }),
                _ => Box::pin(async { drop(run.next().await) }),
            };
            if kind == 0 {
                // The second attempt waits in the queue, with a budget token.
                assert!(poll(Pin::new(&mut waits)).is_pending());
            }
            ahead.replace(upstream.try_admit().unwrap());
            timer.advance(SECOND);
            assert!(poll(Pin::new(&mut waits)).is_pending());
            let mut behind = Box::pin(upstream.admit(Never));
            assert!(poll(behind.as_mut()).is_pending());
            let tokens = u32::from(kind != 0);
            assert_eq!(
                (seen(&upstream), upstream.budget().unwrap().available()),
                ((1, 2), tokens),
                "kind {kind}"
            );
            if granted {
                ahead = None;
            }
            drop(waits);
            assert_eq!(upstream.budget().unwrap().available(), 1, "kind {kind}");
            drop(ahead);
            assert!(
                matches!(poll(behind.as_mut()), Poll::Ready(Ok(_))),
                "kind {kind}, granted: {granted}"
            );
            drop(behind);
            assert_eq!(seen(&upstream), (0, 0), "kind {kind}, granted: {granted}");
            // A run goes on after its wait was dropped.
            if kind > 2 {
                assert!(
                    drive(run.attempt(Script::new(&[Step::Succeed]).play()), &timer)
                        .unwrap()
                        .is_some()
                );
            }
            assert_eq!(seen(&upstream), (0, 0), "kind {kind}");
        }
    }
}

#[test]
fn the_deadline_and_the_token_end_a_wait_in_the_queue() {
    let timer = ManualTimer::new();
    let upstream = limited(Bulkhead::new(1), &timer);
    let (script, _ahead) = (Script::new(&[Step::Hang]), upstream.try_admit().unwrap());
    let policy = POLICY.with_total_timeout(5 * SECOND);
    let mut call = Box::pin(retry(|_| script.play(), policy, Never).on(&upstream));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(timer.until_next(), Some(5 * SECOND));
    timer.advance((5 * SECOND).saturating_sub(Duration::from_nanos(1)));
    assert!(poll(call.as_mut()).is_pending());
    timer.advance(Duration::from_nanos(1));
    let Poll::Ready(Err(ended)) = poll(call.as_mut()) else { panic!("the deadline has passed") };
    assert_eq!(
        (ended.reason(), ended.attempts(), ended.elapsed()),
        (StopReason::Deadline, 0, 5 * SECOND)
    );
    assert_eq!((seen(&upstream), script.starts(), timer.sleepers()), ((1, 0), 0, 0));

    let token = CancellationToken::new();
    let mut call = Box::pin(retry(|_| script.play(), POLICY, &token).on(&upstream));
    let mut admit = Box::pin(upstream.admit(&token));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!((seen(&upstream), timer.sleepers()), ((1, 1), 0));
    token.cancel();
    assert_eq!(gave_up(poll(call.as_mut())), (StopReason::Cancelled, 0));
    assert_eq!(gave_up(poll(admit.as_mut())), (StopReason::Cancelled, 0));
    assert_eq!(seen(&upstream), (1, 0));
}

/// The deadline ends the wait of a later attempt. The error of the earlier attempt is kept.
#[test]
fn a_retry_that_ends_in_the_queue_keeps_the_last_error() {
    for (max_wait, expected) in [(None, StopReason::Deadline), (Some(2 * SECOND), StopReason::Full)]
    {
        let timer = ManualTimer::new();
        let bulkhead = Bulkhead::new(1);
        let bulkhead = max_wait.map_or(Bulkhead::new(1), |limit| bulkhead.with_max_wait(limit));
        let upstream = limited(bulkhead, &timer);
        let script = Script::new(&[Step::Fail]);
        let policy = POLICY.with_total_timeout(10 * SECOND);
        let mut call = Box::pin(retry(|_| script.play(), policy, Never).on(&upstream));
        assert!(poll(call.as_mut()).is_pending());
        let _ahead = upstream.try_admit().unwrap();
        let ended = drive(call, &timer).unwrap_err();
        let elapsed = max_wait.map_or(10 * SECOND, |limit| SECOND + limit);
        assert_eq!((ended.reason(), ended.attempts(), ended.elapsed()), (expected, 1, elapsed));
        assert_eq!((ended.last(), ended.cut()), (Some(&Down(1)), None));
        assert_eq!(ended.verdict(), Some(Verdict::transient()));
        assert_eq!(seen(&upstream), (1, 0));
    }
}

#[test]
fn the_wait_in_the_queue_is_limited() {
    let least = Duration::from_nanos(1);
    let timer = ManualTimer::new();
    let upstream = limited(Bulkhead::new(1).with_queue(3).with_max_wait(2 * SECOND), &timer);
    let (script, ahead) = (Script::new(&[Step::Hang]), upstream.try_admit().unwrap());
    timer.advance(100 * SECOND);
    let mut call = Box::pin(retry(|_| script.play(), POLICY, Never).on(&upstream));
    let mut admit = Box::pin(upstream.admit(Never));
    assert!(poll(call.as_mut()).is_pending());
    timer.advance(SECOND / 2);
    assert!(poll(admit.as_mut()).is_pending());
    timer.advance((SECOND * 3 / 2).saturating_sub(least));
    // A poll in between does not extend the wait.
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(timer.until_next(), Some(least));
    timer.advance(least);
    let Poll::Ready(Err(refused)) = poll(call.as_mut()) else { panic!("the longest wait is over") };
    assert_eq!(
        (refused.reason(), refused.attempts(), refused.elapsed()),
        (StopReason::Full, 0, 2 * SECOND)
    );
    assert_eq!((seen(&upstream), script.starts()), ((1, 1), 0));
    timer.advance(SECOND);
    assert_eq!(gave_up(poll(admit.as_mut())), (StopReason::Full, 0));
    assert_eq!((seen(&upstream), timer.sleepers()), ((1, 0), 0));

    // A permit that is ready takes precedence over the longest wait.
    let mut late = Box::pin(upstream.admit(Never));
    assert!(poll(late.as_mut()).is_pending());
    timer.advance(3 * SECOND);
    drop(ahead);
    assert!(matches!(poll(late.as_mut()), Poll::Ready(Ok(_))));

    // The reason comes from the earlier of the two limits.
    let _ahead = upstream.try_admit().unwrap();
    for (total, expected) in [(SECOND, StopReason::Deadline), (3 * SECOND, StopReason::Full)] {
        let call = retry(|_| script.play(), POLICY.with_total_timeout(total), Never).on(&upstream);
        let ended = drive(call, &timer).unwrap_err();
        assert_eq!((ended.reason(), ended.elapsed()), (expected, total.min(2 * SECOND)));
    }
    assert_eq!((seen(&upstream), script.starts()), ((1, 0), 0));
}

#[test]
fn with_a_longest_wait_of_zero_a_call_is_refused_at_once() {
    let timer = ManualTimer::new();
    let upstream = limited(Bulkhead::new(1).with_max_wait(Duration::ZERO), &timer);
    let ahead = upstream.try_admit().unwrap();
    assert_eq!(gave_up(poll(Box::pin(upstream.admit(Never)).as_mut())), (StopReason::Full, 0));
    assert_eq!(seen(&upstream), (1, 0));
    drop(ahead);
    assert!(poll(Box::pin(upstream.admit(Never)).as_mut()).is_ready());
    // A longest wait of `Duration::MAX` never ends and needs no sleep.
    let upstream = limited(Bulkhead::new(1).with_max_wait(Duration::MAX), &timer);
    let ahead = upstream.try_admit().unwrap();
    let mut admit = Box::pin(upstream.admit(Never));
    assert!(poll(admit.as_mut()).is_pending());
    timer.advance(SECOND);
    assert_eq!((poll(admit.as_mut()).is_pending(), timer.sleepers()), (true, 0));
    drop(ahead);
    assert!(matches!(poll(admit.as_mut()), Poll::Ready(Ok(_))));
}

#[test]
fn a_call_that_the_breaker_refuses_holds_no_permit() {
    let timer = ManualTimer::new();
    let breaker = Breaker::new().with_consecutive(1).with_open_time(Backoff::fixed(9 * SECOND));
    let upstream = limited(Bulkhead::new(2), &timer).with_breaker(breaker);
    let (fails, hangs) = (upstream.try_admit().unwrap(), upstream.try_admit().unwrap());
    let [mut first, mut second] = [(); 2].map(|()| Box::pin(upstream.admit(Never)));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    fails.settle(&Verdict::transient());
    assert_eq!(upstream.breaker().unwrap().state(), State::Open);
    // The breaker has opened before the permit became free. Its refusal passes the permit on.
    let Poll::Ready(Err(refused)) = poll(first.as_mut()) else { panic!("the breaker is open") };
    assert_eq!((refused.reason(), refused.retry_after()), (StopReason::Open, Some(9 * SECOND)));
    assert_eq!(gave_up(poll(second.as_mut())), (StopReason::Open, 0));
    assert_eq!(seen(&upstream), (1, 0));
    // The bulkhead is full and the breaker is open. Waiting for a permit would be useless.
    drop(hangs);
    assert_eq!(seen(&upstream), (0, 0));
    let upstream = limited(Bulkhead::new(1), &timer).with_breaker(Breaker::new());
    let other = upstream.try_admit().unwrap();
    let isolation = upstream.isolate();
    assert_eq!(upstream.try_admit().unwrap_err().reason(), StopReason::Open);
    assert_eq!(gave_up(poll(Box::pin(upstream.admit(Never)).as_mut())), (StopReason::Open, 0));
    assert_eq!(seen(&upstream), (1, 0));
    drop((other, isolation));
    assert_eq!(seen(&upstream), (0, 0));
}

/// The permit becomes free while the cooldown holds all attempts. No call owns the permit during
/// the hold.
#[test]
fn a_call_that_the_cooldown_holds_holds_no_permit() {
    let timer = ManualTimer::new();
    let cooldown = Cooldown::new().with_jitter(0.0);
    let upstream = limited(Bulkhead::new(1), &timer).with_cooldown(cooldown);
    let ahead = upstream.try_admit().unwrap();
    let mut waits = Box::pin(upstream.admit(Never));
    assert!(poll(waits.as_mut()).is_pending());
    ahead.settle(&Verdict::throttled().after(7 * SECOND));
    assert!(poll(waits.as_mut()).is_pending());
    assert_eq!((seen(&upstream), timer.until_next()), ((0, 0), Some(7 * SECOND)));
    timer.advance(7 * SECOND);
    assert!(
        poll(waits.as_mut()).is_pending(),
        "the bulkhead is asked in a later poll than the cooldown"
    );
    let Poll::Ready(Ok(admission)) = poll(waits.as_mut()) else { panic!("the hold is over") };
    assert_eq!(seen(&upstream), (1, 0));
    drop(admission);
    assert_eq!(seen(&upstream), (0, 0));
}

#[test]
fn a_wait_in_the_queue_is_reported_once() {
    let timer = ManualTimer::new();
    let events = Arc::new(Mutex::new(vec![]));
    let sink = Arc::clone(&events);
    let observer = move |event: &Event<'_>| {
        if let EventKind::Held { attempt, by, delay, .. } = event.kind {
            assert_eq!((event.gauges.in_flight, event.gauges.waiting), (Some(1), Some(1)));
            sink.lock().unwrap().push((attempt, by, delay, event.to_string()));
        }
    };
    let upstream = limited(Bulkhead::new(1), &timer).with_shared_observer(observer);
    let (script, ahead) = (Script::new(&[Step::Succeed]), upstream.try_admit().unwrap());
    let mut call = Box::pin(retry(|_| script.play(), POLICY, Never).on(&upstream));
    for _ in 0..3 {
        assert!(poll(call.as_mut()).is_pending());
        timer.advance(SECOND);
    }
    drop(ahead);
    assert!(poll(call.as_mut()).is_ready());
    let words = "limited: attempt 1 of 3 waits for the bulkhead".to_owned();
    assert_eq!(*events.lock().unwrap(), [(1, HeldBy::Bulkhead, None, words)]);
}

/// The first attempt waits in the queue, but a hedge never waits.
#[test]
fn a_hedge_does_not_wait_in_the_queue() {
    let timer = ManualTimer::new();
    let upstream = limited(Bulkhead::new(1), &timer);
    let (script, ahead) = (Script::new(&[Step::Pend(2, true)]), upstream.try_admit().unwrap());
    let mut call = Box::pin(
        hedge(|_| script.play(), HedgePolicy::new().with_delay(SECOND), Never).on(&upstream),
    );
    assert!(poll(call.as_mut()).is_pending());
    timer.advance(5 * SECOND);
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!((seen(&upstream), script.starts()), ((1, 1), 0));
    drop(ahead);
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!((seen(&upstream), script.starts()), ((1, 0), 1));
    timer.advance(SECOND);
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!((seen(&upstream), script.starts()), ((1, 0), 1), "the hedge was not admitted");
    assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(1))));
    assert_eq!(seen(&upstream), (0, 0));
}

/// A thread that blocks in the queue is woken with its permit.
#[test]
fn a_blocked_thread_waits_in_the_queue() {
    static UPSTREAM: Upstream = Upstream::new("limited").with_bulkhead(Bulkhead::new(1));
    let ahead = UPSTREAM.try_admit().unwrap();
    let thread = std::thread::spawn(|| {
        let mut run = Run::<Down, _, _>::new(POLICY, Never).on(&UPSTREAM);
        run.blocking_next().unwrap();
        assert_eq!(seen(&UPSTREAM), (1, 0));
        run.succeeded(7)
    });
    while seen(&UPSTREAM).1 == 0 {
        std::thread::yield_now();
    }
    ahead.succeeded();
    assert_eq!((thread.join().unwrap(), seen(&UPSTREAM)), (7, (0, 0)));
    // The manual clock advances while the thread waits, so its longest wait ends.
    let upstream = limited(Bulkhead::new(1).with_max_wait(SECOND), &ManualTimer::new());
    let _ahead = upstream.try_admit().unwrap();
    for (total, expected) in [(SECOND / 2, StopReason::Deadline), (9 * SECOND, StopReason::Full)] {
        let mut run = Run::<Down, _, _>::new(POLICY.with_total_timeout(total), Never).on(&upstream);
        let ended = run.blocking_next().unwrap_err();
        assert_eq!(
            (ended.reason(), ended.attempts(), ended.elapsed()),
            (expected, 0, total.min(SECOND))
        );
        assert_eq!(seen(&upstream), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn many_calls_never_exceed_the_limit() {
    static UPSTREAM: Upstream =
        Upstream::new("limited").with_bulkhead(Bulkhead::new(3).with_queue(97));
    static IN: AtomicU32 = AtomicU32::new(0);
    async fn work(fails: bool) -> Result<(), Down> {
        assert!(IN.fetch_add(1, Ordering::Relaxed) < 3);
        tokio::time::sleep(SECOND).await;
        IN.fetch_sub(1, Ordering::Relaxed);
        if fails { Err(Down(1)) } else { Ok(()) }
    }
    let began = tokio::time::Instant::now();
    let policy = POLICY.with_backoff(Backoff::none());
    let call = move |n: u32| {
        retry(move |attempt| work(n % 2 == 0 && attempt.is_first()), policy, Never).on(&UPSTREAM)
    };
    let tasks: Vec<_> = (0..100).map(|n| tokio::spawn(call(n))).collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 50, "150 attempts, three at once");
    assert_eq!(seen(&UPSTREAM), (0, 0));
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Call { hangs: bool },
    Admit,
    Poll(prop::sample::Index),
    Drop(prop::sample::Index),
    Pass(u64),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let step = prop_oneof![
        3 => any::<bool>().prop_map(|hangs| Action::Call { hangs }),
        1 => Just(Action::Admit),
        6 => any::<prop::sample::Index>().prop_map(Action::Poll),
        2 => any::<prop::sample::Index>().prop_map(Action::Drop),
        2 => (0..3000_u64).prop_map(Action::Pass),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Task<'a> {
    call: Pin<Box<dyn Future<Output = ()> + 'a>>,
    woken: Arc<Woken>,
}

impl Task<'_> {
    /// Polls the call and returns whether it has ended.
    fn poll(&mut self) -> bool {
        self.woken.0.store(0, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.woken));
        self.call.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
    }
}

proptest! {
    /// For any order of polls, drops and delays, the limit holds, every waiter is woken, and every
    /// permit returns.
    #[test]
    fn every_waiter_is_woken(
        limit in 1..4_u32,
        queue in 0..4_u32,
        max_wait in prop_oneof![Just(None), (0..4000_u64).prop_map(Some)],
        total in prop_oneof![Just(None), (0..9000_u64).prop_map(Some)],
        actions in actions(),
    ) {
        let timer = ManualTimer::new();
        let bulkhead = Bulkhead::new(limit).with_queue(queue);
        let bulkhead = match max_wait {
            Some(limit) => bulkhead.with_max_wait(Duration::from_millis(limit)),
            None => bulkhead,
        };
        let breaker = Breaker::new().with_consecutive(4).with_open_time(Backoff::fixed(SECOND));
        let upstream = limited(bulkhead, &timer).with_breaker(breaker).with_budget(Budget::new());
        let policy = match total {
            Some(total) => POLICY.with_total_timeout(Duration::from_millis(total)),
            None => POLICY,
        };
        let running = AtomicU32::new(0);
        let op = |hangs: bool| {
            let (timer, running) = (&timer, &running);
            async move {
                struct In<'a>(&'a AtomicU32);
                impl Drop for In<'_> {
                    fn drop(&mut self) {
                        self.0.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                assert!(running.fetch_add(1, Ordering::Relaxed) < limit);
                let _in = In(running);
                timer.sleep(if hangs { SECOND } else { Duration::ZERO }).await;
                if hangs { Err(Down(1)) } else { Ok(()) }
            }
        };
        let mut tasks: Vec<Task<'_>> = vec![];
        for step in actions {
            let call: Pin<Box<dyn Future<Output = ()> + '_>> = match step {
                Action::Call { hangs } => {
                    let call = retry(move |_| op(hangs), policy, Never).on(&upstream);
                    Box::pin(async { drop(call.await) })
                }
                Action::Admit => Box::pin(async { drop(upstream.admit(Never).await) }),
                Action::Poll(at) if !tasks.is_empty() => {
                    let at = at.index(tasks.len());
                    if tasks[at].poll() {
                        drop(tasks.swap_remove(at));
                    }
                    continue;
                }
                Action::Drop(at) if !tasks.is_empty() => {
                    drop(tasks.swap_remove(at.index(tasks.len())));
                    continue;
                }
                Action::Pass(by) => {
                    timer.advance(Duration::from_millis(by));
                    continue;
                }
                _ => continue,
            };
            let mut task = Task { call, woken: Arc::default() };
            if !task.poll() {
                tasks.push(task);
            }
            let (inside, waiting) = seen(&upstream);
            prop_assert!(inside <= limit && waiting <= queue);
        }
        // From here on only woken tasks are polled.
        while !tasks.is_empty() {
            let woken = tasks.iter().position(|task| task.woken.0.load(Ordering::Relaxed) > 0);
            match (woken, timer.until_next()) {
                (Some(at), _) => {
                    if tasks[at].poll() {
                        drop(tasks.swap_remove(at));
                    }
                }
                (None, Some(next)) => timer.advance(next),
                (None, None) => prop_assert!(false, "{} calls wait for ever, {:?}", tasks.len(), upstream),
            }
        }
        prop_assert_eq!(seen(&upstream), (0, 0));
    }
}
