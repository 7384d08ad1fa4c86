//! Single calls and admissions with a token and with timeouts.

use std::cell::Cell;
use std::future::{pending, ready};
use std::time::Duration;

use proptest::prelude::*;
use resile::call::Admission;
use resile::cancel::Cancel;
use resile::classify::{Always, ClassifyExt, Cut};
use resile::quota::{Cost, Rate};
use resile::upstream::{Via, markers};
use resile::{
    AdaptiveTimeout, Breaker, Bulkhead, Cooldown, Drain, GaveUp, Never, Quota, ResilienceExt,
    StopReason, Upstream, Verdict,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

type Answer = Result<u32, &'static str>;

/// The place at which a call is when its token or its deadline ends it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Held,
    Queued,
    InLine,
    InFlight,
}

const PLACES: [Place; 4] = [Place::Held, Place::Queued, Place::InLine, Place::InFlight];
const WAITS: [Place; 3] = [Place::Held, Place::Queued, Place::InLine];
const COST: Cost<'static> = Cost::input(60).with_max_output(0);

/// An upstream at which a call stays at `place`, and what another call occupies there.
struct Scene {
    upstream: &'static Upstream,
    taken: Option<Admission<&'static Upstream>>,
}

impl Scene {
    /// The upstream lives as long as the program, so that a call can be spawned.
    fn new(place: Place) -> Self {
        let quota = Quota::new().with_tokens(Rate::per_minute(60)).with_concurrency(5);
        let upstream = Upstream::new("any")
            .with_cooldown(Cooldown::new().with_jitter(0.0))
            .with_bulkhead(Bulkhead::new(1))
            .with_quota(quota)
            .with_breaker(Breaker::new());
        let upstream: &'static Upstream = Box::leak(Box::new(upstream));
        let mut taken = None;
        match place {
            Place::Held => upstream.hold(MINUTE),
            Place::Queued => taken = Some(upstream.try_admit().unwrap()),
            Place::InLine => upstream.at_cost(COST).try_admit().unwrap().succeeded(),
            Place::InFlight => {}
        }
        Self { upstream, taken }
    }

    /// Checks that the ended call has left nothing behind.
    fn check(self, place: Place) {
        let Self { upstream, taken } = self;
        drop(taken);
        let bulkhead = upstream.bulkhead().unwrap();
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0), "{place:?}");
    }
}

