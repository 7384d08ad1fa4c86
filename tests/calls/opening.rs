//! The event of a breaker that opens ends with the failure that opened it.

use std::cell::Cell;
use std::future::{pending, ready};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use resile::breaker::Transition;
use resile::classify::{Always, ClassifyExt};
use resile::observe::{Event, EventKind};
use resile::time::ManualTimer;
use resile::{
    Backoff, Breaker, Classify, Health, HedgePolicy, Jitter, Never, RetryPolicy, Run, Upstream,
    Verdict, hedge, retry,
};

use super::script::drive;

const SECOND: Duration = Duration::from_secs(1);

const ONCE: RetryPolicy = RetryPolicy::new().with_attempts(1);

/// A breaker that opens at each failure, for half a minute.
const fn breaker() -> Breaker {
    let open = Backoff::fixed(Duration::from_secs(30)).with_jitter(Jitter::None);
    Breaker::new().with_consecutive(1).with_open_time(open).with_probes(1.0, 1)
}

type Lines = Arc<Mutex<Vec<String>>>;

/// Returns an upstream with this breaker, and the lines of its openings.
fn feed(breaker: Breaker, timer: &ManualTimer) -> (Upstream<ManualTimer>, Lines) {
    let lines = Lines::default();
    let seen = Arc::clone(&lines);
    let note = move |event: &Event<'_>| {
        if let EventKind::Breaker { transition: Transition::Opened { .. }, .. } = event.kind {
            seen.lock().unwrap().push(event.to_string());
        }
    };
    let upstream = Upstream::new("feed").with_breaker(breaker).with_timer(timer.clone());
    (upstream.with_shared_observer(note), lines)
}

/// Returns the end of the line of one opening, behind its reason.
fn cause(lines: &Lines) -> String {
    let lines = std::mem::take(&mut *lines.lock().unwrap());
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let after =
        line.strip_prefix("feed: breaker opened for 30.0s, all attempts are refused: ").unwrap();
    let reasons = ["too many failures in a row (", "too large a share of attempts was slow ("];
    let numbers = reasons.iter().find_map(|reason| after.strip_prefix(reason)).unwrap();
    numbers.split_once(')').unwrap().1.to_owned()
}

/// Returns the end of the line of a call that fails once with this error.
fn cause_of(error: &'static str, classifier: impl Classify<&'static str>) -> String {
    let timer = ManualTimer::new();
    let (upstream, lines) = feed(breaker(), &timer);
    let policy = ONCE.with_classifier(classifier);
    drive(retry(|_| ready(Err::<(), _>(error)), policy, Never).on(&upstream), &timer).unwrap_err();
    cause(&lines)
}

#[test]
fn it_has_the_words_of_the_lines_of_attempts() {
    assert_eq!(cause_of("connection refused", Always), ": connection refused");
    let secret = "no answer from https://me:pass@host/now?api_key=s3cret";
    assert_eq!(cause_of(secret, Always), ": no answer from https://…@host/now?…");
    assert_eq!(cause_of("two\nlines", Always), ": two\\nlines");
    let busy = |_: &&str| Verdict::transient().after(SECOND * 5);
    assert_eq!(cause_of("busy", busy), ", the upstream asked for a wait of 5.0s: busy");
    // Nobody waits for the least delay of a call that has ended.
    let floor = |_: &&str| Verdict::transient().at_least(SECOND * 5);
    assert_eq!(cause_of("slow down", floor), ": slow down");
}

#[test]
fn a_cut_is_a_cause_too() {
    let timer = ManualTimer::new();
    let hangs = |_| pending::<Result<(), &str>>();
    let limits = [
        (ONCE.with_attempt_timeout(SECOND * 2), ": did not finish within 2s"),
        (
            ONCE.with_total_timeout(SECOND * 2),
            ": did not finish before the deadline of the call after 2s",
        ),
    ];
    for (policy, words) in limits {
        let (upstream, lines) = feed(breaker(), &timer);
        let policy = policy.with_classifier(Always.cut_is(Verdict::transient()));
        drive(retry(hangs, policy, Never).on(&upstream), &timer).unwrap_err();
        assert_eq!(cause(&lines), words);
    }
    // The error of the attempt before is not the cause.
    let (upstream, lines) = feed(breaker().with_consecutive(2), &timer);
    let policy = RetryPolicy::new().with_attempts(2).with_attempt_timeout(SECOND * 2);
    let policy = policy.with_classifier(Always.cut_is(Verdict::transient()));
    let first = Cell::new(true);
    let send = |_| {
        let is_first = first.replace(false);
        async move { if is_first { Err::<(), _>("reset") } else { pending().await } }
    };
    drive(retry(send, policy, Never).on(&upstream), &timer).unwrap_err();
    assert_eq!(cause(&lines), ": did not finish within 2s");
}

