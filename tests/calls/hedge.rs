//! `resile::hedge`: the winner, the cost of a hedge, and the cleanup.
//!
//! Tests named `trap_10_…` stand for point 10 of the section "The behaviour" in `COMPARE.md`.

use std::cell::{Cell, RefCell};
use std::future::{pending, ready};
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::observe::{Event, EventKind};
use resile::time::{ManualTimer, Timer};
use resile::{
    AdaptiveTimeout, Attempt, Budget, Bulkhead, HedgePolicy, Never, StopReason, Upstream, Verdict,
    hedge,
};
use static_assertions::assert_impl_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::script::CountingTimer;

assert_impl_all!(HedgePolicy: Send, Sync, Copy);

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
static AFTER_50: HedgePolicy = HedgePolicy::new().with_delay(Duration::from_millis(50));

/// Creates an upstream with this budget.
const fn with_budget(budget: Budget) -> Upstream {
    Upstream::new("search").with_budget(budget)
}

fn available<M>(upstream: &Upstream<M>) -> u32 {
    upstream.budget().unwrap().available()
}

/// Attempt n takes the n-th latency and returns the n-th outcome.
fn scripted<const N: usize>(
    scripted: [(u64, Result<u32, &'static str>); N],
) -> impl FnMut(Attempt) -> std::pin::Pin<Box<dyn Future<Output = Result<u32, &'static str>> + Send>>
{
    move |attempt| {
        let (latency, outcome) = scripted[attempt.number() as usize - 1];
        Box::pin(async move {
            if latency > 0 {
                tokio::time::sleep(MS * u32::try_from(latency).unwrap()).await;
            }
            outcome
        })
    }
}

/// A timer that reads zero at the start of the call is no special case: the end of the longest timeout is the
/// latest time.
#[test]
fn the_longest_timeout_does_not_end_a_call_that_starts_at_zero() {
    for start in [Duration::ZERO, SECOND] {
        let timer = ManualTimer::new();
        timer.advance(start);
        let search = Upstream::new("search").with_timer(&timer);
        let policy = AFTER_50.with_total_timeout(Duration::MAX);
        let hangs = |_| pending::<Result<(), &str>>();
        let mut call = Box::pin(hedge(hangs, policy, Never).on(&search));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            assert!(call.as_mut().poll(&mut cx).is_pending(), "{start:?} {:?}", timer.now());
            timer.advance(SECOND);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fast_call_is_not_hedged() {
    let began = Instant::now();
    assert_eq!(hedge(scripted([(49, Ok(1))]), &AFTER_50, Never).await.unwrap(), 1);
    assert_eq!(began.elapsed(), 49 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_overtakes_a_slow_call() {
    let began = Instant::now();
    assert_eq!(hedge(scripted([(500, Ok(1)), (10, Ok(2))]), &AFTER_50, Never).await.unwrap(), 2);
    assert_eq!(began.elapsed(), 60 * MS);
    assert_eq!(hedge(scripted([(55, Ok(1)), (10, Ok(2))]), &AFTER_50, Never).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn trap_10_a_fast_failure_does_not_win() {
    let passes = AFTER_50.with_classifier(|error: &&str| *error != "404");
    assert_eq!(
        hedge(scripted([(500, Ok(1)), (1, Err("reset"))]), &passes, Never).await.unwrap(),
        1
    );
    assert_eq!(
        hedge(scripted([(60, Err("reset")), (100, Ok(2))]), &passes, Never).await.unwrap(),
        2
    );
    // An error that must not be retried ends the call at once.
    let began = Instant::now();
    let gave_up =
        hedge(scripted([(500, Ok(1)), (1, Err("404"))]), &passes, Never).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.into_last()),
        (StopReason::Fatal, 2, Some("404"))
    );
    assert_eq!(began.elapsed(), 51 * MS);
}

#[tokio::test(start_paused = true)]
async fn trap_10_a_hedge_that_the_budget_denies_changes_nothing() {
    let (empty, denied) = (with_budget(Budget::new().with_capacity(0)), Cell::new(0));
    let observer = |event: &Event<'_>| match event.kind {
        EventKind::Denied { attempts, .. } => {
            assert_eq!(attempts, 1);
            denied.set(denied.get() + 1);
        }
        EventKind::Started { attempt, .. } => assert!(attempt.is_first()),
        _ => {}
    };
    let call = hedge(scripted([(500, Ok(1)), (10, Ok(2))]), &AFTER_50, Never)
        .on(empty.observed_by(&observer));
    let began = Instant::now();
    assert_eq!(call.await.unwrap(), 1);
    assert_eq!((began.elapsed(), denied.get()), (500 * MS, 1));
}

#[tokio::test(start_paused = true)]
async fn a_hedge_spends_a_token_and_a_success_deposits() {
    let search = with_budget(Budget::new().with_capacity(2).with_deposit(0.0));
    hedge(scripted([(500, Ok(1)), (10, Ok(2))]), &AFTER_50, Never).on(&search).await.unwrap();
    assert_eq!(available(&search), 1);
    let deposits = with_budget(Budget::new().with_capacity(2).with_deposit(1.0));
    let withdraw = || assert!(deposits.budget().unwrap().withdraw());
    withdraw();
    hedge(scripted([(0, Ok(1))]), &AFTER_50, Never).on(&deposits).await.unwrap();
    assert_eq!(available(&deposits), 2);
    withdraw();
    hedge(scripted([(0, Err("down"))]), &AFTER_50, Never).on(&deposits).await.unwrap_err();
    assert_eq!(available(&deposits), 1);
}

#[tokio::test(start_paused = true)]
async fn when_all_attempts_in_flight_have_failed_the_call_ends_with_the_last_error() {
    let gave_up = hedge(scripted([(100, Err("first")), (60, Err("second"))]), &AFTER_50, Never)
        .await
        .unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.elapsed()),
        (StopReason::Attempts, 2, 110 * MS)
    );
    assert_eq!(gave_up.into_last(), Some("second"));
    // A hedge starts only after its delay. Without the delay it would be a retry without a backoff.
    let gave_up =
        hedge(scripted([(10, Err("first")), (10, Ok(2))]), &AFTER_50, Never).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.elapsed()),
        (StopReason::Attempts, 1, 10 * MS)
    );
}

#[tokio::test(start_paused = true)]
async fn a_throttling_upstream_gets_no_more_hedges() {
    let policy =
        AFTER_50.with_hedges(3).with_classifier(|_: &&str| Verdict::throttled().after(SECOND));
    let gave_up =
        hedge(scripted([(70, Err("429")), (300, Err("429"))]), &policy, Never).await.unwrap_err();
    assert_eq!((gave_up.attempts(), gave_up.retry_after()), (2, Some(SECOND)));
}

#[tokio::test(start_paused = true)]
async fn hedges_join_one_by_one_and_know_their_times() {
    let seen = RefCell::new(vec![]);
    let policy = AFTER_50.with_hedges(9).with_total_timeout(SECOND);
    let gave_up = hedge(
        |attempt| {
            seen.borrow_mut().push(attempt);
            pending::<Result<(), ()>>()
        },
        &policy,
        Never,
    )
    .await
    .unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.elapsed()),
        (StopReason::Deadline, 5, SECOND)
    );
    for (attempt, number) in seen.borrow().iter().zip(1..) {
        assert_eq!(attempt.number(), number);
        assert_eq!(attempt.elapsed(), 50 * MS * (number - 1));
        assert_eq!(attempt.delay(), if number == 1 { Duration::ZERO } else { 50 * MS });
        assert_eq!(attempt.remaining(), SECOND.checked_sub(attempt.elapsed()));
    }
    assert_eq!(seen.borrow().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_token_ends_a_hedge_and_a_cancelled_token_starts_nothing() {
    let token = CancellationToken::new();
    let calls = Cell::new(0);
    let op = |_| {
        calls.set(calls.get() + 1);
        async {
            tokio::time::sleep(70 * MS).await;
            token.cancel();
            pending::<Result<(), ()>>().await
        }
    };
    let gave_up = hedge(op, &AFTER_50.with_hedges(4), &token).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.elapsed()),
        (StopReason::Cancelled, 2, 70 * MS)
    );
    let gave_up = hedge(op, &AFTER_50, &token).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts(), calls.get()), (StopReason::Cancelled, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_ready_result_takes_precedence_over_the_token_and_the_deadline() {
    let token = CancellationToken::new();
    let op = |_| {
        token.cancel();
        ready(Ok::<_, ()>(1))
    };
    assert_eq!(hedge(op, &AFTER_50.with_total_timeout(Duration::ZERO), &token).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn trap_10_losers_are_dropped_before_the_success_is_reported() {
    struct Gone<'a>(&'a Cell<u32>);
    impl Drop for Gone<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let (gone, events) = (Cell::new(0), RefCell::new(vec![]));
    let observer = |event: &Event<'_>| {
        if let EventKind::Succeeded { .. } | EventKind::Lost { .. } = event.kind {
            assert_eq!(gone.get(), 3);
        }
        events.borrow_mut().push(event.to_string());
    };
    let op = |attempt: Attempt| {
        let held = Gone(&gone);
        async move {
            let _held = held;
            tokio::time::sleep(if attempt.number() == 2 { 120 * MS } else { SECOND }).await;
            Ok::<_, &str>(attempt.number())
        }
    };
    let search = Upstream::new("search");
    let call = hedge(op, AFTER_50.with_hedges(2), Never).on(search.observed_by(&observer));
    assert_eq!(call.await.unwrap(), 2);
    let events = events.into_inner();
    assert_eq!(
        events,
        [
            "search: attempt 1 of 3 starts",
            "search: attempt 2 of 3 starts",
            "search: attempt 3 of 3 starts",
            "search: attempt 1 of 3 dropped: another attempt ended the call",
            "search: attempt 3 of 3 dropped: another attempt ended the call",
            "search: attempt 2 of 3 succeeded",
        ]
    );
}

/// A clock that must not be read.
struct NoClock;
impl Timer for NoClock {
    type Sleep = std::future::Pending<()>;
    fn now(&self) -> Duration {
        unreachable!("the clock was read")
    }
    fn sleep(&self, _: Duration) -> Self::Sleep {
        unreachable!("a sleep was created")
    }
}

#[test]
fn an_instant_success_reads_no_clock_and_allocates_nothing() {
    let shared = || with_budget(Budget::new()).with_adaptive_timeout(AdaptiveTimeout::new());
    let search = shared().with_timer(NoClock);
    let policy = AFTER_50.with_learned_delay().with_attempt_timeout(SECOND);
    let run = || {
        let call = std::pin::pin!(hedge(|_| ready(Ok::<_, &str>(1)), &policy, Never).on(&search));
        assert!(matches!(call.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(1))));
    };
    assert_eq!(allocation_counter::measure(run).count_total, 0);

    // A total timeout counts from the first poll, so the clock is read once. No sleep is created.
    let timer = CountingTimer::default();
    let search = shared().with_timer(&timer);
    let policy = policy.with_total_timeout(SECOND);
    let run = || {
        let call = std::pin::pin!(hedge(|_| ready(Ok::<_, &str>(1)), &policy, Never).on(&search));
        assert!(matches!(call.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(1))));
    };
    assert_eq!(allocation_counter::measure(run).count_total, 0);
    assert_eq!((timer.reads.into_inner(), timer.sleeps.into_inner()), (1, 0));
}

