//! Observers: the events, their order, and the cost of no observer.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use resile::classify::Cut;
use resile::observe::{AttemptFailure, CallKind, Event, EventKind, HeldBy, Log, Observe};
use resile::time::{ManualTimer, Timer};
use resile::{
    Attempt, Backoff, Breaker, Budget, Cooldown, Health, Jitter, Never, ResilienceExt, RetryPolicy,
    StopReason, Upstream, Verdict, retry,
};
use tokio_util::sync::CancellationToken;

use super::script::{CountingTimer, Down, Script, Step, drive, poll};

const SECOND: Duration = Duration::from_secs(1);
const STEADY: RetryPolicy = RetryPolicy::new()
    .with_attempts(3)
    .with_backoff(Backoff::exponential(SECOND).with_jitter(Jitter::None));

fn feed<M: Timer>(timer: M) -> Upstream<M> {
    Upstream::new("feed").with_timer(timer)
}

/// Formats a failure briefly.
fn short_failure(failure: &AttemptFailure<'_>) -> String {
    let error = failure.error.map(ToString::to_string).unwrap_or_default();
    let cut = failure.cut.map(|cut| format!("{cut:?} ")).unwrap_or_default();
    let verdict = failure.verdict.map_or("no verdict".into(), |verdict| {
        let again = if verdict.is_again() { "again" } else { "not again" };
        format!("{}, {again}, {:?}", verdict.health(), verdict.hint())
    });
    format!("{cut}{error}: {verdict}")
}

/// Formats an event briefly.
fn short(event: &Event<'_>) -> String {
    assert_eq!(event.upstream, Some("feed"));
    let call = event.call.expect("the event belongs to a call");
    assert_eq!((call.kind, call.is_part, call.site.file()), (CallKind::Retry, false, file!()));
    let allowed = call.allowed;
    match event.kind {
        EventKind::Started { attempt, .. } => {
            format!("{}/{allowed} starts at {:?}", attempt.number(), attempt.elapsed())
        }
        EventKind::Failed { attempt, failure, .. } => {
            format!(
                "{}/{allowed} failed at {:?}, {}",
                attempt.number(),
                attempt.elapsed(),
                short_failure(&failure)
            )
        }
        EventKind::Waiting { attempt, failure, delay, resumes_at, .. } => {
            format!(
                "{} waits {delay:?}, until {resumes_at:?}, {}",
                attempt.number(),
                short_failure(&failure)
            )
        }
        EventKind::Succeeded { attempt, attempts, elapsed, .. } => {
            format!("succeeded {attempt}/{attempts} in {elapsed:?}")
        }
        EventKind::GaveUp { reason, attempts, elapsed, failure, retry_after, .. } => {
            format!(
                "gave up {attempts}/{allowed} in {elapsed:?}, {reason:?}, {}, {retry_after:?}",
                short_failure(&failure)
            )
        }
        other => panic!("{other:?}"),
    }
}

fn events<C: resile::Classify<Down>>(
    steps: &'static [Step],
    policy: &RetryPolicy<C>,
) -> Vec<String> {
    let (script, timer, events) =
        (Script::new(steps), ManualTimer::new(), RefCell::new(Vec::new()));
    timer.advance(SECOND * 100);
    let observer = |event: &Event<'_>| events.borrow_mut().push(short(event));
    let _ = drive(
        retry(|_| script.play(), policy, Never).on(feed(&timer).observed_by(&observer)),
        &timer,
    );
    events.into_inner()
}

