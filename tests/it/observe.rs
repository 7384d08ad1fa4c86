//! Observers: who is told what, in which order, and what it costs not to listen.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use resile::{
    Backoff, Budget, Cause, Event, Jitter, ManualTimer, Never, Observe, ResilienceExt, RetryPolicy, Standard, Stop,
    Timer, Verdict, retry,
};
use tokio_util::sync::CancellationToken;

use super::script::{CountingTimer, Down, Script, Step, drive, poll};

const SECOND: Duration = Duration::from_secs(1);
const STEADY: RetryPolicy =
    RetryPolicy::new().with_attempts(3).with_backoff(Backoff::exponential(SECOND).with_jitter(Jitter::None));

/// An event in short.
fn short(event: &Event<'_, Down>) -> String {
    let word = |verdict: Option<Verdict>| match verdict {
        None => "cut".into(),
        Some(Verdict::Fail) => "fail".into(),
        Some(Verdict::Retry { cause, after }) => format!("{cause} {after:?}"),
    };
    match *event {
        Event::Failed { attempt, allowed, error, verdict, .. } => {
            format!(
                "{}/{allowed} failed {} at {:?}: {}",
                attempt.number(),
                error.0,
                attempt.elapsed(),
                word(Some(verdict))
            )
        }
        Event::Waiting { attempt, delay, hint, cause, resumes_at, .. } => {
            format!("{} waits {delay:?}, {hint:?}, {cause}, until {resumes_at:?}", attempt.number())
        }
        Event::Succeeded { attempts, elapsed, .. } => format!("succeeded {attempts} in {elapsed:?}"),
        Event::GaveUp { stop, attempts, allowed, elapsed, last, verdict, retry_after, .. } => {
            let last = last.map(|last| last.0);
            format!(
                "gave up {attempts}/{allowed} in {elapsed:?}, {stop:?}, {last:?}, {}, {retry_after:?}",
                word(verdict)
            )
        }
        _ => "unknown".into(),
    }
}

fn told<C: resile::Classify<Down>>(steps: &'static [Step], policy: &RetryPolicy<C>) -> Vec<String> {
    let (script, timer, told) = (Script::new(steps), ManualTimer::new(), RefCell::new(Vec::new()));
    timer.advance(SECOND * 100);
    let observer = |event: &Event<'_, Down>| told.borrow_mut().push(short(event));
    let _ = drive(retry(|_| script.play(), policy, Never).with_timer(&timer).with_observer(observer), &timer);
    told.into_inner()
}

#[test]
fn every_attempt_has_one_event_the_last_included() {
    assert_eq!(told(&[Step::Succeed], &STEADY), ["succeeded 1 in 0ns"]);
    assert_eq!(
        told(&[Step::Fail, Step::Fail, Step::Succeed], &STEADY),
        [
            "1/3 failed 1 at 0ns: transient None",
            "1 waits 1s, None, transient, until Some(101s)",
            "2/3 failed 2 at 1s: transient None",
            "2 waits 2s, None, transient, until Some(103s)",
            "succeeded 3 in 3s",
        ]
    );
    assert_eq!(
        told(&[Step::Fail], &STEADY.with_attempts(2)),
        [
            "1/2 failed 1 at 0ns: transient None",
            "1 waits 1s, None, transient, until Some(101s)",
            "2/2 failed 2 at 1s: transient None",
            "gave up 2/2 in 1s, Attempts, Some(2), transient None, None",
        ]
    );
    assert_eq!(
        told(&[Step::Fail], &STEADY.with_classify(|_: &Down| false)),
        ["1/3 failed 1 at 0ns: fail", "gave up 1/3 in 0ns, Fatal, Some(1), fail, None"]
    );
    assert_eq!(
        told(
            &[Step::Fail],
            &STEADY.with_hint_cap(SECOND).with_classify(|_: &Down| Verdict::throttled(Some(SECOND * 2)))
        ),
        [
            "1/3 failed 1 at 0ns: throttled Some(2s)",
            "gave up 1/3 in 0ns, HintTooLong, Some(1), throttled Some(2s), Some(2s)",
        ]
    );
    assert_eq!(
        told(&[Step::Fail, Step::Hang], &STEADY.with_deadline(SECOND * 10)),
        [
            "1/3 failed 1 at 0ns: transient None",
            "1 waits 1s, None, transient, until Some(101s)",
            "gave up 2/3 in 10s, Deadline, Some(1), cut, None",
        ]
    );
}