/// Point 14 of "The behaviour" in `COMPARE.md`.
#[test]
fn nothing_runs_before_the_first_poll() {
    drop(hedge(|_| -> std::future::Ready<Result<(), ()>> { unreachable!() }, &AFTER_50, Never));
}

/// Point 17 of "The behaviour" in `COMPARE.md`: the future holds one attempt, for any number of
/// hedges.
#[test]
fn the_future_holds_one_attempt() {
    async fn large() -> Result<u8, ()> {
        let held = [1_u8; 4096];
        tokio::task::yield_now().await;
        Ok(held[7])
    }
    let future = hedge(|_| large(), &AFTER_50, Never);
    assert!(size_of_val(&future) < size_of_val(&large()) + 512, "{}", size_of_val(&future));
}

#[test]
fn a_hedge_is_send_if_its_parts_are() {
    fn is_send<T: Send>(_: &T) {}
    let name = String::from("borrowed");
    is_send(&hedge(|_| async { Ok::<_, ()>(name.len()) }, &AFTER_50, Never));
    is_send(&hedge(scripted([(1, Ok(1))]), &AFTER_50, CancellationToken::new()));
}

#[tokio::test(start_paused = true)]
async fn a_learned_delay_follows_the_measured_latency() {
    let search = Upstream::new("search").with_adaptive_timeout(AdaptiveTimeout::new());
    let learned = AFTER_50.with_learned_delay();
    for _ in 0..30 {
        hedge(scripted([(10, Ok(1))]), &learned, Never).on(&search).await.unwrap();
    }
    let delay = search.adaptive_timeout().unwrap().latency().unwrap();
    assert!(delay >= 10 * MS && delay < 13 * MS, "{delay:?}");
    let began = Instant::now();
    assert_eq!(
        hedge(scripted([(500, Ok(1)), (1, Ok(2))]), &learned, Never).on(&search).await.unwrap(),
        2
    );
    assert!(began.elapsed() < 16 * MS);
    // Without the setting in the policy the delay is the policy's own, and no latency is recorded.
    let began = Instant::now();
    assert_eq!(
        hedge(scripted([(500, Ok(1)), (1, Ok(2))]), &AFTER_50, Never).on(&search).await.unwrap(),
        2
    );
    assert_eq!(began.elapsed(), 51 * MS);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "polled after completion")]
