//! `resile::fallback`: the alternatives run in order, under one deadline and one token.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, Ready, pending, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::fallback::Alternative;
use resile::observe::{Event, EventKind};
use resile::time::{ManualTimer, Timer};
use resile::{
    FallbackPolicy, GaveUp, Never, RetryPolicy, StopReason, Upstream, Verdict, fallback, retry,
};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The behaviour of one alternative: after some seconds it succeeds, or fails with this verdict.
#[derive(Clone, Copy, Debug)]
struct Does {
    takes: u32,
    ends: Result<u8, Option<Verdict>>,
}

/// An error that is its own verdict, if it has one.
#[derive(Clone, Copy, Debug)]
struct Fails(Option<Verdict>);

impl fmt::Display for Fails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

async fn does(it: &Does, timer: &ManualTimer) -> Result<u8, Fails> {
    if it.takes > 0 {
        timer.sleep(SECOND * it.takes).await;
    }
    it.ends.map_err(Fails)
}

fn verdict_of(fails: &Fails) -> Option<Verdict> {
    fails.0
}

/// Polls a call on its own clock until it ends.
fn drive<F: Future>(timer: &ManualTimer, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
        timer.advance(timer.until_next().expect("the call waits for the clock"));
    }
}

/// Creates an upstream on this clock.
fn models<M: Timer>(timer: M) -> Upstream<M> {
    Upstream::new("models").with_timer(timer)
}

