//! The total timeout of a call.
//!
//! Tests named `trap_03_…` stand for point 3 of the section "The behaviour" in `COMPARE.md`.

use std::time::Duration;

use proptest::prelude::*;
use resile::time::{ManualTimer, Timer};
use resile::{Backoff, Budget, Jitter, Never, RetryPolicy, Run, StopReason, retry};

use super::script::{Down, Script, Step, clock, drive, poll, upstream};

const SECOND: Duration = Duration::from_secs(1);
const STEADY: RetryPolicy = RetryPolicy::new()
    .with_attempts(u32::MAX)
    .with_backoff(Backoff::fixed(Duration::from_secs(4)).with_jitter(Jitter::None));

#[test]
fn trap_03_a_delay_that_does_not_fit_is_not_slept() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let upstream = upstream(&timer).with_budget(Budget::new().with_capacity(100));
    let policy = STEADY.with_total_timeout(SECOND * 10);
    let gave_up =
        drive(retry(|_| script.play(), &policy, Never).on(&upstream), &timer).unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.last()),
        (StopReason::Deadline, 3, Some(&Down(3)))
    );
    assert_eq!(
        (gave_up.elapsed(), timer.now()),
        (SECOND * 8, SECOND * 8),
        "the call does not sleep the last four seconds"
    );
    assert_eq!(upstream.budget().unwrap().available(), 98, "only two retries spent a token");
}

#[test]
fn trap_03_the_remaining_time_is_read_after_the_sleep() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let upstream = upstream(&timer).with_budget(Budget::new().with_capacity(100));
    let policy = STEADY.with_total_timeout(SECOND * 10);
    let left = std::cell::Cell::new(None);
    let op = |attempt: resile::Attempt| {
        left.set(attempt.remaining());
        script.play()
    };
    let mut call = Box::pin(retry(op, &policy, Never).on(&upstream));
    assert!(poll(call.as_mut()).is_pending());
    timer.advance(SECOND * 5); // a second late
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!((script.starts(), left.get()), (2, Some(SECOND * 5)));
    timer.advance(SECOND * 5); // so late that nothing is left
    let gave_up = match poll(call.as_mut()) {
        std::task::Poll::Ready(outcome) => outcome.unwrap_err(),
        std::task::Poll::Pending => panic!("still waiting"),
    };
    assert_eq!(
        (gave_up.reason(), script.starts(), gave_up.last()),
        (StopReason::Deadline, 2, Some(&Down(2)))
    );
    assert_eq!(
        upstream.budget().unwrap().available(),
        99,
        "the third attempt did not begin, so its token returned"
    );
}

#[test]
fn trap_03_the_deadline_cuts_an_attempt_in_flight_and_keeps_the_last_error() {
    let (script, timer) = (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new());
    let policy = STEADY.with_total_timeout(SECOND * 10);
    let gave_up =
        drive(retry(|_| script.play(), &policy, Never).on(clock(&timer)), &timer).unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), gave_up.last()),
        (StopReason::Deadline, 2, Some(&Down(1)))
    );
    assert_eq!((timer.now(), script.drops()), (SECOND * 10, 2));
}

#[test]
fn a_ready_result_takes_precedence_over_the_deadline() {
    for (step, outcome) in
        [(Step::Pend(1, true), Ok(1)), (Step::Pend(1, false), Err(StopReason::Fatal))]
    {
        let steps = Box::leak(Box::new([step]));
        let (script, timer) = (Script::new(steps), ManualTimer::new());
        let policy =
            RetryPolicy::new().with_total_timeout(SECOND).with_classifier(|_: &Down| false);
        let mut call = Box::pin(retry(|_| script.play(), &policy, Never).on(clock(&timer)));
        assert!(poll(call.as_mut()).is_pending());
        timer.advance(SECOND * 2);
        assert_eq!(
            poll(call.as_mut()).map_err(|gave_up| gave_up.reason()),
            std::task::Poll::Ready(outcome)
        );
    }
}