async fn polled_after_completion_it_panics() {
    let mut call = std::pin::pin!(hedge(scripted([(0, Ok(1))]), &AFTER_50, Never));
    call.as_mut().await.unwrap();
    let _ = call.await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_leaves_nothing_behind() {
    let search = with_budget(Budget::new().with_capacity(3)).with_bulkhead(Bulkhead::new(2));
    let op = |attempt: Attempt| {
        assert!(attempt.is_first(), "the second attempt panics");
        pending::<Result<(), &str>>()
    };
    let mut call = Box::pin(hedge(op, &AFTER_50, Never).on(&search));
    let caught = std::future::poll_fn(|cx| {
        let polled =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call.as_mut().poll(cx)));
        polled.map_or_else(|panic| Poll::Ready(Err(panic)), |poll| poll.map(Ok))
    })
    .await;
    assert!(caught.is_err());
    drop(call);
    // An attempt begins before its closure is called, as in a retry. From then on its token is
    // spent.
    assert_eq!((available(&search), search.bulkhead().unwrap().in_flight()), (2, 0));
}

/// A call that is dropped at any await drops every attempt. The budget lacks one token for each
/// hedge that started.
#[test]
fn a_call_dropped_at_any_await_leaves_nothing_in_flight() {
    static IN_FLIGHT: AtomicU32 = AtomicU32::new(0);
    struct Held;
    impl Held {
        fn new() -> Self {
            IN_FLIGHT.fetch_add(1, Ordering::Relaxed);
            Self
        }
    }
    impl Drop for Held {
        fn drop(&mut self) {
            IN_FLIGHT.fetch_sub(1, Ordering::Relaxed);
        }
    }
    for polls in 0..8 {
        let (timer, started) = (ManualTimer::new(), Cell::new(0_u32));
        let search = with_budget(Budget::new().with_capacity(10)).with_timer(timer.clone());
        let policy = AFTER_50.with_hedges(4).with_total_timeout(210 * MS);
        let op = |attempt: Attempt| {
            started.set(attempt.number());
            let held = Held::new();
            async move {
                let _held = held;
                pending::<Result<(), &str>>().await
            }
        };
        let mut call = Box::pin(hedge(op, &policy, Never).on(&search));
        for _ in 0..polls {
            if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                break;
            }
            timer.advance(50 * MS);
        }
        drop(call);
        assert_eq!(IN_FLIGHT.load(Ordering::Relaxed), 0);
        assert_eq!(timer.sleepers(), 0);
        assert_eq!(available(&search), 10 - started.get().saturating_sub(1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// The model computes the first accepted outcome by arithmetic alone.
    #[test]
    fn the_first_accepted_outcome_wins(
        delay in 1_u64..60, hedges in 0_u32..4,
        all in prop::collection::vec((1_u64..200, 0_u8..4), 5),
    ) {
        // 0 is a fatal failure, 1 is a failure, and others succeed. All times differ, so there are
        // no ties.
        let moments: Vec<u64> = all.iter().zip(0..).map(|((latency, _), n)| (latency + delay * n) * 10 + n).collect();
        let mut wanted = None;
        let mut begun = 1;
        let mut failed = vec![];
        for moment in 0..20_000 {
            // Attempt `n` ends at a moment of last digit `n`: the first one before this, others after.
            if begun <= u64::from(hedges) && moment == delay * 10 * begun + 1 {
                begun += 1;
            }
            if let Some(n) = moments.iter().position(|&at| at == moment).filter(|&n| (n as u64) < begun) {
                match all[n].1 {
                    0 => wanted = Some(Err((n, StopReason::Fatal))),
                    1 => failed.push(n),
                    _ => wanted = Some(Ok(n)),
                }
                if wanted.is_none() && failed.len() as u64 == begun {
                    wanted = Some(Err((n, StopReason::Attempts)));
                }
            }
            if wanted.is_some() {
                break;
            }
        }
        let got = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
            let policy = HedgePolicy::new().with_delay(Duration::from_millis(delay * 10)).with_hedges(hedges)
                .with_classifier(|(_, fatal): &(usize, bool)| !*fatal);
            let op = |attempt: Attempt| {
                let n = attempt.number() as usize - 1;
                let (latency, kind) = all[n];
                // The attempts are one millisecond apart, as in the model.
                let latency = Duration::from_millis(latency * 10 + n as u64);
                async move {
                    tokio::time::sleep(latency).await;
                    match kind { 0 => Err((n, true)), 1 => Err((n, false)), _ => Ok(n) }
                }
            };
            hedge(op, &policy, Never).await
                .map_err(|gave_up| { let reason = gave_up.reason(); (gave_up.into_last().unwrap().0, reason) })
        });
        prop_assert_eq!(Some(got), wanted);
    }
}