#[test]
fn each_kind_of_call_has_one() {
    let timer = ManualTimer::new();
    let down = || ready(Err::<(), _>("down"));
    let (upstream, lines) = feed(breaker(), &timer);
    drive(upstream.call(down(), Always), &timer).unwrap_err();
    assert_eq!(cause(&lines), ": down");
    let (upstream, lines) = feed(breaker(), &timer);
    drive(hedge(|_| down(), HedgePolicy::new(), Never).on(&upstream), &timer).unwrap_err();
    assert_eq!(cause(&lines), ": down");
    let (upstream, lines) = feed(breaker(), &timer);
    let mut run = Run::new(ONCE, Never).on(&upstream);
    drive(run.attempt(down()), &timer).unwrap_err();
    assert_eq!(cause(&lines), ": down");
}

#[test]
fn a_failed_probe_is_the_cause_of_the_next_opening() {
    let timer = ManualTimer::new();
    let (upstream, lines) = feed(breaker(), &timer);
    for words in ["down", "still down"] {
        drive(upstream.call(ready(Err::<(), _>(words)), Always), &timer).unwrap_err();
        timer.advance(SECOND * 30);
    }
    let lines = lines.lock().unwrap();
    assert_eq!(
        lines[..],
        [
            "feed: breaker opened for 30.0s, all attempts are refused: too many failures in a row (1): down",
            "feed: breaker opened for 30.0s, all attempts are refused: too many probes failed (1 of 1): still down"
        ]
    );
}

#[test]
fn an_opening_without_a_failure_has_no_cause() {
    let timer = ManualTimer::new();
    let (upstream, lines) = feed(breaker(), &timer);
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    assert_eq!(cause(&lines), "", "the error of an attempt made by hand is not known");

    let slow = || breaker().without_consecutive().with_slow_rate(SECOND, 0.5, 1);
    let late = |answer: Result<(), &'static str>| {
        let timer = &timer;
        async move {
            timer.advance(SECOND * 2);
            answer
        }
    };
    let (upstream, lines) = feed(slow(), &timer);
    drive(upstream.call(late(Ok(())), Always), &timer).unwrap();
    assert_eq!(cause(&lines), "");
    // The upstream answered such a request as it should.
    let (upstream, lines) = feed(slow(), &timer);
    let healthy = |_: &&str| Verdict::fatal().with_health(Health::Healthy);
    drive(upstream.call(late(Err("404")), healthy), &timer).unwrap_err();
    assert_eq!(cause(&lines), "");
    let (upstream, lines) = feed(slow(), &timer);
    drive(upstream.call(late(Err("504")), Always), &timer).unwrap_err();
    assert_eq!(cause(&lines), ": 504");
}

/// Notes the line of a transition. Returns whether it is the first one.
fn notes_first(lines: &Mutex<Vec<String>>, event: &Event<'_>) -> bool {
    let EventKind::Breaker { .. } = event.kind else { return false };
    let mut lines = lines.lock().unwrap();
    lines.push(event.to_string());
    lines.len() == 1
}

/// Returns an upstream whose breaker opens with the first failure.
fn observed_by(observer: fn(&Event<'_>)) -> Upstream<ManualTimer> {
    let upstream = Upstream::new("feed").with_breaker(breaker());
    upstream.with_timer(ManualTimer::new()).with_shared_observer(observer)
}

/// A transition that another call makes meanwhile is reported by the first one, without its failure.
#[test]
fn a_failure_is_the_cause_of_its_own_opening_only() {
    static UPSTREAM: OnceLock<Upstream<ManualTimer>> = OnceLock::new();
    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    fn observe(event: &Event<'_>) {
        if notes_first(&LINES, event) {
            let upstream = UPSTREAM.get().unwrap();
            upstream.reset();
            let second = upstream.call(ready(Err::<(), _>("second")), Always);
            drive(second, &ManualTimer::new()).unwrap_err();
        }
    }
    let upstream = UPSTREAM.get_or_init(|| observed_by(observe));
    let first = upstream.call(ready(Err::<(), _>("first")), Always);
    drive(first, &ManualTimer::new()).unwrap_err();
    assert_eq!(
        LINES.lock().unwrap()[..],
        [
            "feed: breaker opened for 30.0s, all attempts are refused: too many failures in a row (1): first",
            "feed: breaker closed: 0 attempts refused",
            "feed: breaker opened for 30.0s, all attempts are refused: too many failures in a row (1)"
        ]
    );
}

/// The next opening reports the transition that a panic of the observer left behind, and then its own.
#[test]
fn a_transition_left_by_a_panic_does_not_take_the_failure() {
    static UPSTREAM: OnceLock<Upstream<ManualTimer>> = OnceLock::new();
    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    fn observe(event: &Event<'_>) {
        if notes_first(&LINES, event) {
            UPSTREAM.get().unwrap().reset();
            panic!("the first event panics");
        }
    }
    let upstream = UPSTREAM.get_or_init(|| observed_by(observe));
    let fail = |words: &'static str| {
        let call = upstream.call(ready(Err::<(), _>(words)), Always);
        drive(call, &ManualTimer::new())
    };
    catch_unwind(|| fail("first")).unwrap_err();
    fail("second").unwrap_err();
    assert_eq!(
        LINES.lock().unwrap()[..],
        [
            "feed: breaker opened for 30.0s, all attempts are refused: too many failures in a row (1): first",
            "feed: breaker closed: 0 attempts refused",
            "feed: breaker opened for 30.0s, all attempts are refused: too many failures in a row (1): second"
        ]
    );
}
