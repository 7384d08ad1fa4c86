//! The postfix form of a single call.

use std::cell::RefCell;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use resile::classify::Always;
use resile::observe::Event;
use resile::quota::{Cost, Rate};
use resile::time::{Seeded, TokioTimer};
use resile::upstream::{Displayed, Observed};
use resile::{
    Backoff, Breaker, Bulkhead, Cooldown, GaveUp, Jitter, Never, Quota, ResilienceExt, StopReason,
    Upstream, Verdict,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// What one call of a script does, and what its caller has set.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The time of the attempt in tenths of a second. 0 is ready at once, and 20 never ends.
    takes: u32,
    outcome: Result<u32, Word>,
    total: Option<u32>,
    attempt: Option<u32>,
    cancelled_after: Option<u32>,
    dropped_after: Option<u32>,
    /// The time until the next call.
    pause: u32,
}

type Word = &'static str;

fn classify(word: &Word) -> Option<Verdict> {
    match *word {
        "busy" => Some(Verdict::throttled().after(SECOND / 2)),
        "down" => Some(Verdict::transient()),
        "wrong" => Some(Verdict::fatal()),
        _ => None,
    }
}

const fn tenths(count: u32) -> Duration {
    Duration::from_millis(100 * count as u64)
}

type Store = Upstream<Seeded<TokioTimer>>;

fn store() -> Store {
    let open = Backoff::fixed(SECOND * 2).with_jitter(Jitter::None);
    Upstream::new("store")
        .with_breaker(Breaker::new().with_consecutive(2).with_open_time(open))
        .with_bulkhead(Bulkhead::new(1).with_queue(1))
        .with_cooldown(Cooldown::new())
        .with_quota(Quota::new().with_requests(Rate::per_second(4)))
        .with_timer(TokioTimer::new())
        .with_seed(7)
}

/// The end of a call: its answer, or the error with all of its facts.
fn facts(outcome: Result<Result<u32, GaveUp<Word>>, tokio::time::error::Elapsed>) -> String {
    match outcome {
        Err(_) => "dropped".to_owned(),
        Ok(Ok(value)) => value.to_string(),
        Ok(Err(gave_up)) => format!("{gave_up:?}: {gave_up}"),
    }
}

async fn attempt(step: Step) -> Result<u32, Word> {
    match step.takes {
        0 => {}
        20 => pending().await,
        takes => sleep(tenths(takes)).await,
    }
    step.outcome
}

/// Plays the script and returns all that a caller, an observer and the operator can see.
macro_rules! play {
    ($script:expr, |$store:ident, $target:ident, $future:ident| $call:expr) => {{
        let script: &[Step] = $script;
        let $store = &store();
        let seen = Mutex::new(Vec::new());
        let observer = |event: &Event<'_>| seen.lock().unwrap().push(event.to_string());
        let observer = &observer;
        let ends = RefCell::new(Vec::new());
        let calls = script.iter().enumerate().map(|(n, step)| {
            let (step, ends) = (*step, &ends);
            let starts: u32 = script[..n].iter().map(|step| step.pause).sum();
            async move {
                sleep(tenths(starts)).await;
                let token = CancellationToken::new();
                let $target = Observed::new($store, observer);
                let $future = attempt(step);
                let call = $call.with_token(&token);
                let call = match step.total {
                    Some(total) => call.with_total_timeout(tenths(total)),
                    None => call,
                };
                let call = match step.attempt {
                    Some(limit) => call.with_attempt_timeout(tenths(limit)),
                    None => call,
                };
                let dropped = step.dropped_after.map_or(SECOND * 60, tenths);
                let cancel = async {
                    match step.cancelled_after {
                        Some(after) => sleep(tenths(after)).await,
                        None => pending().await,
                    }
                    token.cancel();
                    pending::<()>().await
                };
                let outcome = tokio::select! {
                    biased;
                    () = cancel => unreachable!(),
                    outcome = timeout(dropped, call) => outcome,
                };
                ends.borrow_mut().push((n, facts(outcome)));
            }
        });
        let began = Instant::now();
        futures_util::future::join_all(calls).await;
        let bulkhead = $store.bulkhead().unwrap();
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
        let left = format!("{:?} {:?}", $store.snapshot(), $store.held());
        let events = seen.lock().unwrap().clone();
        (ends.into_inner(), events, left, began.elapsed())
    }};
}