/// tokio rounds a sleep up to its next millisecond. A total timeout of zero must not become a
/// millisecond.
#[tokio::test(start_paused = true)]
async fn a_total_timeout_of_zero_gives_one_poll() {
    tokio::time::advance(Duration::from_micros(100)).await;
    let (script, policy) = (
        Script::new(&[Step::Pend(1, true)]),
        RetryPolicy::new().with_total_timeout(Duration::ZERO),
    );
    let gave_up = retry(|_| script.play(), &policy, Never).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), script.polls()),
        (StopReason::Deadline, 1, 1)
    );
    let words = "gave up after 1 attempt (last failure: did not finish at the first poll, and the \
                 total timeout is 0 (`with_total_timeout`))";
    assert_eq!(gave_up.to_string(), words);
    for (backoff, words) in [
        (SECOND, "the next attempt would start in 1.0s, but the limit on the call is 0"),
        (Duration::ZERO, "the limit on the call is 0, so no time is left for the next attempt"),
    ] {
        let script = Script::new(&[Step::Fail]);
        let policy = policy.with_backoff(Backoff::fixed(backoff).with_jitter(Jitter::None));
        let gave_up = retry(|_| script.play(), &policy, Never).await.unwrap_err();
        assert_eq!(gave_up.to_string(), format!("gave up after 1 attempt, {words}"));
    }

    let (script, mut run) = (Script::new(&[Step::Pend(1, true)]), Run::new(&policy, Never));
    let gave_up = run.attempt(script.play()).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts(), script.polls()),
        (StopReason::Deadline, 1, 1)
    );

    let script = Script::new(&[Step::Succeed]);
    assert_eq!(
        retry(|_| script.play(), &policy, Never).await.unwrap(),
        1,
        "an attempt that is ready at its first poll succeeds"
    );
}

/// The deadline of a handler may have passed before its call. Then one poll might send an order that nobody awaits.
#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_has_no_time_left_makes_no_attempt() {
    use futures_util::StreamExt;
    use resile::{GaveUp, io, retry_stream};

    let order = RetryPolicy::new()
        .with_attempt_timeout(SECOND)
        .with_classifier(io::Classifier::non_idempotent())
        .shortened_to(Duration::ZERO);
    let begun = std::cell::Cell::new(0);
    let send = || {
        begun.set(begun.get() + 1);
        std::future::ready(std::io::Result::Ok(1))
    };
    let ends = |kind: &str, gave_up: GaveUp<std::io::Error>| {
        let seen = (gave_up.reason(), gave_up.attempts(), begun.get());
        assert_eq!(seen, (StopReason::Deadline, 0, 0), "{kind}");
        assert!(gave_up.is_without_effect() && !gave_up.is_in_doubt(), "{kind}");
        assert!(gave_up.verdict().is_some_and(|it| it.is_not_sent()), "{kind}");
        let words = ", the limit on the call is 0, so no time is left for the next attempt";
        assert!(gave_up.to_string().ends_with(words), "{kind}: {gave_up}");
    };
    let shop = resile::Upstream::new("shop").with_budget(Budget::new());

    ends("retry", retry(|_| send(), &order, Never).await.unwrap_err());
    ends("on a name", retry(|_| send(), &order, Never).on("shop").await.unwrap_err());
    ends("on an upstream", retry(|_| send(), &order, Never).on(&shop).await.unwrap_err());
    let mut run = Run::new(&order, Never).on(&shop);
    ends("a run", run.attempt(async { send().await }).await.unwrap_err());
    let mut run = Run::<std::io::Error, _, _>::new(&order, Never).on(&shop);
    ends("next of a run", run.next().await.unwrap_err());
    let timer = ManualTimer::new();
    let mut run = Run::<std::io::Error, _, _>::new(&order, Never).on(clock(&timer));
    ends("a run that blocks", run.blocking_next().unwrap_err());
    let open = |_| async { Ok::<_, std::io::Error>(futures_util::stream::iter([send().await])) };
    let mut stream = Box::pin(retry_stream(open, &order, Never).on(&shop));
    ends("a stream", stream.next().await.unwrap().unwrap_err());
    let set = order.with_total_timeout(SECOND);
    let stream = retry_stream(open, set, Never).on(&shop).shortened_to(Duration::ZERO);
    ends("a whole stream", std::pin::pin!(stream).next().await.unwrap().unwrap_err());
    let call = shop.call(async { send().await }, *order.classifier());
    ends("a single call", call.shortened_to(Duration::ZERO).await.unwrap_err());

    // A limit of the program is a setting, and like that of tokio it gives one poll.
    let set = order.with_total_timeout(Duration::ZERO);
    assert_eq!(retry(|_| send(), set, Never).await.unwrap(), 1);
}