#[test]
fn every_attempt_has_its_events_including_the_last() {
    assert_eq!(events(&[Step::Succeed], &STEADY), ["1/3 starts at 0ns", "succeeded 1/1 in 0ns"]);
    assert_eq!(
        events(&[Step::Fail, Step::Fail, Step::Succeed], &STEADY),
        [
            "1/3 starts at 0ns",
            "1/3 failed at 0ns, down, 1: failing, again, None",
            "1 waits 1s, until Some(101s), down, 1: failing, again, None",
            "2/3 starts at 1s",
            "2/3 failed at 1s, down, 2: failing, again, None",
            "2 waits 2s, until Some(103s), down, 2: failing, again, None",
            "3/3 starts at 3s",
            "succeeded 3/3 in 3s",
        ]
    );
    assert_eq!(
        events(&[Step::Fail], &STEADY.with_attempts(2)),
        [
            "1/2 starts at 0ns",
            "1/2 failed at 0ns, down, 1: failing, again, None",
            "1 waits 1s, until Some(101s), down, 1: failing, again, None",
            "2/2 starts at 1s",
            "2/2 failed at 1s, down, 2: failing, again, None",
            "gave up 2/2 in 1s, Attempts, down, 2: failing, again, None, None",
        ]
    );
    assert_eq!(
        events(&[Step::Fail], &STEADY.with_classifier(|_: &Down| false)),
        [
            "1/3 starts at 0ns",
            "1/3 failed at 0ns, down, 1: unknown, not again, None",
            "gave up 1/3 in 0ns, Fatal, down, 1: unknown, not again, None, None"
        ]
    );
    assert_eq!(
        events(&[Step::Fail], &STEADY.with_classifier(|_: &Down| None::<Verdict>)),
        [
            "1/3 starts at 0ns",
            "1/3 failed at 0ns, down, 1: no verdict",
            "gave up 1/3 in 0ns, Unclassified, down, 1: no verdict, None"
        ]
    );
    assert_eq!(
        events(
            &[Step::Fail],
            &STEADY
                .with_hint_cap(SECOND)
                .with_classifier(|_: &Down| Verdict::throttled().after(SECOND * 2))
        ),
        [
            "1/3 starts at 0ns",
            "1/3 failed at 0ns, down, 1: throttling, again, Some(2s)",
            "gave up 1/3 in 0ns, HintTooLong, down, 1: throttling, again, Some(2s), Some(2s)",
        ]
    );
}

/// The event of a cut attempt does not repeat an earlier error.
#[test]
fn a_cut_attempt_is_reported_as_cut() {
    assert_eq!(
        events(&[Step::Fail, Step::Hang], &STEADY.with_total_timeout(SECOND * 10)),
        [
            "1/3 starts at 0ns",
            "1/3 failed at 0ns, down, 1: failing, again, None",
            "1 waits 1s, until Some(101s), down, 1: failing, again, None",
            "2/3 starts at 1s",
            "gave up 2/3 in 10s, Deadline, Deadline : failing, again, None, None",
        ]
    );
    assert_eq!(
        events(
            &[Step::Fail, Step::Hang],
            &STEADY.with_attempts(2).with_attempt_timeout(SECOND * 4)
        ),
        [
            "1/2 starts at 0ns",
            "1/2 failed at 0ns, down, 1: failing, again, None",
            "1 waits 1s, until Some(101s), down, 1: failing, again, None",
            "2/2 starts at 1s",
            "2/2 failed at 5s, AttemptTimeout(4s) : failing, again, None",
            "gave up 2/2 in 5s, Attempts, AttemptTimeout(4s) : failing, again, None, None",
        ]
    );
}

/// A delay of zero is reported as zero.
#[test]
fn a_retry_without_a_delay_is_reported_too() {
    assert_eq!(
        events(&[Step::Fail, Step::Succeed], &STEADY.with_backoff(Backoff::none())),
        [
            "1/3 starts at 0ns",
            "1/3 failed at 0ns, down, 1: failing, again, None",
            "1 waits 0ns, until None, down, 1: failing, again, None",
            "2/3 starts at 0ns",
            "succeeded 2/2 in 0ns"
        ]
    );
}