#[test]
fn nothing_runs_before_the_first_poll() {
    let calls = AtomicU32::new(0);
    let op = |it: Alternative<'_, u8>| {
        calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok::<_, Option<Verdict>>(*it.value()))
    };
    let policy = FallbackPolicy::new();
    let mut call = pin!(fallback(&[7, 8], op, &policy, Never));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(7))));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn an_instant_success_reads_no_clock_and_allocates_nothing() {
    struct NoClock;
    impl Timer for NoClock {
        type Sleep = std::future::Pending<()>;
        fn now(&self) -> Duration {
            panic!("the clock was read")
        }
        fn sleep(&self, _: Duration) -> Self::Sleep {
            panic!("a sleep was created")
        }
    }
    let policy = FallbackPolicy::new();
    let models = models(NoClock);
    let counted = allocation_counter::measure(|| {
        let op = |it: Alternative<'_, u8>| ready(Ok::<_, &str>(*it.value()));
        assert!(matches!(
            poll(pin!(fallback(&[7], op, &policy, Never).on(&models))),
            Poll::Ready(Ok(7))
        ));
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn a_fallback_without_alternatives_ends_at_once() {
    let policy = FallbackPolicy::new();
    let op = |_: Alternative<'_, u8>| pending::<Result<(), ()>>();
    let Poll::Ready(Err(none)) = poll(pin!(fallback(&[], op, &policy, Never))) else {
        panic!("the call must end at once")
    };
    assert_eq!(
        (none.reason(), none.attempts(), none.last()),
        (StopReason::Alternatives, 0, None::<&()>)
    );
    assert_eq!(none.to_string(), "gave up after 0 alternatives");
}

#[test]
fn the_observer_learns_which_alternative_succeeded() {
    let events = RefCell::new(Vec::new());
    let observer = |event: &Event<'_>| events.borrow_mut().push(event.to_string());
    let models = models(ManualTimer::new());
    let policy = FallbackPolicy::new();
    let op =
        |it: Alternative<'_, u8>| ready(if it.is_last() { Ok(*it.value()) } else { Err("down") });
    let call = fallback(&[1, 2], op, &policy, Never).on(models.observed_by(&observer));
    assert!(matches!(poll(pin!(call)), Poll::Ready(Ok(2))));
    let expected = [
        "models: alternative 1 of 2 starts",
        "models: alternative 1 of 2 failed: down",
        "models: alternative 1 of 2 failed, trying the next: down",
        "models: alternative 2 of 2 starts",
        "models: alternative 2 of 2 succeeded",
    ];
    assert_eq!(*events.borrow(), expected);
}

#[test]
fn the_token_ends_the_alternative_in_flight_and_starts_no_other() {
    let policy = FallbackPolicy::new();
    let token = CancellationToken::new();
    let calls = AtomicU32::new(0);
    let op = |it: Alternative<'_, u8>| {
        calls.fetch_add(1, Ordering::Relaxed);
        let index = it.index();
        async move { if index == 0 { Err("first") } else { pending::<Result<(), _>>().await } }
    };
    let timer = ManualTimer::new();
    let models = models(&timer);
    let mut call = pin!(fallback(&[1, 2, 3], op, &policy, &token).on(&models));
    assert!(poll(call.as_mut()).is_pending());
    token.cancel();
    let Poll::Ready(Err(none)) = poll(call.as_mut()) else { panic!("the call was cancelled") };
    assert_eq!(
        (none.reason(), none.attempts(), none.into_last()),
        (StopReason::Cancelled, 2, Some("first"))
    );

    let Poll::Ready(Err(none)) = poll(pin!(fallback(&[1], op, &policy, &token))) else {
        panic!("the call was cancelled")
    };
    assert_eq!(
        (none.reason(), none.attempts(), calls.load(Ordering::Relaxed)),
        (StopReason::Cancelled, 0, 2)
    );
}

#[test]
fn every_alternative_gets_an_equal_share_of_the_time() {
    let timer = ManualTimer::new();
    let policy = FallbackPolicy::new().with_total_timeout(30 * SECOND);
    let shares = RefCell::new(Vec::new());
    let op = |it: Alternative<'_, u8>| {
        let share = it.share();
        assert_eq!(share * [3, 2, 1][it.index()], it.remaining());
        shares.borrow_mut().push(share);
        let sleep = timer.sleep(share);
        async move {
            sleep.await;
            Err::<(), _>("hung")
        }
    };
    let none =
        drive(&timer, fallback(&[1, 2, 3], op, &policy, Never).on(&models(&timer))).unwrap_err();
    assert_eq!(*shares.borrow(), [10 * SECOND; 3]);
    // The last alternative ends at the deadline itself. Its ready result takes precedence over the
    // deadline.
    assert_eq!(
        (none.reason(), none.attempts(), none.elapsed()),
        (StopReason::Alternatives, 3, 30 * SECOND)
    );
}

/// Without a total timeout the share is so long that a call with it ends as one without a limit.
#[tokio::test(start_paused = true)]
async fn without_a_total_timeout_the_share_is_no_limit() {
    let limits = RefCell::new(Vec::new());
    let year = SECOND * 60 * 60 * 24 * 365;
    let op = |it: Alternative<'_, u8>| {
        limits.borrow_mut().extend([it.share(), it.remaining()]);
        let policy = RetryPolicy::new()
            .with_attempts(2)
            .with_total_timeout(it.share())
            .with_attempt_timeout(it.remaining());
        let ask = move |_| async move {
            tokio::time::sleep(year).await;
            Err::<(), _>("down")
        };
        retry(ask, policy, Never)
    };
    let policy = FallbackPolicy::new().with_classifier(|_: &GaveUp<&str>| true);
    let call = fallback(&[1, 2], op, policy, Never).await.unwrap_err();
    assert_eq!(*limits.borrow(), [Duration::MAX; 4]);
    // Both attempts of the last alternative took their year, and no limit cut one.
    let last = call.into_last().unwrap();
    assert_eq!((last.reason(), last.attempts(), last.cut()), (StopReason::Attempts, 2, None));
    assert!(last.elapsed() >= 2 * year, "{:?}", last.elapsed());
}

/// A call that is dropped at any await drops its alternative and leaves no sleeper.
#[test]
fn a_call_dropped_at_any_await_leaves_no_sleeper() {
    for polls in 0..6 {
        let timer = ManualTimer::new();
        let policy =
            FallbackPolicy::new().with_total_timeout(100 * SECOND).with_classifier(verdict_of);
        let alternatives = [Does { takes: 1, ends: Err(Some(Verdict::transient())) }; 4];
        {
            let op = |it: Alternative<'_, Does>| {
                let (does_it, timer) = (*it.value(), timer.clone());
                async move { does(&does_it, &timer).await }
            };
            let models = models(&timer);
            let mut call = pin!(fallback(&alternatives, op, &policy, Never).on(models.display()));
            for n in 0..polls {
                assert_eq!(poll(call.as_mut()).is_ready(), n == 4, "poll {n}");
                if n == 4 {
                    break;
                }
                timer.advance(SECOND);
            }
        }
        assert_eq!(timer.sleepers(), 0, "after {polls} polls");
    }
}

