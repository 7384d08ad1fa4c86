//! Laws of every timer and of every runtime. Each law is a future over a timer. A runtime only has
//! to run it. It waits for real, so all delays are short, and no law has an upper limit on them.
//!
//! `tests/runtimes` and `lab/runtimes` run this file natively, and `tests/wasm` on wasm.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{pending, poll_fn, ready};
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use resile::fallback::Alternative;
use resile::time::{ManualSleep, ManualTimer, Timer};
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, HedgePolicy, Jitter,
    Never, RetryPolicy, StopReason, Upstream, Verdict, fallback, hedge, retry,
};

const MS: Duration = Duration::from_millis(1);

/// Runs all laws, one after another.
pub(crate) async fn all<M: Timer<Sleep: 'static> + Clone>(timer: M) {
    of_wakers(&timer).await;
    of_waits(&timer).await;
    without_a_timer().await;
}

/// Runs the laws that do not hold if the timer polls its sleeps again and again.
async fn of_wakers<M: Timer>(timer: &M) {
    the_latest_waker_is_woken(timer).await;
    a_dropped_sleep_wakes_nobody(timer).await;
    a_sleep_may_last_for_ever(timer).await;
}

/// Runs the laws of sleeps and of calls.
pub(crate) async fn of_waits<M: Timer<Sleep: 'static> + Clone>(timer: &M) {
    a_sleep_never_ends_early(timer).await;
    a_past_end_is_no_wait(timer).await;
    sleeps_end_in_their_order(timer).await;
    many_sleeps_end(timer).await;
    a_retry_waits_its_delays(timer).await;
    an_attempt_timeout_cuts_what_hangs(timer).await;
    a_total_timeout_ends_the_call(timer).await;
    a_hedge_overtakes(timer).await;
    a_fallback_follows_a_cut(timer).await;
    a_cooldown_holds_the_next_call(timer).await;
    a_breaker_refuses_and_recovers(timer).await;
    a_bulkhead_serves_its_queue(timer).await;
    an_operation_need_not_be_send(timer).await;
    a_timer_need_not_be_send(timer).await;
}

/// Runs the laws that need no clock.
pub(crate) async fn without_a_timer() {
    virtual_time_ends_at_once().await;
    delays_are_drawn();
}

/// A waker that counts.
#[derive(Default)]
struct Counted(AtomicU32);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Counted {
    fn polls(self: &Arc<Self>, future: Pin<&mut impl Future>) -> bool {
        future.poll(&mut Context::from_waker(&Waker::from(self.clone()))).is_pending()
    }

    fn count(&self) -> u32 {
        self.0.load(SeqCst)
    }
}