/// Each attempt has its latency and the call its elapsed time, for observers that want all events.
#[test]
fn events_have_the_latency_of_their_attempt() {
    let (timer, latencies) = (ManualTimer::new(), RefCell::new(Vec::new()));
    let observer = |event: &Event<'_>| match event.kind {
        EventKind::Failed { latency, .. } => latencies.borrow_mut().push((false, latency)),
        EventKind::Succeeded { latency, elapsed, .. } => {
            latencies.borrow_mut().extend([(true, latency), (true, Some(elapsed))]);
        }
        _ => {}
    };
    let op = |attempt: resile::Attempt| {
        let sleep = timer.sleep(SECOND * 5 * attempt.number());
        async move {
            sleep.await;
            if attempt.is_first() { Err(Down(1)) } else { Ok(()) }
        }
    };
    drive(retry(op, &STEADY, Never).on(feed(&timer).observed_by(&observer)), &timer).unwrap();
    let [five, ten] = [5, 10].map(|seconds| Some(SECOND * seconds));
    assert_eq!(latencies.take(), [(false, five), (true, ten), (true, Some(SECOND * 16))]);

    let failures = Counting::wanting_failures();
    let upstream = feed(&timer);
    drive(retry(op, &STEADY, Never).on(upstream.observed_by(&failures)), &timer).unwrap();
    assert_eq!((failures.events.load(Relaxed), failures.latencies.load(Relaxed)), (3, 0));
}

/// The token ends the call in its wait. The attempt was reported already, so only the end of the
/// call follows.
#[test]
fn a_call_cancelled_during_its_wait_ends_with_one_event() {
    let (script, timer, token) =
        (Script::new(&[Step::Fail]), ManualTimer::new(), CancellationToken::new());
    let events = RefCell::new(Vec::new());
    let observer = |event: &Event<'_>| events.borrow_mut().push(short(event));
    let feed = feed(&timer);
    let mut call =
        Box::pin(retry(|_| script.play(), &STEADY, &token).on(feed.observed_by(&observer)));
    assert!(poll(call.as_mut()).is_pending());
    token.cancel();
    assert!(poll(call.as_mut()).is_ready());
    let events = events.borrow();
    assert_eq!(events.len(), 4);
    assert_eq!(events[3], "gave up 1/3 in 0ns, Cancelled, down, 1: failing, again, None, None");
}

/// Without a budget token there is no retry, so the call does not wait.
#[test]
fn a_call_without_a_budget_token_does_not_wait() {
    let (script, timer, events) =
        (Script::new(&[Step::Fail]), ManualTimer::new(), RefCell::new(Vec::new()));
    let feed = feed(&timer).with_budget(Budget::new().with_capacity(0));
    // The event of the budget itself belongs to no call.
    let observer = |event: &Event<'_>| {
        events.borrow_mut().extend(event.call.map(|_| short(event)));
    };
    drive(retry(|_| script.play(), &STEADY, Never).on(feed.observed_by(&observer)), &timer)
        .unwrap_err();
    assert_eq!(events.borrow().len(), 3, "{events:?}");
    assert_eq!(
        events.borrow()[2],
        "gave up 1/3 in 0ns, Budget, down, 1: failing, again, None, None"
    );
}

/// An observer with settings, which counts its events.
struct Counting {
    all: bool,
    disabled: AtomicBool,
    events: AtomicU32,
    latencies: AtomicU32,
}

impl Counting {
    const fn new(all: bool) -> Self {
        Self {
            all,
            disabled: AtomicBool::new(false),
            events: AtomicU32::new(0),
            latencies: AtomicU32::new(0),
        }
    }

    const fn wanting_failures() -> Self {
        Self::new(false)
    }
}

impl Observe for Counting {
    fn is_enabled(&self) -> bool {
        !self.disabled.load(Relaxed)
    }

    fn wants_all(&self) -> bool {
        self.all
    }