prop_compose! {
    fn steps()(
        takes in prop_oneof![Just(0_u32), 1..12_u32, Just(20)],
        outcome in prop::sample::select(vec![Ok(7), Err("busy"), Err("down"), Err("wrong"), Err("odd")]),
        total in prop::option::of(0..15_u32), attempt in prop::option::of(0..9_u32),
        cancelled_after in prop::option::weighted(0.2, 0..9_u32),
        dropped_after in prop::option::weighted(0.2, 0..9_u32), pause in 0..8_u32,
    ) -> Step {
        Step { takes, outcome, total, attempt, cancelled_after, dropped_after, pause }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The postfix form has the same admissions, reports, events and errors as `Upstream::call`.
    #[test]
    fn the_postfix_form_is_the_call(script in prop::collection::vec(steps(), 1..12)) {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let prefix = runtime().block_on(async {
            play!(&script, |store, target, future| {
                // `Upstream::call` has no observer for one call, so the store's own one looks on.
                let _ = target;
                store.call(future, classify)
            })
        });
        let plain = runtime().block_on(async {
            play!(&script, |store, target, future| { let _ = target; future.through(store, classify) })
        });
        prop_assert_eq!(&prefix, &plain);
        let observed = runtime().block_on(async {
            play!(&script, |store, target, future| future.through(target, classify))
        });
        prop_assert_eq!((&prefix.0, &prefix.2, prefix.3), (&observed.0, &observed.2, observed.3));
        prop_assert!(!observed.1.is_empty(), "the observer sees the calls");
    }
}

/// An error without a source.
struct Plain;

impl std::fmt::Display for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("plain")
    }
}

/// Each target of a call is a target of the postfix form.
#[tokio::test(start_paused = true)]
async fn every_target_takes_a_future() {
    static MODEL: Upstream =
        Upstream::new("model").with_quota(Quota::new().with_tokens(Rate::per_minute(60)));
    let answer = || ready(Ok::<_, Word>(7));
    assert_eq!(answer().through(&MODEL, Always).await, Ok(7));
    assert_eq!(answer().through(MODEL.at_cost(Cost::input(60)), Always).await, Ok(7));
    let large = answer().through(MODEL.at_cost(Cost::input(61)), Always);
    assert_eq!(large.await.unwrap_err().reason(), StopReason::TooLarge);

    let owned = Arc::new(Upstream::new("owned").with_bulkhead(Bulkhead::new(0)));
    let refused = answer().through(Arc::clone(&owned), Always).with_token(Never);
    let gave_up = tokio::spawn(refused).await.unwrap().unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.upstream()), (StopReason::Full, Some("owned")));

    assert_eq!(answer().through("a name", Always).await, Ok(7));
    let fails = ready(Err::<u32, _>(Plain)).through(Displayed::new(&MODEL), Always);
    let words = fails.await.map_err(|gave_up| format!("{gave_up:#}")).unwrap_err();
    assert_eq!(words, "model: gave up after 1 attempt: plain");
}

/// An adapter covers everything to its left.
#[tokio::test(start_paused = true)]
async fn a_limit_to_the_left_is_a_failure_and_one_to_the_right_is_none() {
    let store = Upstream::new("store").with_breaker(Breaker::new());
    let hangs = || pending::<std::io::Result<()>>();
    let failed = hangs().timeout(SECOND).through(&store, Always).await.unwrap_err();
    assert_eq!(failed.reason(), StopReason::Attempts);
    assert_eq!(store.snapshot().unwrap().failures, 1);

    let call = async { hangs().through(&store, Always).await.map_err(GaveUp::into_last) };
    assert!(timeout(SECOND, call).await.is_err());
    assert_eq!(store.snapshot().unwrap().failures, 1, "a dropped call counts for nothing");
}