/// Runs two futures beside each other.
async fn both<A: Future, B: Future>(first: A, second: B) -> (A::Output, B::Output) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut one, mut two) = (None, None);
    poll_fn(|cx| {
        if one.is_none() {
            one = ready_now(first.as_mut(), cx);
        }
        if two.is_none() {
            two = ready_now(second.as_mut(), cx);
        }
        if one.is_some() && two.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (one.unwrap(), two.unwrap())
}

fn ready_now<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) -> Option<F::Output> {
    match future.poll(cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn upstream<M: Timer + Clone>(timer: &M) -> Upstream<M> {
    Upstream::new("weather").with_timer(timer.clone())
}

/// Three attempts with fixed delays of 5 ms.
fn policy() -> RetryPolicy {
    RetryPolicy::new().with_backoff(Backoff::fixed(MS * 5).with_jitter(Jitter::None))
}

async fn fails_twice(attempt: Attempt) -> io::Result<&'static str> {
    match attempt.number() {
        1 | 2 => Err(ErrorKind::ConnectionReset.into()),
        _ => Ok("18 °C"),
    }
}

async fn a_sleep_never_ends_early<M: Timer>(timer: &M) {
    for delay in [Duration::ZERO, Duration::from_nanos(1), MS, Duration::from_micros(2500), MS * 20]
    {
        let began = timer.now();
        timer.sleep(delay).await;
        let ended = timer.now();
        assert!(ended >= began + delay, "{delay:?}: {:?}", ended.checked_sub(began));
        timer.sleep_until(ended + delay).await;
        assert!(timer.now() >= ended + delay, "until {delay:?} later");
    }
}

async fn a_past_end_is_no_wait<M: Timer>(timer: &M) {
    timer.sleep(MS).await;
    timer.sleep_until(timer.now()).await;
    timer.sleep_until(Duration::ZERO).await;
}

async fn sleeps_end_in_their_order<M: Timer>(timer: &M) {
    let order = RefCell::new(Vec::new());
    let entry = |millis: u32| {
        let (sleep, order) = (timer.sleep(MS * millis), &order);
        async move {
            sleep.await;
            order.borrow_mut().push(millis);
        }
    };
    both(both(entry(45), entry(5)), both(entry(65), entry(25))).await;
    assert_eq!(order.into_inner(), [5, 25, 45, 65]);
}

async fn the_latest_waker_is_woken<M: Timer>(timer: &M) {
    let (old, new) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
    let mut sleep = pin!(timer.sleep(MS * 10));
    assert!(old.polls(sleep.as_mut()) && new.polls(sleep.as_mut()), "10 ms are not over");
    // A timeout of JavaScript may fire early. The next poll then sets another.
    loop {
        let (seen, began) = (new.count(), timer.now());
        while new.count() == seen {
            assert!(timer.now() <= began + MS * 10_000, "the new waker is woken");
            timer.sleep(MS).await;
        }
        if !new.polls(sleep.as_mut()) {
            break;
        }
    }
    assert_eq!(old.count(), 0, "the old waker is not woken");
}

async fn a_dropped_sleep_wakes_nobody<M: Timer>(timer: &M) {
    let waker = Arc::new(Counted::default());
    {
        let mut sleep = pin!(timer.sleep(MS * 5));
        assert!(waker.polls(sleep.as_mut()), "5 ms are not over");
    }
    timer.sleep(MS * 20).await;
    assert_eq!(waker.count(), 0);
    assert_eq!(Arc::strong_count(&waker), 1, "the timer has let the waker go");
}

async fn a_sleep_may_last_for_ever<M: Timer>(timer: &M) {
    let waker = Arc::new(Counted::default());
    // 2^31 ms is where a 32-bit count of milliseconds ends.
    let days = [25, 50, 366 * 30, 366 * 1000].map(|days| Duration::from_secs(86400) * days);
    for delay in days.into_iter().chain([MS * (1 << 31), Duration::MAX]) {
        let mut sleep = pin!(timer.sleep(delay));
        let mut until = pin!(timer.sleep_until(delay.saturating_add(timer.now())));
        assert!(waker.polls(sleep.as_mut()) && waker.polls(until.as_mut()));
        timer.sleep(MS * 2).await;
        assert_eq!(waker.count(), 0, "{delay:?}");
        assert!(waker.polls(sleep.as_mut()) && waker.polls(until.as_mut()), "{delay:?}");
    }
}

async fn many_sleeps_end<M: Timer>(timer: &M) {
    let mut sleeps: Vec<_> = (0..200_u32).map(|n| Box::pin(timer.sleep(MS * (n % 7)))).collect();
    poll_fn(|cx| {
        sleeps.retain_mut(|sleep| sleep.as_mut().poll(cx).is_pending());
        if sleeps.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn a_retry_waits_its_delays<M: Timer + Clone>(timer: &M) {
    let (upstream, began) = (upstream(timer), timer.now());
    let answer = retry(fails_twice, policy(), Never).on(&upstream).await;
    assert_eq!(answer.unwrap(), "18 °C");
    assert!(timer.now() >= began + MS * 10);
}

async fn an_attempt_timeout_cuts_what_hangs<M: Timer + Clone>(timer: &M) {
    let (upstream, began) = (upstream(timer), timer.now());
    let policy = policy().with_attempt_timeout(MS * 4);
    let hangs = |_: Attempt| pending::<io::Result<()>>();
    let gave_up = retry(hangs, policy, Never).on(&upstream).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Attempts, 3));
    assert!(timer.now() >= began + MS * (3 * 4 + 2 * 5));
}

async fn a_total_timeout_ends_the_call<M: Timer + Clone>(timer: &M) {
    let (upstream, began) = (upstream(timer), timer.now());
    let policy = policy().with_attempts(u32::MAX).with_total_timeout(MS * 30);
    let hangs_later = |attempt: Attempt| async move {
        if attempt.is_first() {
            return Err::<(), _>(io::Error::from(ErrorKind::ConnectionReset));
        }
        pending().await
    };
    let gave_up = retry(hangs_later, policy, Never).on(&upstream).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Deadline, 2));
    assert!(timer.now() >= began + MS * 30);
}