    fn observe(&self, event: &Event<'_>) {
        self.events.fetch_add(1, Relaxed);
        if let EventKind::Failed { latency: Some(_), .. }
        | EventKind::Succeeded { latency: Some(_), .. } = event.kind
        {
            self.latencies.fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn a_pair_passes_events_to_both_and_unit_ignores_them() {
    let timer = ManualTimer::new();
    let (failures, all) = (Counting::wanting_failures(), Arc::new(Counting::new(true)));
    let pair = (Log, ((), all.clone()));
    let feed = feed(&timer);
    for (steps, of_failures, of_all) in [
        (&[Step::Succeed][..], 0, 2),
        (&[Step::Fail, Step::Succeed][..], 3, 5),
        (&[Step::Fail][..], 6, 9),
    ] {
        let script = Script::new(steps);
        let _ =
            drive(retry(|_| script.play(), &STEADY, Never).on(feed.observed_by(&failures)), &timer);
        assert_eq!(failures.events.swap(0, Relaxed), of_failures, "{steps:?}");
        let script = Script::new(steps);
        let _ = drive(retry(|_| script.play(), &STEADY, Never).on(feed.observed_by(&pair)), &timer);
        assert_eq!(all.events.swap(0, Relaxed), of_all, "{steps:?}");
    }
    // A disabled observer gets no event, and no event is built for it.
    all.disabled.store(true, Relaxed);
    let script = Script::new(&[Step::Fail]);
    let _ = drive(retry(|_| script.play(), &STEADY, Never).on(feed.observed_by(&all)), &timer);
    assert_eq!(all.events.load(Relaxed), 0);
    assert!(!().is_enabled() && !().wants_all() && !Log.wants_all());
}

/// The observer of an upstream gets the events of every call and of the upstream itself. The
/// observer of a call gets only the events of that call.
#[test]
fn an_upstream_has_an_observer_and_a_call_may_have_another() {
    static ALL: Counting = Counting::new(true);
    static OWN: Upstream = Upstream::new("feed").with_observer(&ALL);
    let run = |call: &Counting| {
        let op = |_| std::future::ready(Ok::<_, Down>(()));
        drive(retry(op, &STEADY, Never).on(OWN.observed_by(call)), &ManualTimer::new()).unwrap();
    };
    let (one, two) = (Counting::new(true), Counting::wanting_failures());
    run(&one);
    run(&two);
    assert_eq!(ALL.events.load(Relaxed), 4);
    // If one of two observers wants all events, both get them.
    assert_eq!((one.events.into_inner(), two.events.into_inner()), (2, 2));

    let (timer, shared) = (ManualTimer::new(), Arc::new(Counting::new(true)));
    let broken = feed(&timer).with_breaker(Breaker::new()).with_shared_observer(shared.clone());
    let call = Counting::new(true);
    drop(broken.isolate());
    drive(
        retry(|_| std::future::ready(Ok::<_, Down>(())), &STEADY, Never)
            .on(broken.observed_by(&call)),
        &timer,
    )
    .unwrap();
    assert_eq!(
        (shared.events.load(Relaxed), call.events.into_inner()),
        (4, 2),
        "isolated and closed are events of the upstream alone"
    );
}

/// The log level may change during a call. The times of the next attempt are then known.
#[test]
fn an_observer_enabled_during_a_call_gets_the_times_of_the_next_attempt() {
    let delays = [Backoff::none(), Backoff::fixed(SECOND).with_jitter(Jitter::None)];
    for policy in delays.map(|backoff| STEADY.with_backoff(backoff)) {
        let (script, timer, all) =
            (Script::new(&[Step::Fail, Step::Succeed]), ManualTimer::new(), Counting::new(true));
        all.disabled.store(true, Relaxed);
        let upstream = feed(&timer);
        let op = |attempt: Attempt| {
            let played = script.play();
            let (all, is_first) = (&all, attempt.is_first());
            async move {
                let played = played.await;
                if is_first {
                    all.disabled.store(false, Relaxed);
                }
                played
            }
        };
        drive(retry(op, &policy, Never).on(upstream.observed_by(&all)), &timer).unwrap();
        assert_eq!(all.latencies.load(Relaxed), 1, "{policy:?}");
    }
}

/// Each event has the state of the upstream's parts at that moment.
#[test]
fn each_event_has_the_current_gauges() {
    let (timer, tokens) = (ManualTimer::new(), RefCell::new(Vec::new()));
    let observer = |event: &Event<'_>| {
        tokens.borrow_mut().push((event.gauges.tokens, event.gauges.breaker, event.gauges.waiting));
    };
    let feed = feed(&timer).with_budget(Budget::new().with_capacity(5).with_deposit(1.0));
    let script = Script::new(&[Step::Fail, Step::Succeed]);
    drive(retry(|_| script.play(), &STEADY, Never).on(feed.observed_by(&observer)), &timer)
        .unwrap();
    // Started, failed, waiting (a token spent), started, succeeded (a token deposited).
    assert_eq!(tokens.take(), [5, 5, 4, 4, 5].map(|tokens| (Some(tokens), None, None)));
}

/// A clock that must not be read or waited on.
struct Forbidden;

impl Timer for Forbidden {
    type Sleep = std::future::Pending<()>;

    fn now(&self) -> Duration {
        panic!("the clock was read")
    }

    fn sleep(&self, _: Duration) -> Self::Sleep {
        panic!("a sleep was created")
    }
}

/// Instant successes and failures without a delay read no clock. Only a total timeout, an observer of
/// all events or one that hears of a retry needs the time.
#[test]
fn an_instant_call_reads_no_clock() {
    let policy = STEADY.with_backoff(Backoff::none());
    let (token, hands) = (CancellationToken::new(), ManualTimer::new());
    let standard = feed(Forbidden).with_budget(Budget::new());
    let silent = feed(Forbidden).with_observer(&()).with_budget(Budget::new());
    let script = Script::new(&[Step::Succeed]);
    let op = |_| script.play().timeout(SECOND).on(&standard);
    assert_eq!(drive(retry(op, &policy, &token).on(&standard), &hands).unwrap(), 1);
    for (steps, number) in
        [(&[Step::Succeed][..], 1), (&[Step::Fail, Step::Fail, Step::Succeed][..], 3)]
    {
        let script = Script::new(steps);
        let op = |_| script.play().timeout(SECOND).on(&silent);
        assert_eq!(drive(retry(op, &policy, &token).on(&silent), &hands).unwrap(), number);
        let script = Script::new(steps);
        let limited = policy.with_attempt_timeout(SECOND);
        assert_eq!(
            drive(retry(|_| script.play(), &limited, &token).on(&silent), &hands).unwrap(),
            number
        );
    }
}

/// A total timeout reads the clock once at the start. An observer of all events reads it at the
/// start and for its events.
#[test]
fn only_total_timeouts_and_observers_of_all_events_read_the_clock() {
    let reads = |deadline: bool, listening: bool| {
        let (script, timer, all) =
            (Script::new(&[Step::Succeed]), CountingTimer::default(), Counting::new(true));
        let policy = if deadline { STEADY.with_total_timeout(SECOND) } else { STEADY };
        let (call, feed) = (retry(|_| script.play(), &policy, Never), feed(&timer));
        let outcome = if listening {
            drive(call.on(feed.observed_by(&all)), &timer.hands)
        } else {
            drive(call.on(&feed), &timer.hands)
        };
        assert_eq!((outcome.unwrap(), timer.sleeps.into_inner()), (1, 0));
        timer.reads.into_inner()
    };
    assert_eq!(
        [reads(false, false), reads(true, false), reads(false, true), reads(true, true)],
        [0, 1, 2, 2]
    );
}

#[test]
fn events_print_readable_messages() {
    let (script, timer, events) =
        (Script::new(&[Step::Fail]), ManualTimer::new(), RefCell::new(Vec::new()));
    let policy = STEADY.with_classifier(|error: &Down| match error.0 {
        1 => Verdict::throttled().after(SECOND * 20),
        2 => Verdict::transient(),
        _ => Verdict::fatal(),
    });
    let observer = |event: &Event<'_>| events.borrow_mut().push(event.to_string());
    let feed = feed(&timer);
    let _ = drive(retry(|_| script.play(), &policy, Never).on(feed.observed_by(&observer)), &timer);
    assert_eq!(
        events.take(),
        [
            "feed: attempt 1 of 3 starts",
            "feed: attempt 1 of 3 failed, the upstream asked for a wait of 20.0s: down, 1",
            "feed: attempt 1 of 3 failed, retrying in 20.0s, as the upstream asked: down, 1",
            "feed: attempt 2 of 3 starts",
            "feed: attempt 2 of 3 failed: down, 2",
            "feed: attempt 2 of 3 failed, retrying in 2.0s: down, 2",
            "feed: attempt 3 of 3 starts",
            "feed: attempt 3 of 3 failed: down, 3",
            "feed: gave up after 3 of 3 attempts, the error is final: down, 3",
        ]
    );
    // A call that is held and then cut, and a call that is refused.
    let held = feed.with_cooldown(Cooldown::new().with_jitter(0.0));
    let held = held.with_breaker(Breaker::new()).with_observer(&());
    held.hold(SECOND * 3);
    let hangs = || std::future::pending::<Result<(), Down>>();
    let limited = STEADY.with_attempts(1).with_attempt_timeout(SECOND);
    let _ = drive(retry(|_| hangs(), limited, Never).on(held.observed_by(&observer)), &timer);
    let _isolation = held.isolate();
    let _ = drive(retry(|_| hangs(), limited, Never).on(held.observed_by(&observer)), &timer);
    assert_eq!(
        events.take(),
        [
            "feed: cooldown: all calls wait 3.0s, those with less time left end at once, \
             the program asked for it",
            "feed: attempt 1 of 1 waits at least 3.0s for the cooldown",
            "feed: attempt 1 of 1 starts",
            "feed: attempt 1 of 1 failed: did not finish within 1s",
            "feed: gave up after 1 of 1 attempts: did not finish within 1s",
            "feed: gave up after 0 of 1 attempts, the circuit breaker is open",
        ]
    );
    let healths = [Health::Healthy, Health::Throttling, Health::Failing, Health::Unknown];
    assert_eq!(healths.map(Health::as_str), ["healthy", "throttling", "failing", "unknown"]);
    assert_eq!([HeldBy::Cooldown, HeldBy::Bulkhead].map(HeldBy::as_str), ["cooldown", "bulkhead"]);
    assert_eq!(Cut::Stream.to_string(), "the stream ended before its last item");
    let reasons = [
        StopReason::Fatal,
        StopReason::Unclassified,
        StopReason::Attempts,
        StopReason::Deadline,
        StopReason::Budget,
        StopReason::Open,
        StopReason::Full,
        StopReason::HintTooLong,
        StopReason::Alternatives,
        StopReason::Partial,
        StopReason::Cancelled,
    ];
    let words = [
        "fatal",
        "unclassified",
        "attempts",
        "deadline",
        "budget",
        "open",
        "full",
        "hint_too_long",
        "alternatives",
        "partial",
        "cancelled",
    ];
    assert_eq!(reasons.map(|reason| reason.as_str()), words);
}

/// Returns the text of the event after a failure with this error.
fn text_of_failure(error: &str) -> String {
    let text = RefCell::new(String::new());
    let observer = |event: &Event<'_>| {
        if let EventKind::Failed { .. } = event.kind {
            *text.borrow_mut() = event.to_string();
        }
    };
    let timer = ManualTimer::new();
    let upstream = feed(timer.clone());
    let call = retry(|_| async { Err::<(), _>(error) }, STEADY.with_attempts(1), Never);
    drive(call.on(upstream.observed_by(&observer)), &timer).unwrap_err();
    text.into_inner()
}

#[test]
fn an_error_with_line_breaks_stays_one_line() {
    for (error, escaped) in [
        ("down\n2026-01-01 WARN forged: é\u{1b}[31m", r"down\n2026-01-01 WARN forged: é\u{1b}[31m"),
        ("\r\n\u{85}é\u{b}\u{c}", r"\r\n\u{85}é\u{b}\u{c}"),
        // Unicode has two line breaks that are no control characters.
        ("down\u{2028}WARN\u{2029}é", r"down\u{2028}WARN\u{2029}é"),
    ] {
        let text = text_of_failure(error);
        assert_eq!(text, format!("feed: attempt 1 of 1 failed: {escaped}"));
    }
}

proptest::proptest! {
    /// No error adds a control character or a line break to the text of an event. Other characters
    /// stay.
    #[test]
    fn the_text_of_an_event_has_no_control_characters(
        error in "\\PC{0,20}[\\x00-\\x1f\\x7f-\\x9f\u{2028}\u{2029}]{0,3}\\PC{0,20}",
    ) {
        let text = text_of_failure(&error);
        let is_escaped = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        proptest::prop_assert!(!text.contains(is_escaped), "{text:?}");
        if !error.contains(is_escaped) {
            proptest::prop_assert_eq!(text, format!("feed: attempt 1 of 1 failed: {error}"));
        }
    }
}