/// A denied hedge is no attempt, so the delay of the next hedge does not start from it.
#[tokio::test(start_paused = true)]
async fn the_delay_of_a_hedge_is_the_time_since_the_previous_attempt() {
    static SEARCH: Upstream = with_budget(Budget::new().with_capacity(1).with_deposit(1.0));
    let budget = SEARCH.budget().unwrap();
    let policy = HedgePolicy::new().with_delay(100 * MS).with_hedges(3);
    let delays = RefCell::new(vec![]);
    assert!(budget.withdraw());
    let op = |attempt: Attempt| {
        delays.borrow_mut().push((attempt.number(), attempt.delay()));
        async move {
            let seconds = if attempt.number() < 3 { 10 } else { 0 };
            tokio::time::sleep(seconds * SECOND).await;
            Ok::<_, &str>(attempt.number())
        }
    };
    let refill = async {
        tokio::time::sleep(150 * MS).await;
        budget.deposit(); // after the hedge at 100 ms was denied
        tokio::time::sleep(100 * MS).await;
        budget.deposit();
        std::future::pending::<()>().await;
    };
    let call = hedge(op, &policy, Never).on(&SEARCH);
    tokio::select! {
        won = call => assert_eq!(won.unwrap(), 3),
        () = refill => unreachable!(),
    }
    assert_eq!(*delays.borrow(), [(1, Duration::ZERO), (2, 200 * MS), (3, 100 * MS)]);
}