async fn a_hedge_overtakes<M: Timer + Clone>(timer: &M) {
    let upstream = upstream(timer);
    let first_hangs = |attempt: Attempt| async move {
        if attempt.is_first() { pending().await } else { Ok::<_, io::Error>(attempt.number()) }
    };
    let answer =
        hedge(first_hangs, HedgePolicy::new().with_delay(MS * 5), Never).on(&upstream).await;
    assert_eq!(answer.unwrap(), 2);
}

async fn a_fallback_follows_a_cut<M: Timer + Clone>(timer: &M) {
    let upstream = upstream(timer);
    let policy = RetryPolicy::none().with_attempt_timeout(MS * 5);
    let ask = |alternative: Alternative<'_, Option<u32>>| {
        let answer = *alternative.value();
        let op = move |_| async move {
            match answer {
                Some(answer) => Ok::<_, io::Error>(answer),
                None => pending().await,
            }
        };
        retry(op, policy, Never).on(&upstream)
    };
    let calls = fallback(&[None, Some(2)], ask, FallbackPolicy::new(), Never).on(&upstream);
    assert_eq!(calls.await.unwrap(), 2);
}

async fn a_cooldown_holds_the_next_call<M: Timer + Clone>(timer: &M) {
    let cooldown = Cooldown::new().with_jitter(0.0);
    let upstream = upstream(timer).with_cooldown(cooldown);
    let throttled = |_: &io::Error| Verdict::throttled().after(MS * 20);
    let began = timer.now();
    let refused = retry(
        |_| ready(Err::<(), _>(io::Error::from(ErrorKind::WouldBlock))),
        RetryPolicy::none().with_classifier(throttled),
        Never,
    );
    refused.on(&upstream).await.unwrap_err();
    let next = retry(|_| ready(Ok::<_, io::Error>(timer.now())), policy(), Never);
    assert!(next.on(&upstream).await.unwrap() >= began + MS * 20);
}

async fn a_breaker_refuses_and_recovers<M: Timer + Clone>(timer: &M) {
    let breaker = Breaker::new()
        .with_consecutive(2)
        .with_open_time(Backoff::fixed(MS * 30))
        .with_probes(1.0, 1);
    let upstream = upstream(timer).with_breaker(breaker);
    let is_up = Cell::new(false);
    let call = || {
        let op = |_| ready(is_up.get().then_some(()).ok_or(io::Error::from(ErrorKind::TimedOut)));
        retry(op, RetryPolicy::none(), Never).on(&upstream)
    };
    for reason in [StopReason::Attempts, StopReason::Attempts, StopReason::Open] {
        assert_eq!(call().await.unwrap_err().reason(), reason);
    }
    is_up.set(true);
    while call().await.is_err() {
        timer.sleep(MS * 5).await;
    }
    call().await.unwrap();
}