fn cancelled_in(wait: Duration) -> CancellationToken {
    let token = CancellationToken::new();
    let child = token.clone();
    tokio::spawn(async move {
        sleep(wait).await;
        child.cancel();
    });
    token
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_a_single_call_at_every_place() {
    for place in PLACES {
        let (scene, began) = (Scene::new(place), Instant::now());
        let token = cancelled_in(SECOND * 2);
        let call =
            pending::<Answer>().through(scene.upstream.at_cost(COST), Always).with_token(&token);
        let gave_up = call.await.unwrap_err();
        assert_eq!((gave_up.reason(), began.elapsed()), (StopReason::Cancelled, SECOND * 2));
        assert_eq!(gave_up.attempts(), u32::from(place == Place::InFlight), "{place:?}");
        assert_eq!(scene.upstream.snapshot().unwrap().failures, 0, "{place:?}");
        scene.check(place);
    }
}

#[tokio::test(start_paused = true)]
async fn a_total_timeout_ends_a_single_call_at_every_place() {
    for place in PLACES {
        let (scene, began) = (Scene::new(place), Instant::now());
        let call = pending::<Answer>().through(scene.upstream.at_cost(COST), Always);
        let gave_up = call.with_total_timeout(SECOND * 2).await.unwrap_err();
        // A wait that is known to be longer ends the call at once.
        let after = if matches!(place, Place::Held | Place::InLine) { 0 } else { 2 };
        assert_eq!((gave_up.reason(), began.elapsed()), (StopReason::Deadline, SECOND * after));
        let is_known = matches!(place, Place::Held | Place::InLine);
        assert_eq!(gave_up.retry_after().is_some(), is_known, "{place:?}");
        // The attempt ran for the whole time, so the cut counts against the upstream.
        let is_cut = place == Place::InFlight;
        assert_eq!(gave_up.cut(), is_cut.then_some(Cut::Deadline), "{place:?}");
        assert_eq!(scene.upstream.snapshot().unwrap().failures, u64::from(is_cut), "{place:?}");
        scene.check(place);
    }
}

#[tokio::test(start_paused = true)]
async fn an_admission_waits_no_longer_than_it_may() {
    for place in WAITS {
        let (scene, began) = (Scene::new(place), Instant::now());
        let token = cancelled_in(SECOND * 2);
        let gave_up = scene.upstream.at_cost(COST).admit(&token).await.unwrap_err();
        assert_eq!((gave_up.reason(), began.elapsed()), (StopReason::Cancelled, SECOND * 2));

        let began = Instant::now();
        let limited = scene.upstream.at_cost(COST).admit(Never).with_max_wait(SECOND * 2);
        let gave_up = limited.await.unwrap_err();
        let after = if place == Place::Queued { 2 } else { 0 };
        assert_eq!((gave_up.reason(), began.elapsed()), (StopReason::Deadline, SECOND * after));
        scene.check(place);
    }
    // The limit ends with the admission: the attempt may take any time.
    let free = Scene::new(Place::InFlight);
    let admission = free.upstream.admit(Never).with_max_wait(Duration::ZERO).await.unwrap();
    sleep(MINUTE).await;
    admission.succeeded();
    let snapshot = free.upstream.snapshot().unwrap();
    assert_eq!((snapshot.calls, snapshot.failures), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_drained_token_lets_a_single_call_finish() {
    let slow = || async {
        sleep(SECOND * 5).await;
        Answer::Ok(7)
    };
    let scene = Scene::new(Place::InFlight);
    let token = Drain(cancelled_in(SECOND * 2));
    assert_eq!(
        scene.upstream.call(slow(), Always).with_token(&token.0).await.map_err(|it| it.reason()),
        Err(StopReason::Cancelled)
    );
    let token = Drain(cancelled_in(SECOND * 2));
    assert_eq!(scene.upstream.call(slow(), Always).with_token(token).await, Ok(7));
    for place in WAITS {
        let (scene, began) = (Scene::new(place), Instant::now());
        let token = Drain(cancelled_in(SECOND * 2));
        let call = slow().through(scene.upstream.at_cost(COST), Always).with_token(token);
        assert_eq!(call.await.unwrap_err().reason(), StopReason::Cancelled);
        assert_eq!(began.elapsed(), SECOND * 2, "{place:?}");
    }
}

/// The attempt timeout counts from the start of the attempt. The cut is classified and counted.
#[tokio::test(start_paused = true)]
async fn an_attempt_timeout_cuts_classifies_and_counts() {
    let scene = Scene::new(Place::InFlight);
    let booking = Verdict::transient().not_again();
    let careful = || (|_: &&str| Verdict::transient()).cut_is(booking);
    scene.upstream.hold(SECOND * 10);
    let began = Instant::now();
    let call = scene.upstream.call(pending::<Answer>(), careful());
    let gave_up = call.with_attempt_timeout(SECOND * 3).await.unwrap_err();
    assert_eq!(began.elapsed(), SECOND * 13);
    assert_eq!(
        (gave_up.reason(), gave_up.cut(), gave_up.verdict(), gave_up.attempts()),
        (StopReason::Fatal, Some(Cut::AttemptTimeout(SECOND * 3)), Some(booking), 1)
    );
    assert_eq!(scene.upstream.snapshot().unwrap().failures, 1);
    let call = pending::<Answer>().through(scene.upstream.at_cost(COST), Always);
    let gave_up = call
        .with_attempt_timeout(SECOND * 9)
        .with_total_timeout(SECOND)
        .with_attempt_timeout(SECOND * 2)
        .with_total_timeout(SECOND * 4)
        .await
        .unwrap_err();
    assert_eq!(gave_up.cut(), Some(Cut::AttemptTimeout(SECOND * 2)), "the last setting counts");
}

/// A limit that the upstream has learned applies too, if it is shorter.
#[tokio::test(start_paused = true)]
async fn the_shorter_of_the_set_and_the_learned_limit_applies() {
    let upstream = Upstream::new("any").with_adaptive_timeout(AdaptiveTimeout::new());
    for _ in 0..200 {
        let quick = async {
            sleep(Duration::from_millis(10)).await;
            Answer::Ok(1)
        };
        assert_eq!(upstream.call(quick, Always).with_attempt_timeout(MINUTE).await, Ok(1));
    }
    let learned = upstream.adaptive_timeout().unwrap().limit();
    assert!(learned < SECOND * 30, "{learned:?}");
    for (set, limit) in [(MINUTE, learned), (learned / 2, learned / 2)] {
        let began = Instant::now();
        let call = upstream.call(pending::<Answer>(), Always).with_attempt_timeout(set);
        let gave_up = call.await.unwrap_err();
        assert!(matches!(gave_up.cut(), Some(Cut::AttemptTimeout(_))), "{gave_up}");
        assert!(began.elapsed() <= limit + Duration::from_millis(1), "{:?}", began.elapsed());
    }
}

/// A limit of zero allows one poll, and a cancelled token none.
#[tokio::test(start_paused = true)]
async fn the_first_poll_comes_before_the_limits_and_after_the_token() {
    let upstream = Upstream::new("any").with_breaker(Breaker::new());
    let polls = Cell::new(0);
    let op = |is_ready: bool| {
        let polls = &polls;
        std::future::poll_fn(move |_| {
            polls.set(polls.get() + 1);
            if is_ready { std::task::Poll::Ready(Answer::Ok(1)) } else { std::task::Poll::Pending }
        })
    };
    assert_eq!(upstream.call(op(true), Always).with_total_timeout(Duration::ZERO).await, Ok(1));
    assert_eq!(upstream.call(op(true), Always).with_attempt_timeout(Duration::ZERO).await, Ok(1));
    let ended = upstream.call(op(false), Always).with_total_timeout(Duration::ZERO).await;
    assert_eq!(ended.unwrap_err().cut(), Some(Cut::Deadline));
    let ended = upstream.call(op(false), Always).with_attempt_timeout(Duration::ZERO).await;
    assert_eq!(ended.unwrap_err().cut(), Some(Cut::AttemptTimeout(Duration::ZERO)));
    assert_eq!(polls.get(), 4);
    let token = CancellationToken::new();
    token.cancel();
    let ended = upstream.call(op(true), Always).with_token(token).await.unwrap_err();
    assert_eq!((ended.reason(), ended.attempts(), polls.get()), (StopReason::Cancelled, 0, 4));
    assert!(Never.cancelled().is_none());
}

/// The types can be named, and the calls can be spawned.
#[tokio::test(start_paused = true)]
async fn single_calls_have_names_and_can_be_spawned() {
    type Call = resile::call::Call<
        std::future::Ready<Answer>,
        &'static str,
        Always,
        Via<&'static Upstream, markers::Not<markers::ByText>>,
        CancellationToken,
    >;
    let scene = Scene::new(Place::InFlight);
    let call: Call = scene.upstream.call(ready(Ok(7)), Always).with_token(CancellationToken::new());
    assert_eq!(tokio::spawn(call).await.unwrap(), Ok(7));
    let waits: resile::call::Admitting<&'static Upstream> = scene.upstream.admit(Never);
    assert!(tokio::spawn(waits).await.unwrap().is_ok());
}

proptest! {
    /// With a total timeout a call ends by then, whatever its upstream and its operation do. Without
    /// one of the limits it ends as if there were none.
    #[test]
    fn no_call_outlives_its_total_timeout(
        held in 0..9_u64, takes in 0..9_u64, total in prop::option::of(0..9_u64),
        own in prop::option::of(0..9_u64), stops in prop::option::of(0..9_u64),
    ) {
        let [held, takes] = [held, takes].map(Duration::from_secs);
        let [total, own, stops] =
            [total, own, stops].map(|limit| limit.map_or(MINUTE, Duration::from_secs));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (outcome, took) = runtime.block_on(async {
            let upstream = Upstream::new("any")
                .with_cooldown(Cooldown::new().with_jitter(0.0));
            upstream.hold(held);
            let token = cancelled_in(stops);
            let began = Instant::now();
            let op = async {
                sleep(takes).await;
                Answer::Ok(1)
            };
            let call = upstream.call(op, Always).with_token(&token);
            let call = call.with_total_timeout(total).with_attempt_timeout(own);
            let outcome: Result<u32, GaveUp<&str>> = call.await;
            (outcome, began.elapsed())
        });
        prop_assert!(took <= total.min(stops).min(held + own) + Duration::from_millis(1));
        let ends = held + takes;
        if ends < total && ends < stops && takes < own {
            prop_assert_eq!(&outcome, &Ok(1));
        }
        match outcome {
            Ok(_) => prop_assert!(ends <= total && ends <= stops && takes <= own),
            Err(gave_up) => {
                let (is_late, is_cut) = (ends >= total, takes >= own);
                match gave_up.reason() {
                    StopReason::Deadline => prop_assert!(is_late),
                    StopReason::Attempts => prop_assert!(is_cut),
                    StopReason::Cancelled => prop_assert!(ends >= stops),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }
    }
}