/// A delay of zero is told as such.
#[test]
fn a_retry_at_once_is_told_too() {
    assert_eq!(
        told(&[Step::Fail, Step::Succeed], &STEADY.with_backoff(Backoff::none())),
        ["1/3 failed 1 at 0ns: transient None", "1 waits 0ns, None, transient, until Some(100s)", "succeeded 2 in 0ns"]
    );
}

/// Cut in the wait: the attempt had its event, the call has its end.
#[test]
fn a_call_cut_in_its_wait_ends_with_one_event() {
    let (script, timer, token) = (Script::new(&[Step::Fail]), ManualTimer::new(), CancellationToken::new());
    let told = RefCell::new(Vec::new());
    let observer = |event: &Event<'_, Down>| told.borrow_mut().push(short(event));
    let mut call = Box::pin(retry(|_| script.play(), &STEADY, &token).with_timer(&timer).with_observer(observer));
    assert!(poll(call.as_mut()).is_pending());
    token.cancel();
    assert!(poll(call.as_mut()).is_ready());
    let told = told.borrow();
    assert_eq!(told.len(), 3);
    assert_eq!(told[2], "gave up 1/3 in 0ns, Cancelled, Some(1), cut, None");
}

/// No budget: the retry that is not made is not waited for either.
#[test]
fn a_call_that_cannot_pay_does_not_wait() {
    let (script, timer, told) = (Script::new(&[Step::Fail]), ManualTimer::new(), RefCell::new(Vec::new()));
    let budget = Budget::new().with_capacity(0);
    let observer = |event: &Event<'_, Down>| told.borrow_mut().push(short(event));
    let call = retry(|_| script.play(), &STEADY, Never).with_timer(&timer).with_observer(observer);
    drive(call.with_budget(&budget), &timer).unwrap_err();
    assert_eq!(told.borrow().len(), 2, "{told:?}");
    assert_eq!(told.borrow()[1], "gave up 1/3 in 0ns, Budget, Some(1), transient None, None");
}

/// Listens as told, and counts.
#[derive(Default)]
struct Counting<const TROUBLE: bool> {
    deaf: Cell<bool>,
    told: Cell<u32>,
}

impl<const TROUBLE: bool> Observe<Event<'_, Down>> for &Counting<TROUBLE> {
    const TROUBLE_ONLY: bool = TROUBLE;

    fn is_enabled(&self) -> bool {
        !self.deaf.get()
    }

    fn observe(&self, _: &Event<'_, Down>) {
        self.told.set(self.told.get() + 1);
    }
}