async fn a_bulkhead_serves_its_queue<M: Timer + Clone>(timer: &M) {
    let upstream = upstream(timer).with_bulkhead(Bulkhead::new(1).with_queue(1));
    let alone = Cell::new(true);
    let call = || {
        let op = |_| async {
            assert!(alone.replace(false), "one at a time");
            timer.sleep(MS * 5).await;
            alone.set(true);
            Ok::<_, io::Error>(())
        };
        retry(op, policy(), Never).on(&upstream)
    };
    let (first, second) = both(call(), call()).await;
    assert!(first.is_ok() && second.is_ok());
}

/// Nothing of this call can leave its thread. It compiles all the same.
async fn an_operation_need_not_be_send<M: Timer + Clone>(timer: &M) {
    let (upstream, attempts) = (upstream(timer), Rc::new(Cell::new(0)));
    let op = |attempt| {
        let attempts = Rc::clone(&attempts);
        async move {
            attempts.set(attempts.get() + 1);
            fails_twice(attempt).await.map(Rc::new)
        }
    };
    let answer = retry(op, policy(), Never).on(&upstream).await.unwrap();
    assert_eq!((*answer, attempts.get()), ("18 °C", 3));
}

/// A timer that cannot leave its thread, with sleeps that cannot leave it either.
async fn a_timer_need_not_be_send<M: Timer<Sleep: 'static> + Clone>(timer: &M) {
    struct Local<M>(Rc<M>);

    impl<M: Timer<Sleep: 'static>> Timer for Local<M> {
        type Sleep = Pin<Box<dyn Future<Output = ()>>>;

        fn now(&self) -> Duration {
            self.0.now()
        }

        fn sleep(&self, delay: Duration) -> Self::Sleep {
            Box::pin(self.0.sleep(delay))
        }
    }

    let upstream = Upstream::new("local")
        .with_budget(Budget::new())
        .with_breaker(Breaker::new())
        .with_timer(Local(Rc::new(timer.clone())));
    let answer = retry(fails_twice, policy(), Never).on(&upstream).await;
    assert_eq!(answer.unwrap(), "18 °C");
    let hangs = |_: Attempt| pending::<io::Result<()>>();
    let policy = RetryPolicy::none().with_attempt_timeout(MS);
    retry(hangs, policy, Never).on(&upstream).await.unwrap_err();
}

/// Runs half an hour of delays without a wait.
async fn virtual_time_ends_at_once() {
    let timer = ManualTimer::new();
    let upstream = Upstream::new("slow").with_budget(Budget::new()).with_timer(timer.clone());
    let op = |_| ready(Err::<(), _>(io::Error::from(ErrorKind::TimedOut)));
    let mut call = pin!(retry(op, RetryPolicy::patient(), Never).on(&upstream));
    let result = poll_fn(|cx| {
        loop {
            if let Poll::Ready(result) = call.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            timer.advance(timer.until_next().expect("the call waits for the clock"));
        }
    });
    assert_eq!(result.await.unwrap_err().attempts(), 9);
    assert!(timer.now() > Duration::ZERO && timer.sleepers() == 0);
}

/// A clock by hand with the generator of the thread.
struct Unseeded(ManualTimer);

impl Timer for Unseeded {
    type Sleep = ManualSleep;

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, delay: Duration) -> ManualSleep {
        self.0.sleep(delay)
    }
}

/// Delays with jitter differ, so there is a generator.
fn delays_are_drawn() {
    let delays: BTreeSet<_> = (0..20)
        .map(|_| {
            let timer = ManualTimer::new();
            let upstream = Upstream::new("drawn").with_timer(Unseeded(timer.clone()));
            let mut call = Box::pin(retry(fails_twice, RetryPolicy::new(), Never).on(&upstream));
            // It is not even pending if both delays are drawn as zero.
            let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            timer.until_next()
        })
        .collect();
    assert!(delays.len() > 15, "{delays:?}");
}