/// An operation may use up its task's coop budget in each poll, like a reader of an always full
/// channel. The deadline still cuts it.
#[tokio::test(start_paused = true)]
async fn the_deadline_cuts_an_operation_that_uses_up_the_coop_budget() {
    let clock = tokio::spawn(async {
        loop {
            tokio::time::advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
    });
    let busy = |_: resile::Attempt| async {
        for _ in 0..1_000_000 {
            tokio::task::coop::consume_budget().await;
        }
        Ok::<_, Down>(())
    };
    let policy = RetryPolicy::new().with_total_timeout(SECOND);
    let gave_up = retry(busy, &policy, Never).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Deadline, 1));
    let gave_up =
        Run::new(&policy, Never).attempt(busy(resile::Attempt::new(1))).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Deadline, 1));
    clock.abort();
}

#[test]
fn the_remaining_time_counts_from_the_first_poll() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let (policy, seen) =
        (STEADY.with_total_timeout(SECOND * 10), std::cell::RefCell::new(Vec::new()));
    let op = |attempt: resile::Attempt| {
        seen.borrow_mut()
            .push((attempt.elapsed().as_secs(), attempt.remaining().unwrap().as_secs()));
        script.play()
    };
    let call = retry(op, &policy, Never).on(clock(&timer));
    timer.advance(SECOND * 100);
    drive(call, &timer).unwrap_err();
    assert_eq!(*seen.borrow(), [(0, 10), (4, 6), (8, 2)]);
}

/// Runs a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

proptest! {
    /// An operation knows at its start when it will be cut, by whichever limit.
    #[test]
    fn an_attempt_that_hangs_is_cut_after_its_time_left(
        total in prop::option::of(1_u64..20_000_000_000),
        own in prop::option::of(1_u64..20_000_000_000),
        hedges in any::<bool>(),
    ) {
        prop_assume!(total.is_some() || own.is_some());
        let (timer, seen) = (ManualTimer::new(), std::cell::RefCell::new(Vec::new()));
        let op = |attempt: resile::Attempt| {
            seen.borrow_mut().push((timer.now(), attempt.time_left(), attempt.remaining()));
            let (timer, seen, index) = (&timer, &seen, seen.borrow().len() - 1);
            let dropped = OnDrop(move || {
                let (began, left, _) = seen.borrow()[index];
                assert_eq!(timer.now().checked_sub(began), left);
            });
            async move {
                let _dropped = dropped;
                std::future::pending::<Result<(), Down>>().await
            }
        };
        let (total, own) = (total.map(Duration::from_nanos), own.map(Duration::from_nanos));
        if hedges {
            let policy = resile::HedgePolicy::new().with_classifier(resile::classify::Always);
            let policy = total.map_or(policy, |total| policy.with_total_timeout(total));
            let policy = own.map_or(policy, |own| policy.with_attempt_timeout(own));
            drive(resile::hedge(op, &policy, Never).on(clock(&timer)), &timer).unwrap_err();
        } else {
            let policy = STEADY.with_attempts(3).with_classifier(resile::classify::Always);
            let policy = total.map_or(policy, |total| policy.with_total_timeout(total));
            let policy = own.map_or(policy, |own| policy.with_attempt_timeout(own));
            drive(retry(op, &policy, Never).on(clock(&timer)), &timer).unwrap_err();
        }
        for (_, left, remaining) in seen.borrow().iter().copied() {
            prop_assert_eq!(left, own.into_iter().chain(remaining).min());
        }
    }

    /// A call ends within its total timeout, for any backoff and any number of hanging attempts.
    #[test]
    fn no_call_outlives_its_deadline(backoff in super::backoff::backoffs(), limit in 0_u64..100_000_000_000, hang in 0_usize..6) {
        const STEPS: [Step; 7] = [Step::Fail, Step::Fail, Step::Fail, Step::Fail, Step::Fail, Step::Fail, Step::Hang];
        let (script, timer, limit) = (Script::new(&STEPS[hang..]), ManualTimer::new(), Duration::from_nanos(limit));
        let policy = RetryPolicy::new().with_attempts(u32::MAX).with_backoff(backoff).with_total_timeout(limit);
        let gave_up = drive(retry(|_| script.play(), &policy, Never).on(clock(&timer)), &timer).unwrap_err();
        prop_assert_eq!(gave_up.reason(), StopReason::Deadline);
        prop_assert!(timer.now() <= limit);
        prop_assert_eq!(gave_up.elapsed(), timer.now());
        prop_assert_eq!((script.starts(), script.drops()), (gave_up.attempts(), gave_up.attempts()));
    }
}