/// The call can be spawned, with an owned policy and a retry in each alternative.
#[tokio::test(start_paused = true)]
async fn a_fallback_over_retries_can_be_spawned() {
    static MODELS: [&str; 3] = ["large", "medium", "small"];
    static RETRY: RetryPolicy = RetryPolicy::new();
    static POLICY: FallbackPolicy =
        FallbackPolicy::new().with_total_timeout(Duration::from_secs(60));
    static ASKED: AtomicU32 = AtomicU32::new(0);
    fn ask(model: &str) -> Ready<Result<&str, &'static str>> {
        ASKED.fetch_add(1, Ordering::Relaxed);
        ready(if model == "small" { Ok(model) } else { Err("overloaded") })
    }
    let policy =
        POLICY.with_classifier(|gave_up: &GaveUp<&str>| gave_up.reason() == StopReason::Attempts);
    let task = async move {
        fallback(&MODELS, |it| retry(move |_| ask(it.value()), &RETRY, Never), &policy, Never).await
    };
    assert_eq!(tokio::spawn(task).await.unwrap().unwrap(), "small");
    assert_eq!(ASKED.load(Ordering::Relaxed), 3 + 3 + 1);
}

fn alternative() -> impl Strategy<Value = Does> {
    let ends = prop_oneof![
        1 => any::<u8>().prop_map(Ok),
        4 => Just(Err(Some(Verdict::transient()))),
        1 => Just(Err(Some(Verdict::throttled().after(SECOND)))),
        1 => Just(Err(Some(Verdict::fatal()))),
        1 => Just(Err(None)),
    ];
    (0..5_u32, ends).prop_map(|(takes, ends)| Does { takes, ends })
}

proptest! {
    /// The model is a loop over the alternatives that counts seconds.
    #[test]
    fn alternatives_run_in_order_until_the_verdict_or_the_deadline_stops_them(
        alternatives in prop::collection::vec(alternative(), 0..6),
        deadline in prop::option::of(1..12_u32),
    ) {
        let mut policy = FallbackPolicy::new().with_classifier(verdict_of);
        if let Some(limit) = deadline {
            policy = policy.with_total_timeout(SECOND * limit);
        }
        let (mut clock, mut tried, mut last) = (0, 0, None);
        let mut outcome = Err(StopReason::Alternatives);
        for it in &alternatives {
            if tried > 0 && deadline.is_some_and(|limit| clock >= limit) {
                outcome = Err(StopReason::Deadline);
                break;
            }
            tried += 1;
            clock += it.takes;
            if let Some(limit) = deadline.filter(|&limit| it.takes > 0 && clock > limit) {
                (clock, outcome) = (limit, Err(StopReason::Deadline));
                break;
            }
            match it.ends {
                Ok(answer) => {
                    outcome = Ok(answer);
                    break;
                }
                Err(error) => {
                    last = Some(error);
                    if !error.is_some_and(|verdict| verdict.is_again()) {
                        outcome = Err(error.map_or(StopReason::Unclassified, |_| StopReason::Fatal));
                        break;
                    }
                }
            }
        }

        let timer = ManualTimer::new();
        let events = RefCell::new((0, 0, 0));
        let observer = |event: &Event<'_>| {
            let mut events = events.borrow_mut();
            match event.kind {
                EventKind::Started { attempt, .. } => {
                    events.0 += 1;
                    assert_eq!(attempt.number(), events.0);
                }
                EventKind::Failed { attempt, .. } => {
                    assert_eq!(attempt.number(), events.0);
                    events.1 += 1;
                }
                EventKind::Waiting { attempt, delay, .. } => {
                    assert_eq!((attempt.number(), events.1, delay), (events.0, events.0, Duration::ZERO));
                }
                EventKind::Succeeded { .. } | EventKind::GaveUp { .. } => events.2 += 1,
                other => panic!("{other:?}"),
            }
        };
        let op = |it: Alternative<'_, Does>| {
            let (it, timer) = (*it.value(), timer.clone());
            async move { does(&it, &timer).await }
        };
        let models = models(&timer);
        let call = fallback(&alternatives, op, &policy, Never).on(models.display().observed_by(&observer));
        let got = drive(&timer, call);
        prop_assert_eq!(timer.now(), SECOND * clock);
        prop_assert_eq!(got.as_ref().map_err(GaveUp::reason).copied(), outcome);
        if let Err(none) = got {
            prop_assert_eq!((none.attempts(), none.elapsed()), (tried, SECOND * clock));
            prop_assert_eq!(none.into_last().map(|fails| fails.0), last);
        }
        let (begun, failed, ends) = events.into_inner();
        prop_assert_eq!((begun, ends), (tried, 1));
        prop_assert!(failed == begun || failed + 1 == begun);
    }
}