#[test]
fn pairs_tell_both_and_nobody_listens_to_unit() {
    let timer = ManualTimer::new();
    let (trouble, all) = (Counting::<true>::default(), Counting::<false>::default());
    for (steps, of_trouble, of_all) in
        [(&[Step::Succeed][..], 0, 1), (&[Step::Fail, Step::Succeed][..], 3, 3), (&[Step::Fail][..], 6, 6)]
    {
        let script = Script::new(steps);
        let _ = drive(retry(|_| script.play(), &STEADY, Never).with_timer(&timer).with_observer(&trouble), &timer);
        assert_eq!(trouble.told.replace(0), of_trouble, "{steps:?}");
        let pair = (Standard, ((), &all));
        let script = Script::new(steps);
        let _ = drive(retry(|_| script.play(), &STEADY, Never).with_timer(&timer).with_observer(pair), &timer);
        assert_eq!(all.told.replace(0), of_all, "{steps:?}");
    }
    // Deaf: no event is even put together.
    all.deaf.set(true);
    let script = Script::new(&[Step::Fail]);
    let _ = drive(retry(|_| script.play(), &STEADY, Never).with_timer(&timer).with_observer(&all), &timer);
    assert_eq!(all.told.get(), 0);
    assert!(!Observe::<Event<'_, Down>>::is_enabled(&()));
}

/// A clock that nobody may read or wait on.
struct Forbidden;

impl Timer for Forbidden {
    type Sleep = std::future::Pending<()>;

    fn now(&self) -> Duration {
        panic!("the clock was read")
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        panic!("something was waited for")
    }
}

/// Success at once, and failures without a delay, need no clock unless somebody asks for times.
#[test]
fn the_happy_path_reads_no_clock() {
    let policy = STEADY.with_backoff(Backoff::none());
    let (token, budget, hands) = (CancellationToken::new(), Budget::new(), ManualTimer::new());
    for (steps, number) in [(&[Step::Succeed][..], 1), (&[Step::Fail, Step::Fail, Step::Succeed][..], 3)] {
        let script = Script::new(steps);
        let op = |_| script.play().timeout(SECOND).with_timer(Forbidden);
        let standard = retry(op, &policy, &token).with_timer(Forbidden).with_budget(&budget);
        assert_eq!(drive(standard, &hands), Ok(number));
        let script = Script::new(steps);
        let silent = retry(|_| script.play(), &policy, &token).with_timer(Forbidden).with_observer(());
        assert_eq!(drive(silent, &hands), Ok(number));
    }
}

/// A deadline reads it when the call starts; an observer of everything when it starts and for each event.
#[test]
fn who_asks_for_times_pays_for_them() {
    let reads = |deadline: bool, listening: bool| {
        let (script, timer, all) =
            (Script::new(&[Step::Succeed]), CountingTimer::default(), Counting::<false>::default());
        let policy = if deadline { STEADY.with_deadline(SECOND) } else { STEADY };
        let call = retry(|_| script.play(), &policy, Never).with_timer(&timer);
        let outcome = if listening { drive(call.with_observer(&all), &timer.hands) } else { drive(call, &timer.hands) };
        assert_eq!((outcome, timer.sleeps.into_inner()), (Ok(1), 0));
        timer.reads.into_inner()
    };
    assert_eq!([reads(false, false), reads(true, false), reads(false, true), reads(true, true)], [0, 1, 2, 2]);
}

#[test]
fn events_have_words() {
    let (script, timer, told) = (Script::new(&[Step::Fail]), ManualTimer::new(), RefCell::new(Vec::new()));
    let policy = STEADY.with_classify(|error: &Down| match error.0 {
        1 => Verdict::throttled(Some(SECOND * 20)),
        2 => Verdict::retry(),
        _ => Verdict::fail(),
    });
    let observer = |event: &Event<'_, Down>| told.borrow_mut().push(event.to_string());
    let _ = drive(retry(|_| script.play(), &policy, Never).with_timer(&timer).with_observer(observer), &timer);
    assert_eq!(
        told.into_inner(),
        [
            "attempt 1 of 3 failed (throttled)",
            "waiting 20.0s, the peer asked for 20.0s, then attempt 2 of 3",
            "attempt 2 of 3 failed (transient)",
            "waiting 2.0s, then attempt 3 of 3",
            "attempt 3 of 3 failed (permanent)",
            "gave up after 3 of 3 attempts: the error is not one that a retry can mend",
        ]
    );
    assert_eq!((Cause::Transient.to_string(), Cause::Throttled.to_string()), ("transient".into(), "throttled".into()));
    let stops =
        [Stop::Fatal, Stop::Attempts, Stop::Deadline, Stop::Budget, Stop::Open, Stop::HintTooLong, Stop::Cancelled];
    let words = ["fatal", "attempts", "deadline", "budget", "open", "hint_too_long", "cancelled"];
    assert_eq!(stops.map(|stop| stop.as_str()), words);
}