/// A caller in a hurry does not open the breaker for the others: its deadline is not a limit of the
/// policy. Attempts that had a fair time count, whoever ends the call.
#[test]
fn a_deadline_of_the_caller_counts_only_after_half_of_the_time_of_the_policy() {
    use resile::Breaker;
    use resile::breaker::State;
    use resile::classify::Always;

    let own = STEADY.with_total_timeout(SECOND * 5).with_attempt_timeout(SECOND);
    for (policy, left, counts) in [
        (own, SECOND / 50, false),
        (own, SECOND / 2, true),
        (own.with_attempt_timeout(SECOND * 60), SECOND * 2, false),
        (own.with_attempt_timeout(SECOND * 60), SECOND * 3, true),
        (STEADY.with_total_timeout(SECOND * 5), SECOND * 2, false),
        (STEADY.with_total_timeout(SECOND * 5), SECOND * 4, true),
        (STEADY, SECOND * 3600, false),
        // The policy is the shorter one.
        (own.with_total_timeout(SECOND / 50), SECOND / 20, true),
    ] {
        let timer = ManualTimer::new();
        let upstream = upstream(&timer).with_breaker(Breaker::new().with_consecutive(1));
        let state = if counts { State::Open } else { State::Closed };
        let script = Script::new(&[Step::Hang]);
        let policy = policy.shortened_to(left);
        let gave_up = drive(retry(|_| script.play(), policy, Never).on(&upstream), &timer);
        let gave_up = gave_up.unwrap_err();
        assert_eq!(gave_up.reason(), StopReason::Deadline);
        assert_eq!(gave_up.elapsed(), policy.total_timeout().unwrap());
        assert_eq!(upstream.breaker().unwrap().state(), state, "a retry with {left:?} left");

        // A single attempt with the same limits.
        let upstream = upstream.with_breaker(Breaker::new().with_consecutive(1));
        let script = Script::new(&[Step::Hang]);
        let mut call = upstream.call(script.play(), Always).with_total_timeout(SECOND * 5);
        call = call.with_attempt_timeout(SECOND).shortened_to(left.min(SECOND / 2));
        drive(call, &timer).unwrap_err();
        let state = if left < SECOND / 2 { State::Closed } else { State::Open };
        assert_eq!(upstream.breaker().unwrap().state(), state, "a call with {left:?} left");
    }
}

/// An attempt that is cut by the deadline counts as a failure only if it ran long enough: at least
/// half of the shorter of the two timeouts.
#[test]
fn an_attempt_cut_by_the_deadline_counts_if_it_ran_long_enough() {
    use resile::breaker::State;
    use resile::classify::Cut;
    use resile::observe::{Event, EventKind};
    use resile::{Breaker, Drain, Health, Verdict};
    use tokio_util::sync::CancellationToken;

    let total = STEADY.with_total_timeout(SECOND * 10);
    let six = Backoff::fixed(SECOND * 6);
    let eight = Backoff::fixed(SECOND * 8);
    for (policy, steps, state) in [
        (total, &[Step::Hang][..], State::Open),
        (total.with_backoff(six), &[Step::Fail, Step::Hang], State::Closed),
        (
            total.with_backoff(six).with_attempt_timeout(SECOND * 8),
            &[Step::Fail, Step::Hang],
            State::Open,
        ),
        (
            total.with_backoff(eight).with_attempt_timeout(SECOND * 8),
            &[Step::Fail, Step::Hang],
            State::Closed,
        ),
    ] {
        // Both at the timer's origin and later.
        for began in [Duration::ZERO, SECOND] {
            let (script, timer) = (Script::new(steps), ManualTimer::new());
            timer.advance(began);
            let failures = if steps.len() > 1 { 2 } else { 1 };
            let upstream = upstream(&timer).with_breaker(Breaker::new().with_consecutive(failures));
            let shown = std::sync::Mutex::new(None);
            let note = |event: &Event<'_>| {
                if let EventKind::GaveUp { failure, .. } = event.kind {
                    *shown.lock().unwrap() = Some(failure.health());
                }
            };
            let call = retry(|_| script.play(), policy, Never).on(upstream.observed_by(&note));
            let gave_up = drive(call, &timer).unwrap_err();
            // Operators see what the breaker has counted.
            let counted = if state == State::Open { Health::Failing } else { Health::Unknown };
            assert_eq!(shown.into_inner().unwrap(), Some(counted), "{policy:?} from {began:?}");
            assert_eq!(
                (gave_up.reason(), gave_up.cut()),
                (StopReason::Deadline, Some(Cut::Deadline))
            );
            assert_eq!(
                (gave_up.verdict(), gave_up.elapsed()),
                (Some(Verdict::transient()), SECOND * 10)
            );
            assert_eq!(upstream.breaker().unwrap().state(), state, "{policy:?} from {began:?}");
        }
    }
    // A cancelled attempt counts nothing at the breaker, for any length.
    let (script, timer, token) =
        (Script::new(&[Step::Hang]), ManualTimer::new(), CancellationToken::new());
    let upstream = upstream(&timer).with_breaker(Breaker::new().with_consecutive(1));
    let mut call = Box::pin(retry(|_| script.play(), total, &token).on(&upstream));
    assert!(poll(call.as_mut()).is_pending());
    timer.advance(SECOND * 9);
    token.cancel();
    assert!(poll(call.as_mut()).is_ready());
    assert_eq!(upstream.breaker().unwrap().state(), State::Closed);
    // A drain makes no difference: the deadline still cuts the attempt.
    let gave_up =
        drive(retry(|_| script.play(), total, Drain(Never)).on(&upstream), &timer).unwrap_err();
    assert_eq!(
        (gave_up.reason(), upstream.breaker().unwrap().state()),
        (StopReason::Deadline, State::Open)
    );
}

/// Counts its polls and stays pending for ever.
async fn hangs<E>(polls: &std::cell::Cell<u32>) -> Result<u8, E> {
    std::future::poll_fn(|_| {
        polls.set(polls.get() + 1);
        std::task::Poll::Pending
    })
    .await
}

/// tokio's running clock rounds a sleep of zero up to the next millisecond. Every timeout of zero
/// still gives exactly one poll.
#[tokio::test]
async fn a_timeout_of_zero_gives_one_poll_on_a_running_clock() {
    use futures_util::StreamExt;
    use resile::timeout::Elapsed;
    use resile::{
        FallbackPolicy, HedgePolicy, ResilienceExt, StreamResilienceExt, fallback, hedge,
        retry_stream,
    };

    const ZERO: Duration = Duration::ZERO;
    let polls = std::cell::Cell::new(0);
    let polled_once = |adapter: &str| assert_eq!(polls.replace(0), 1, "{adapter}");
    let policy = RetryPolicy::new().with_total_timeout(ZERO);

    let stop = retry(|_| hangs::<Elapsed>(&polls), &policy, Never).await.unwrap_err().reason();
    assert_eq!(stop, StopReason::Deadline);
    polled_once("retry");

    let stop =
        Run::new(&policy, Never).attempt(hangs::<Elapsed>(&polls)).await.unwrap_err().reason();
    assert_eq!(stop, StopReason::Deadline);
    polled_once("a run");

    // Each attempt gets one poll.
    let once = RetryPolicy::new().with_backoff(Backoff::none()).with_attempt_timeout(ZERO);
    let gave_up = retry(|_| hangs::<Elapsed>(&polls), &once, Never).await.unwrap_err();
    assert_eq!(
        (gave_up.reason(), polls.replace(0)),
        (StopReason::Attempts, 3),
        "attempts of a retry"
    );
    let stop =
        hedge(|_| hangs::<Elapsed>(&polls), HedgePolicy::new().with_attempt_timeout(ZERO), Never)
            .await;
    assert_eq!(stop.unwrap_err().reason(), StopReason::Attempts);
    polled_once("an attempt of a hedge");
    let alternatives = FallbackPolicy::new().with_attempt_timeout(ZERO);
    let stop = fallback(&[1, 2], |_| hangs::<Elapsed>(&polls), alternatives, Never)
        .await
        .unwrap_err()
        .reason();
    assert_eq!((stop, polls.replace(0)), (StopReason::Alternatives, 2), "alternatives");

    let open = |_| async {
        let opened = hangs::<Elapsed>(&polls).await?;
        Ok::<_, Elapsed>(futures_util::stream::iter([Ok::<_, Elapsed>(opened)]))
    };
    let stop =
        Box::pin(retry_stream(open, &policy, Never)).next().await.unwrap().unwrap_err().reason();
    assert_eq!(stop, StopReason::Deadline);
    polled_once("a stream that opens");

    let silent = |_| async {
        let item = futures_util::stream::once(hangs::<Elapsed>(&polls));
        Ok::<_, Elapsed>(item)
    };
    let stop =
        Box::pin(retry_stream(silent, &policy, Never)).next().await.unwrap().unwrap_err().reason();
    assert_eq!(stop, StopReason::Deadline);
    polled_once("a stream that is silent");

    let hedges = HedgePolicy::new().with_total_timeout(ZERO);
    let stop = hedge(|_| hangs::<Elapsed>(&polls), &hedges, Never).await.unwrap_err().reason();
    assert_eq!(stop, StopReason::Deadline);
    polled_once("hedge");

    let alternatives = FallbackPolicy::new().with_total_timeout(ZERO);
    let stop = fallback(&[1, 2], |_| hangs::<Elapsed>(&polls), &alternatives, Never)
        .await
        .unwrap_err()
        .reason();
    assert_eq!(stop, StopReason::Deadline);
    polled_once("fallback");

    hangs::<Elapsed>(&polls).timeout(ZERO).await.unwrap_err();
    polled_once("timeout");

    let item = || futures_util::stream::once(hangs::<Elapsed>(&polls));
    Box::pin(item().idle_timeout(ZERO)).next().await.unwrap().unwrap_err();
    polled_once("idle timeout");
    Box::pin(item().first_item_timeout(ZERO)).next().await.unwrap().unwrap_err();
    polled_once("first item timeout");
    Box::pin(item().progress_timeout(ZERO, |_| true)).next().await.unwrap().unwrap_err();
    polled_once("progress timeout");
}

/// A cut that came too early says nothing of the upstream, so an outer call hears of the error before: a
/// full pool is not a failing server.
#[test]
fn a_brief_cut_has_the_health_of_the_error_before_it() {
    use resile::classify::{ClassifyExt, Cut};
    use resile::{Health, Upstream, Verdict};

    for health in [Health::Unknown, Health::Failing, Health::Healthy] {
        let classifier =
            (move |_: &Down| Verdict::transient().with_health(health)).cut_is(Verdict::transient());
        let policy = STEADY
            .with_total_timeout(SECOND * 10)
            .with_backoff(Backoff::fixed(SECOND * 8))
            .with_attempt_timeout(SECOND * 8)
            .with_classifier(classifier);
        let (script, timer) = (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new());
        let upstream = Upstream::new("pool").with_timer(&timer);
        let call = retry(|_| script.play(), &policy, Never).on(&upstream);
        let gave_up = drive(call, &timer).unwrap_err();
        assert_eq!(gave_up.cut(), Some(Cut::Deadline));
        assert_eq!(gave_up.verdict().unwrap().health(), health);
    }
}
