//! The output of `Log` to `tracing`.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Once;
use std::time::Duration;

use ::tracing::field::{Empty, Field, Visit};
use ::tracing::span::{Id, Record};
use ::tracing::{Level, Subscriber};
use resile::classify::ClassifyExt;
use resile::fleet::State;
use resile::observe::{Event, Log};
use resile::quota::{Cost, Rate};
use resile::time::ManualTimer;
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Classify, Cooldown, FallbackPolicy, Health,
    HedgePolicy, Jitter, Never, Quota, RetryPolicy, Upstream, Verdict, fallback, hedge, retry,
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::script::{Down, Script, Step, drive, poll};

const SECOND: Duration = Duration::from_secs(1);

/// A log record: its level, and its fields as text.
type LogRecord = (Level, BTreeMap<&'static str, String>);

thread_local! {
    /// The records logged by this thread's calls.
    static LOGGED: RefCell<Vec<LogRecord>> = const { RefCell::new(Vec::new()) };
    /// The fields of these records that are numbers.
    static NUMBERS: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
    /// The fields recorded on this thread's spans.
    static RECORDED: RefCell<BTreeMap<&'static str, String>> = const { RefCell::new(BTreeMap::new()) };
}

struct Capture;

/// Captures the records of the whole process, separately for each thread. A subscriber for one
/// thread would depend on other tests. `tracing` asks only the thread that reaches a call site
/// first whether a subscriber is interested.
pub(super) fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        ::tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Capture))
            .unwrap();
    });
    LOGGED.take();
    RECORDED.take();
}

fn logged() -> usize {
    LOGGED.with_borrow(Vec::len)
}

struct Fields<'f>(&'f mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        NUMBERS.with_borrow_mut(|numbers| numbers.insert(field.name()));
        self.record_debug(field, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber> Layer<S> for Capture {
    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        RECORDED.with_borrow_mut(|recorded| values.record(&mut Fields(recorded)));
    }

    fn on_event(&self, event: &::tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "resile" {
            let mut fields = BTreeMap::new();
            event.record(&mut Fields(&mut fields));
            LOGGED.with_borrow_mut(|records| records.push((*event.metadata().level(), fields)));
        }
    }
}

/// Returns the records of calls on an upstream with its default observer, without the call site.
/// The call site is checked.
fn records(steps: &'static [Step], policy: &RetryPolicy<impl Classify<Down>>) -> Vec<LogRecord> {
    capture();
    let timer = ManualTimer::new();
    let run = |upstream: &Upstream<&ManualTimer>| {
        let script = Script::new(steps);
        let _ = drive(retry(|_| script.play(), policy, Never).on(upstream), &timer);
    };
    let feed = || Upstream::new("feed").with_timer(&timer);
    run(&feed());
    // `Log` is the default. Setting `Log` explicitly must not log a record twice.
    let once = logged();
    run(&feed().with_observer(&Log));
    assert_eq!(logged(), 2 * once);
    run(&feed().with_observer(&()));
    assert_eq!(logged(), 2 * once, "the observer `()` logs nothing");
    // Beside an observer of all events `Log` still logs only recoveries, and no other successes.
    run(&feed().with_shared_observer((Log, |_: &Event<'_>| ())));
    assert_eq!(logged(), 3 * once);
    let mut records = taken();
    records.truncate(once);
    records
}

/// Takes the records of this thread without the call site, the number of the call, the type of the error
/// and the time, and checks them.
pub(super) fn taken() -> Vec<LogRecord> {
    let mut records = LOGGED.take();
    for (_, fields) in &mut records {
        if let Some(at) = fields.remove("at") {
            assert!(at.starts_with("tests/calls/"), "{at}");
            assert_ne!(fields.remove("call").unwrap().parse(), Ok(0_u16));
        }
        // These have tests of their own.
        fields.remove("error.type");
        fields.remove("elapsed_ms");
    }
    records
}

/// Returns the levels and messages of the records.
pub(super) fn messages() -> Vec<(Level, String)> {
    taken()
        .into_iter()
        .map(|(level, mut fields)| (level, fields.remove("message").unwrap()))
        .collect()
}

fn log_record(level: Level, message: &str, fields: &[(&'static str, &str)]) -> LogRecord {
    let fields = fields.iter().copied().chain([("message", message)]);
    (level, fields.map(|(name, value)| (name, value.to_owned())).collect())
}

fn warn(message: &str) -> (Level, String) {
    (Level::WARN, message.into())
}

fn debug(message: &str) -> (Level, String) {
    (Level::DEBUG, message.into())
}

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(3)
    .with_hint_cap(Duration::from_secs(30))
    .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));

#[test]
fn a_first_success_logs_nothing() {
    assert_eq!(records(&[Step::Succeed], &POLICY), []);
    assert_eq!(records(&[Step::Pend(3, true)], &POLICY), []);
}

#[test]
fn retries_are_warnings_and_recovery_is_debug() {
    assert_eq!(
        records(&[Step::Fail, Step::Succeed], &POLICY),
        [
            log_record(
                Level::WARN,
                "feed: attempt 1 of 3 failed, retrying in 1.0s: down, 1",
                &[
                    ("upstream", "\"feed\""),
                    ("attempt", "1"),
                    ("attempts_allowed", "3"),
                    ("delay_ms", "1000"),
                    ("health", "\"failing\""),
                ]
            ),
            log_record(
                Level::DEBUG,
                "feed: attempt 2 of 3 succeeded",
                &[("upstream", "\"feed\""), ("attempt", "2"), ("attempts_allowed", "3")]
            ),
        ]
    );
}

/// The words of a line and its fields round a time in the same way.
#[test]
fn a_field_in_milliseconds_is_rounded() {
    for (micros, words, field) in [
        (341_960, "342.0ms", "342"),
        (341_500, "341.5ms", "342"),
        (341_499, "341.5ms", "341"),
        (341_040, "341.0ms", "341"),
    ] {
        let steps = Backoff::fixed(Duration::from_micros(micros)).with_jitter(Jitter::None);
        let seen = records(&[Step::Fail, Step::Succeed], &POLICY.with_backoff(steps));
        let (_, fields) = &seen[0];
        let message = format!("feed: attempt 1 of 3 failed, retrying in {words}: down, 1");
        assert_eq!((&fields["message"], &*fields["delay_ms"]), (&message, field));
    }
    let hint = Verdict::throttled().after(Duration::from_micros(2_999_600));
    let policy = POLICY.with_attempts(2).with_classifier(move |_: &Down| hint);
    let seen = records(&[Step::Fail], &policy);
    assert_eq!((&*seen[0].1["hint_ms"], &*seen[1].1["retry_after_ms"]), ("3000", "3000"));
}

/// Many callers collide on one row. The upstream is healthy, so each collision is at DEBUG, but a call
/// that gives up is at WARN.
#[test]
fn a_retry_on_a_healthy_upstream_is_no_warning() {
    let collision = |_: &Down| Verdict::transient().with_health(Health::Healthy);
    let backoff = Backoff::fixed(Duration::from_nanos(368)).with_jitter(Jitter::None);
    let policy = POLICY.with_attempts(2).with_backoff(backoff).with_classifier(collision);
    let seen = records(&[Step::Fail], &policy);
    let line = |(level, fields): &LogRecord| (*level, fields["message"].clone());
    assert_eq!(
        seen.iter().map(line).collect::<Vec<_>>(),
        [
            (Level::DEBUG, "feed: attempt 1 of 2 failed, retrying within 1ms: down, 1".to_owned()),
            warn("feed: gave up after 2 of 2 attempts: down, 2"),
        ]
    );
}

/// The line of the retry was at WARN, so without a line of the end a reader takes the call for recovered. After a
/// collision the error is the caller's own.
#[test]
fn a_final_error_without_effect_after_a_failure_is_a_warning() {
    for (first, levels) in [
        (Verdict::transient(), [Level::WARN, Level::WARN]),
        (Verdict::transient().with_health(Health::Healthy), [Level::DEBUG, Level::DEBUG]),
    ] {
        let closed = Verdict::fatal().with_health(Health::Healthy);
        let verdict = move |error: &Down| if error.0 == 1 { first } else { closed };
        let classifier = move |error: &Down| Some(verdict(error).without_effect());
        let seen = records(&[Step::Fail], &POLICY.with_classifier(classifier));
        assert_eq!(seen.iter().map(|(level, _)| *level).collect::<Vec<_>>(), levels, "{seen:?}");
        let end = &seen[1].1["message"];
        assert!(
            end.starts_with("feed: gave up after 2 of 3 attempts, the error is final"),
            "{end}"
        );
    }
}

/// The field `hint_ms` is a wait that the upstream asked for. At the end of a call `retry_after_ms` is the
/// recommended wait, whoever named it, as in the error.
#[test]
fn a_floor_is_a_recommended_wait_and_not_one_that_was_asked_for() {
    for (verdict, hint) in [
        (Verdict::throttled().at_least(SECOND * 2), None),
        (Verdict::throttled().after(SECOND * 2), Some("2000")),
    ] {
        let policy = POLICY.with_attempts(2).with_classifier(move |_: &Down| verdict);
        let seen = records(&[Step::Fail], &policy);
        let field = |at: usize, name: &str| seen[at].1.get(name).map(String::as_str);
        assert_eq!((seen.len(), field(0, "hint_ms"), field(1, "hint_ms")), (2, hint, None));
        assert_eq!(field(1, "retry_after_ms"), Some("2000"), "{seen:?}");
    }
}

#[test]
fn giving_up_is_a_warning() {
    let classified = POLICY.with_classifier(|error: &Down| match error.0 {
        1 => Verdict::throttled().after(SECOND * 20),
        _ => Verdict::throttled().after(SECOND * 60),
    });
    let policy = classified.with_backoff(Backoff::none().with_jitter(Jitter::None));
    assert_eq!(
        records(&[Step::Fail], &policy),
        [
            log_record(
                Level::WARN,
                "feed: attempt 1 of 3 failed, retrying in 20.0s, as the upstream asked: down, 1",
                &[
                    ("upstream", "\"feed\""),
                    ("attempt", "1"),
                    ("attempts_allowed", "3"),
                    ("delay_ms", "20000"),
                    ("hint_ms", "20000"),
                    ("health", "\"throttling\""),
                ]
            ),
            log_record(
                Level::WARN,
                "feed: gave up after 2 of 3 attempts, the upstream asks for a wait of 60.0s, \
                 more than the hint cap of 30s (`with_hint_cap`): down, 2",
                &[
                    ("upstream", "\"feed\""),
                    ("attempt", "2"),
                    ("attempts_allowed", "3"),
                    ("retry_after_ms", "60000"),
                    ("health", "\"throttling\""),
                    ("reason", "\"hint_too_long\""),
                ]
            ),
        ]
    );
}

/// The caller gets a first fatal error anyway, so it is logged at debug. After a retry it is a
/// warning.
#[test]
fn a_fatal_first_error_is_debug() {
    let fields = |reason: &'static str, health: Option<&'static str>, attempt: &'static str| {
        let fields = [
            ("upstream", "\"feed\""),
            ("attempt", attempt),
            ("attempts_allowed", "3"),
            ("reason", reason),
        ];
        fields.into_iter().chain(health.map(|health| ("health", health))).collect::<Vec<_>>()
    };
    let fatal = "the error is final";
    assert_eq!(
        records(&[Step::Fail], &POLICY.with_classifier(|_: &Down| false)),
        [log_record(
            Level::DEBUG,
            &format!("feed: gave up after 1 of 3 attempts, {fatal}: down, 1"),
            &fields("\"fatal\"", Some("\"unknown\""), "1")
        )]
    );
    assert_eq!(
        records(&[Step::Fail], &POLICY.with_classifier(|_: &Down| None::<Verdict>)),
        [log_record(
            Level::DEBUG,
            "feed: gave up after 1 of 3 attempts, the classifier has no verdict on the error: down, 1",
            &fields("\"unclassified\"", None, "1")
        )]
    );
    // The caller could have had a retry, and does not see that it got none.
    let once = |_: &Down| Verdict::transient().not_repeatable();
    assert_eq!(
        records(&[Step::Fail], &POLICY.with_classifier(once)),
        [log_record(
            Level::WARN,
            "feed: gave up after 1 of 3 attempts, the request cannot be made again: down, 1",
            &fields("\"fatal\"", Some("\"failing\""), "1")
        )]
    );
    let stop = |_: &Down| Verdict::overloaded().idempotent().not_wanted();
    assert_eq!(
        records(&[Step::Fail], &POLICY.with_classifier(stop)),
        [log_record(
            Level::WARN,
            "feed: gave up after 1 of 3 attempts, the upstream asks for no retry: down, 1",
            &fields("\"fatal\"", Some("\"throttling\""), "1")
        )]
    );
    let single = records(&[Step::Fail], &POLICY.with_attempts(1).with_classifier(stop));
    assert_eq!((single.len(), single[0].0), (1, Level::DEBUG), "there was no retry to forbid");
    let then = records(&[Step::Fail], &POLICY.with_classifier(|error: &Down| error.0 == 1));
    assert_eq!(
        then[1],
        log_record(
            Level::WARN,
            &format!("feed: gave up after 2 of 3 attempts, {fatal}: down, 2"),
            &fields("\"fatal\"", Some("\"unknown\""), "2")
        )
    );
    // A call without retries, too: its error is the caller's.
    let once = records(&[Step::Fail], &POLICY.with_attempts(1));
    assert_eq!((once.len(), once[0].0), (1, Level::DEBUG));
    let late = POLICY.with_total_timeout(Duration::from_millis(1));
    let late = records(&[Step::Fail], &late);
    assert_eq!((late.len(), late[0].0), (1, Level::WARN), "other reasons are warnings");
    let forever = records(
        &[Step::Fail],
        &POLICY.with_attempts(u32::MAX).with_classifier(|_: &Down| Verdict::fatal()),
    );
    let words = "feed: gave up after 1 attempt, the error is final: down, 1";
    assert_eq!(forever[0].1["message"], words);
}

/// An error without `Display`.
#[derive(Debug)]
struct Undescribed;

/// A call on a name logs the name and the error. A call without an upstream logs neither.
#[test]
fn a_call_on_a_name_logs_its_name() {
    capture();
    let policy = POLICY.with_backoff(Backoff::none());
    let script = Script::new(&[Step::Fail, Step::Succeed]);
    drive(retry(|_| script.play(), policy, Never).on("weather"), &ManualTimer::new()).unwrap();
    let recovered = ["weather: attempt 2 of 3 succeeded", "attempt 2 of 3 succeeded"];
    let failed = [
        "weather: attempt 1 of 3 failed, retrying at once: down, 1",
        "attempt 1 of 3 failed, retrying at once: error not shown (name the call by `.on(\"…\")`)",
    ];
    assert_eq!(messages(), [warn(failed[0]), debug(recovered[0])]);
    let script = Script::new(&[Step::Fail, Step::Succeed]);
    drive(retry(|_| script.play(), policy, Never), &ManualTimer::new()).unwrap();
    let records = taken();
    assert!(records.iter().all(|(_, fields)| !fields.contains_key("upstream")), "{records:?}");
    LOGGED.set(records);
    assert_eq!(messages(), [warn(failed[1]), debug(recovered[1])]);
    // The line at the end names the remedy too.
    let script = Script::new(&[Step::Fail]);
    let ends = policy.with_attempts(2);
    drive(retry(|_| script.play(), ends, Never), &ManualTimer::new()).unwrap_err();
    let (_, last) = messages().pop().unwrap();
    let advice = "error not shown (name the call by `.on(\"…\")`)";
    assert_eq!(last, format!("gave up after 2 of 2 attempts: {advice}"));

    // An error without `Display` is logged by the words that the operation gives it. The chain of an `anyhow` error is one
    // line.
    let feed = Upstream::new("feed");
    let once = policy.with_attempts(1);
    let _ = drive(
        retry(|_| async { Err::<(), _>(format!("{Undescribed:?}")) }, once, Never).on(&feed),
        &ManualTimer::new(),
    );
    let chain = |_| async { Err::<(), _>(anyhow::anyhow!("reset").context("while asking")) };
    let _ = drive(retry(chain, once, Never).on(&feed), &ManualTimer::new());
    let gave_up = "feed: gave up after 1 of 1 attempts";
    assert_eq!(
        messages(),
        [
            debug(&format!("{gave_up}: Undescribed")),
            debug(&format!("{gave_up}: while asking: reset"))
        ]
    );
}

/// The crate of the store tells operators of an outage, because it knows the reason.
#[test]
fn a_fleet_logs_each_state_at_debug() {
    capture();
    let timer = ManualTimer::new();
    let upstream = Upstream::new("feed").with_timer(timer.clone());
    let shared = upstream.share().unwrap();
    shared.answered();
    let states = [State::Shared, State::Coasting, State::Safe, State::Learning, State::Shared];
    for state in states {
        timer.advance(if state == State::Coasting { SECOND } else { Duration::ZERO });
        shared.report(state, 3);
    }
    let lines = taken().into_iter().map(|(level, mut fields)| {
        assert_eq!(fields.remove("upstream").as_deref(), Some("\"feed\""));
        (level, fields.remove("message").unwrap(), fields.len())
    });
    let expected = [
        (Level::DEBUG, "shared by 3 processes"),
        (
            Level::DEBUG,
            "coasting: exchanges with the store fail (1.0s since the last one that succeeded)",
        ),
        (
            Level::DEBUG,
            "safe mode: exchanges with the store fail, 3 processes known last (1.0s since the last one that succeeded)",
        ),
        (Level::DEBUG, "learning: the store answers, 3 processes known last"),
        (Level::DEBUG, "shared by 3 processes"),
    ];
    let expected = expected.map(|(level, text)| (level, format!("feed: fleet state: {text}"), 0));
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[test]
fn a_breaker_logs_the_start_and_the_end_of_an_outage() {
    capture();
    let timer = ManualTimer::new();
    let open = Backoff::fixed(SECOND * 30).with_jitter(Jitter::None);
    let breaker = Breaker::new().with_consecutive(2).with_open_time(open).with_probes(1.0, 1);
    let feed = Upstream::new("feed").with_breaker(breaker).with_timer(&timer);
    let once = POLICY.with_attempts(1);
    let call = |script: &Script| {
        let _ = drive(retry(|_| script.play(), once, Never).on(&feed), &timer);
    };
    let down = Script::new(&[Step::Fail]);
    (0..2).for_each(|_| call(&down));
    let gave_up = "feed: gave up after 1 of 1 attempts: down";
    let opened = |error: &str| {
        format!(
            "feed: breaker opened for 30.0s, all attempts are refused: too many failures in a row (2): {error}"
        )
    };
    assert_eq!(
        messages(),
        [
            debug(&format!("{gave_up}, 1")),
            warn(&opened("down, 2")),
            debug(&format!("{gave_up}, 2"))
        ]
    );
    (0..3).for_each(|_| call(&down));
    let refused = debug(
        "feed: gave up after 0 of 1 attempts, the circuit breaker is open, try again in 30.0s",
    );
    assert_eq!(messages(), [refused.clone(), refused.clone(), refused]);
    timer.advance(SECOND * 30);
    call(&Script::new(&[Step::Succeed]));
    let closed = |refused: &str| (Level::INFO, format!("feed: breaker closed: {refused}"));
    let after_probe = closed("3 attempts refused within 30.0s");
    assert_eq!(messages(), [debug("feed: breaker half-open, probing"), after_probe]);
    let isolation = feed.isolate();
    call(&down);
    drop(isolation);
    let refused = debug("feed: gave up after 0 of 1 attempts, the circuit breaker is open");
    let released = closed("1 attempt refused");
    assert_eq!(messages(), [warn("feed: breaker isolated"), refused, released]);

    // The fields give the reason, the open time and the failure. There is no call and no call site.
    (0..2).for_each(|_| call(&down));
    let records = LOGGED.take();
    let fields = [
        ("upstream", "\"feed\""),
        ("delay_ms", "30000"),
        ("error.type", "\"calls::script::Down\""),
        ("health", "\"failing\""),
        ("reason", "\"consecutive\""),
    ];
    assert_eq!(records[1], log_record(Level::WARN, &opened("down, 4"), &fields));
}

#[test]
fn refusals_cancellations_and_holds_are_debug() {
    capture();
    let timer = ManualTimer::new();
    let cooldown = Cooldown::new().with_jitter(0.0);
    let full = Bulkhead::new(1).with_queue(0);
    let feed = Upstream::new("feed").with_cooldown(cooldown).with_bulkhead(full).with_timer(&timer);
    let succeeds = || retry(|_| async { Ok::<_, Down>(()) }, POLICY, Never);

    feed.hold(SECOND * 2);
    drive(succeeds().on(&feed), &timer).unwrap();
    let held = "feed: cooldown: all calls wait 2.0s, those with less time left end at once, \
                the program asked for it";
    let waits = debug("feed: attempt 1 of 3 waits at least 2.0s for the cooldown");
    assert_eq!(messages(), [warn(held), waits]);
    let permit = feed.try_admit().unwrap();
    drive(succeeds().on(&feed), &timer).unwrap_err();
    assert_eq!(
        messages(),
        [
            warn("feed: bulkhead full: 1 in flight, 0 queued, further calls wait or are refused"),
            debug("feed: gave up after 0 of 3 attempts, bulkhead full: 1 in flight, 0 queued"),
        ]
    );
    drop(permit);
    let none = Upstream::new("feed").with_bulkhead(Bulkhead::new(0)).with_timer(&timer);
    drive(succeeds().on(&none), &timer).unwrap_err();
    assert_eq!(
        messages(),
        [
            warn("feed: bulkhead with a limit of 0: all calls are refused"),
            debug("feed: gave up after 0 of 3 attempts, bulkhead with a limit of 0"),
        ]
    );

    let token = CancellationToken::new();
    let script = Script::new(&[Step::Fail]);
    let mut call = Box::pin(retry(|_| script.play(), POLICY, &token).on(&feed));
    assert!(poll(call.as_mut()).is_pending());
    token.cancel();
    assert!(poll(call.as_mut()).is_ready());
    let gave_up = debug("feed: gave up after 1 of 3 attempts, cancelled: down, 1");
    assert_eq!(
        messages(),
        [warn("feed: attempt 1 of 3 failed, retrying in 1.0s: down, 1"), gave_up]
    );

    // The start of an empty budget and a timeout are warnings.
    let poor = Upstream::new("feed").with_budget(Budget::new().with_capacity(0)).with_timer(&timer);
    drive(retry(|_| script.play(), POLICY, Never).on(&poor), &timer).unwrap_err();
    assert_eq!(
        messages(),
        [
            warn(
                "feed: retry budget with a capacity of 0: no retries and no hedges are made: \
                 down, 2"
            ),
            debug("feed: gave up after 1 of 3 attempts, the retry budget is spent: down, 2"),
        ]
    );
    let hangs = |_| std::future::pending::<Result<(), Down>>();
    drive(retry(hangs, POLICY.with_total_timeout(SECOND), Never).on(&poor), &timer).unwrap_err();
    let cut = "feed: gave up after 1 of 3 attempts: did not finish before the deadline of the call \
               after 1s";
    assert_eq!(messages(), [warn(cut)]);
}

/// Hedges are logged at debug. A failed alternative is a warning, because a later success would
/// hide the failure.
#[tokio::test(start_paused = true)]
async fn hedges_are_debug_and_failed_alternatives_are_warnings() {
    capture();
    let feed = Upstream::new("feed");
    let op = |attempt: Attempt| async move {
        tokio::time::sleep(if attempt.is_first() { SECOND * 9 } else { SECOND }).await;
        Ok::<_, Down>(())
    };
    hedge(op, HedgePolicy::new().with_delay(SECOND), Never).on(&feed).await.unwrap();
    // `Started` of a first attempt and `Lost` go only to observers of all events.
    let started = debug("feed: attempt 2 of 2 starts");
    assert_eq!(messages(), [started, debug("feed: attempt 2 of 2 succeeded")]);
    let poor = Upstream::new("feed").with_budget(Budget::new().with_capacity(0));
    hedge(op, HedgePolicy::new().with_delay(SECOND * 5), Never).on(&poor).await.unwrap();
    let spent = "feed: retry budget with a capacity of 0: no retries and no hedges are made";
    let denied = "feed: hedge not started after attempt 1 of 2: the retry budget is spent";
    assert_eq!(messages(), [warn(spent), debug(denied)]);

    let answer = |it: resile::fallback::Alternative<'_, u32>| {
        let (value, last) = (*it.value(), it.is_last());
        async move { if last { Ok(value) } else { Err(Down(value)) } }
    };
    fallback(&[1, 2], answer, FallbackPolicy::new(), Never).on("models").await.unwrap();
    // A fallback goes on at once, so its line has no delay.
    LOGGED.with_borrow(|records| {
        assert!(records.iter().all(|(_, fields)| !fields.contains_key("delay_ms")), "{records:?}");
    });
    let failed = warn("models: alternative 1 of 2 failed, trying the next: down, 1");
    assert_eq!(messages(), [failed, debug("models: alternative 2 of 2 succeeded")]);
}

/// The line of a fallback has the end of the call within its alternative, so it stands there only.
#[test]
fn an_end_within_an_alternative_is_a_warning_once() {
    capture();
    let timer = ManualTimer::new();
    let policy = POLICY.with_attempts(2).with_backoff(Backoff::none());
    let inner = |policy: RetryPolicy<_>| {
        retry(|_| async { Err::<(), _>(Down(1)) }, policy, Never).on("large")
    };
    let end = "large: gave up after 2 of 2 attempts: down, 1";
    let models = Upstream::new("models").with_timer(&timer);
    let quiet = Upstream::new("models").with_timer(&timer).with_observer(&());
    let counting = Upstream::new("models").with_timer(&timer);
    let counting = counting.with_shared_observer(|_: &Event<'_>| ());
    let both = Upstream::new("models").with_timer(&timer);
    let both = both.with_shared_observer((|_: &Event<'_>| (), Log));
    let ends = || {
        let mut lines = messages();
        lines.retain(|(_, line)| line == end);
        lines
    };
    for (upstream, is_told) in [(&models, true), (&quiet, false), (&counting, false), (&both, true)]
    {
        let call = fallback(&[1, 2], |_| inner(policy), FallbackPolicy::new(), Never);
        drive(call.on(upstream), &timer).unwrap_err();
        let line = if is_told { debug(end) } else { warn(end) };
        assert_eq!(ends(), [line.clone(), line]);
    }
    // The words of these errors are in no line: a name has the log, and no name has the type only.
    let call = fallback(&[1], |_| inner(policy), FallbackPolicy::new(), Never);
    drive(call.on("models"), &timer).unwrap_err();
    assert_eq!(ends(), [debug(end)]);
    drive(fallback(&[1], |_| inner(policy), FallbackPolicy::new(), Never), &timer).unwrap_err();
    assert_eq!(ends(), [warn(end)]);
    // A later call on the same thread is not within the fallback.
    drive(inner(policy), &timer).unwrap_err();
    assert_eq!(ends(), [warn(end)]);
    // Somebody must find out the outcome of a request in doubt.
    let order = |_: &Down| Verdict::transient().not_again();
    let ask = |_: resile::fallback::Alternative<'_, i32>| {
        let failing = |_| async { Err::<(), _>(Down(1)) };
        retry(failing, policy.with_classifier(order), Never).on("large")
    };
    drive(fallback(&[1], ask, FallbackPolicy::new(), Never).on(&models), &timer).unwrap_err();
    let doubt = "large: gave up after 1 of 2 attempts, the request may have been executed and must \
                 not be sent again: down, 1";
    assert!(messages().contains(&warn(doubt)));
}

/// The caller of a fallback has no other resort. A part that refuses has a line of its own, and a cancellation
/// is the caller's own wish.
#[test]
fn the_end_of_a_fallback_is_a_warning() {
    let timer = ManualTimer::new();
    let large = Upstream::new("large").with_timer(&timer).with_breaker(Breaker::new());
    let _isolation = large.isolate();
    let small = Upstream::new("small").with_timer(&timer);
    let models = Upstream::new("models").with_timer(&timer);
    let ends = || {
        let mut lines = messages();
        lines.retain(|(_, line)| line.starts_with("models: gave up"));
        lines
    };
    // A part of its upstream refuses each alternative.
    capture();
    let refused = |_: resile::fallback::Alternative<'_, i32>| {
        retry(|_| async { Err::<(), _>(Down(1)) }, POLICY, Never).on(&large)
    };
    drive(fallback(&[1, 2], refused, FallbackPolicy::new(), Never).on(&models), &timer)
        .unwrap_err();
    let end = "models: gave up after 2 of 2 alternatives: large: gave up after 0 attempts, the \
               circuit breaker is open";
    assert_eq!(ends(), [debug(end)]);
    // The first one fails by itself, which is a line of its own.
    let once = POLICY.with_attempts(1);
    let down_first = |it: resile::fallback::Alternative<'_, i32>| {
        let upstream = if it.is_last() { &large } else { &small };
        retry(|_| async { Err::<(), _>(Down(1)) }, once, Never).on(upstream)
    };
    let call = fallback(&[1, 2], down_first, FallbackPolicy::new(), Never).on(&models);
    drive(call, &timer).unwrap_err();
    let next = "models: alternative 1 of 2 failed, trying the next: small: gave up after 1 attempt: \
                down, 1";
    let lines = messages();
    assert!(lines.contains(&warn(next)) && lines.contains(&debug(end)), "{lines:?}");
    // A part of the upstream that all alternatives share refuses them.
    let none = |_: resile::fallback::Alternative<'_, i32>| async { Err::<(), _>(Down(1)) };
    drive(fallback(&[1], none, FallbackPolicy::new(), Never).on(&large), &timer).unwrap_err();
    let end = "large: gave up after 0 of 1 alternatives, the circuit breaker is open";
    assert_eq!(messages(), [debug(end)]);
    // The first error is final.
    let down = |_: resile::fallback::Alternative<'_, i32>| async { Err::<(), _>(Down(1)) };
    let is_final = FallbackPolicy::new().with_classifier(|_: &Down| Verdict::fatal());
    drive(fallback(&[1, 2], down, is_final, Never).on(&models), &timer).unwrap_err();
    let end = "models: gave up after 1 of 2 alternatives, no other alternative is tried, \
               because the classifier of the fallback forbids it: down, 1";
    assert_eq!(ends(), [warn(end)]);
    // The token of the fallback, and that of the call within it.
    let token = CancellationToken::new();
    token.cancel();
    drive(fallback(&[1], down, FallbackPolicy::new(), &token).on(&models), &timer).unwrap_err();
    assert_eq!(ends(), [debug("models: gave up after 0 of 1 alternatives, cancelled")]);
    let cancelled = |_: resile::fallback::Alternative<'_, i32>| {
        retry(|_| async { Err::<(), _>(Down(1)) }, POLICY, &token).on("small")
    };
    drive(fallback(&[1], cancelled, FallbackPolicy::new(), Never).on(&models), &timer).unwrap_err();
    let end = "models: gave up after 1 alternative: small: gave up after 0 attempts, cancelled";
    assert_eq!(ends(), [debug(end)]);
}

/// Each pair of call sites is logged once, for any number of calls.
#[test]
fn nested_calls_are_logged_once_for_each_pair_of_call_sites() {
    capture();
    let inner = || retry(|_| async { Ok::<_, Down>(()) }, POLICY, Never).on("inner");
    let outer = || retry(|_| inner(), POLICY, Never).on("outer");
    (0..3).for_each(|_| drive(outer(), &ManualTimer::new()).unwrap());
    let records = taken();
    assert_eq!(records.len(), 1, "{records:?}");
    let (level, fields) = &records[0];
    let message = &fields["message"];
    assert_eq!((*level, &*fields["upstream"]), (Level::WARN, "\"inner\""));
    let start = format!("inner: this call runs within an attempt of the call at {}:", file!());
    assert!(
        message.starts_with(&start) && message.ends_with(": their attempts multiply"),
        "{message}"
    );
    // The same inner call site in another outer call is another pair.
    drive(retry(|_| inner(), POLICY, Never).on("outer"), &ManualTimer::new()).unwrap();
    assert_eq!(taken().len(), 1);
}

/// Numbers are numbers, not texts. The type of the error has a field of its own.
#[test]
fn the_fields_of_a_line_can_be_queried() {
    capture();
    NUMBERS.take();
    let timer = ManualTimer::new();
    let classify = |error: &Down| match error.0 {
        1 => Verdict::throttled().after(SECOND * 20),
        _ => Verdict::throttled().after(SECOND * 60),
    };
    let script = Script::new(&[Step::Fail]);
    let feed = Upstream::new("feed").with_timer(&timer);
    let backoff = Backoff::none().with_jitter(Jitter::None);
    let policy = POLICY.with_classifier(classify).with_backoff(backoff);
    let call = || retry(|_| script.play(), policy, Never).on(&feed);
    drive(call(), &timer).unwrap_err();
    let records = LOGGED.take();
    let field = |at: usize, name: &str| records[at].1.get(name).cloned().unwrap_or_default();
    let error_type = format!("{:?}", std::any::type_name::<Down>());
    for (at, expected) in [
        (0, [("delay_ms", "20000"), ("hint_ms", "20000")]),
        (1, [("elapsed_ms", "20000"), ("retry_after_ms", "60000")]),
    ] {
        for (name, value) in expected {
            assert_eq!(field(at, name), value, "{name}");
        }
        assert_eq!((field(at, "call"), field(at, "error.type")), ("1".into(), error_type.clone()));
    }
    let numbers = ["attempt", "attempts_allowed", "call", "delay_ms", "elapsed_ms", "hint_ms"];
    let numbers = numbers.into_iter().chain(["retry_after_ms"]);
    assert_eq!(NUMBERS.take(), numbers.collect());
    // Another call at this site has another number.
    drive(call(), &timer).unwrap_err();
    assert_eq!(LOGGED.take()[0].1["call"], "2");
}

/// A policy without a limit allows the largest number, which tells nothing. A time below 1 ms reads as that
/// of a call whose clock did not run.
#[test]
fn a_field_that_tells_nothing_is_left_out() {
    let timer = ManualTimer::new();
    let feed = Upstream::new("feed").with_timer(&timer);
    let field = |policy: RetryPolicy, lasting: Duration, name: &str| {
        capture();
        let fails = |_| {
            timer.advance(lasting);
            std::future::ready(Err::<(), _>(Down(1)))
        };
        drive(retry(fails, policy, Never).on(&feed), &timer).unwrap_err();
        LOGGED.take()[0].1.remove(name)
    };
    let endless = POLICY.with_attempts(u32::MAX).with_total_timeout(SECOND / 2);
    assert_eq!(field(endless, Duration::ZERO, "attempts_allowed"), None);
    assert_eq!(field(POLICY, Duration::ZERO, "attempts_allowed").as_deref(), Some("3"));
    let limited = POLICY.with_total_timeout(SECOND * 9);
    for lasting in [Duration::ZERO, Duration::from_micros(1), Duration::from_micros(999)] {
        assert_eq!(field(limited, lasting, "elapsed_ms"), None, "{lasting:?}");
    }
    let one = field(limited, Duration::from_millis(1), "elapsed_ms");
    assert_eq!(one.as_deref(), Some("1"));
    // Nothing has read the clock before the attempt.
    assert_eq!(field(POLICY, SECOND, "elapsed_ms"), None);
}

/// A classifier that names the types of its errors.
struct Names;

impl Classify<Down> for Names {
    fn classify(&self, error: &Down) -> Option<Verdict> {
        (error.0 != 9).then(Verdict::transient)
    }

    fn error_type<'e>(&self, _: &'e Down) -> Option<Cow<'e, str>> {
        Some("503".into())
    }
}

#[test]
fn the_type_of_an_error_is_one_true_word() {
    let timer = ManualTimer::new();
    let policy = POLICY.with_attempts(1);
    let recorded = |call: &mut dyn FnMut()| {
        capture();
        let span = ::tracing::info_span!("ask", error.type = Empty);
        span.in_scope(call);
        RECORDED.take().remove("error.type").unwrap_or_default().replace('"', "")
    };
    let feed = || Upstream::new("feed").with_timer(&timer);
    let fails = |_| async { Err::<(), _>(Down(1)) };
    let ends = |upstream: &Upstream<&ManualTimer>, token: &CancellationToken| {
        recorded(&mut || {
            drive(retry(fails, policy.with_classifier(Names), token).on(upstream), &timer)
                .unwrap_err();
        })
    };
    let (token, cancelled) = (CancellationToken::new(), CancellationToken::new());
    cancelled.cancel();
    assert_eq!(ends(&feed(), &token), "503");
    assert_eq!(ends(&feed(), &cancelled), "cancelled");
    let isolated = feed().with_breaker(Breaker::new());
    let _isolation = isolated.isolate();
    assert_eq!(ends(&isolated, &token), "open");
    assert_eq!(ends(&feed().with_bulkhead(Bulkhead::new(0)), &token), "full");
    let small = Quota::new().with_tokens(Rate::per_second(1).with_burst(1));
    let small = feed().with_quota(small);
    let too_large = recorded(&mut || {
        let call = retry(fails, policy.with_classifier(Names), Never);
        drive(call.on(small.at_cost(Cost::input(2))), &timer).unwrap_err();
    });
    assert_eq!(too_large, "too_large");
    // The budget ends the call, but the error is why it failed.
    let poor = feed().with_budget(Budget::new().with_capacity(0));
    let spent = recorded(&mut || {
        drive(retry(fails, POLICY.with_classifier(Names), Never).on(&poor), &timer).unwrap_err();
    });
    assert_eq!(spent, "503");
    let hangs = recorded(&mut || {
        let hangs = |_| std::future::pending::<Result<(), Down>>();
        let policy = policy.with_classifier(Names).with_attempt_timeout(SECOND);
        drive(retry(hangs, policy, Never).on(&feed()), &timer).unwrap_err();
    });
    assert_eq!(hangs, "timeout");
    let by_hand = recorded(&mut || feed().try_admit().unwrap().settle(&Verdict::transient()));
    assert_eq!(by_hand, "_OTHER");
    // Every way to pass a classifier keeps its words.
    let down = Down(1);
    let names = Some(Cow::Borrowed("503"));
    assert_eq!((|_: &Down| true, Names).error_type(&down), names);
    assert_eq!((Names, |_: &Down| true).error_type(&down), names);
    assert_eq!(std::sync::Arc::new(Names).error_type(&down), names);
    assert_eq!(Names.cut_is(Verdict::fatal()).error_type(&down), names);
    let by_reference: &(dyn Classify<Down> + Send + Sync) = &Names;
    assert_eq!(by_reference.error_type(&down), names);
    let operation = resile::timeout::Error::Operation(down);
    assert_eq!(resile::timeout::ClassifyOperation(Names).error_type(&operation), names);
    assert_eq!((|_: &Down| true).error_type(&down), None);
}

#[test]
fn a_hedge_names_the_true_end_and_the_part_that_denied_it() {
    capture();
    let feed = Upstream::new("feed").with_timer(ManualTimer::new());
    let fails = |_| async { Err::<(), _>(Down(1)) };
    let call = hedge(fails, HedgePolicy::new(), Never).on(&feed);
    drive(call, &ManualTimer::new()).unwrap_err();
    let ended = "feed: gave up after 1 of 2 attempts, no attempt was left in flight: down, 1";
    assert_eq!(messages(), [warn(ended)]);

    let denied = |upstream: Upstream, limit: &str| {
        let timer = ManualTimer::new();
        let upstream = upstream.with_timer(&timer);
        let slow = |_| {
            let sleep = resile::time::Timer::sleep(&timer, SECOND * 5);
            async move {
                sleep.await;
                Ok::<_, Down>(())
            }
        };
        drive(hedge(slow, HedgePolicy::new(), Never).on(&upstream), &timer).unwrap();
        let denied = format!("feed: hedge not started after attempt 1 of 2: {limit}");
        let lines = messages();
        assert!(lines.contains(&debug(&denied)), "{lines:?}");
    };
    let feed = || Upstream::new("feed");
    denied(feed().with_budget(Budget::new().with_capacity(0)), "the retry budget is spent");
    denied(feed().with_bulkhead(Bulkhead::new(1)), "the bulkhead is full");
    let one = Quota::new().with_requests(Rate::per_minute(1).with_burst(1));
    denied(feed().with_quota(one), "the quota is used up");
}

/// The caller's span gets fields with OpenTelemetry's names, if it declares them.
#[test]
fn the_span_records_the_resends_and_the_error_type() {
    capture();
    let (timer, span) = (
        ManualTimer::new(),
        || ::tracing::info_span!("ask", http.request.resend_count = Empty, error.type = Empty),
    );
    let recorded = |steps: &'static [Step], policy: RetryPolicy| {
        let (script, feed) = (Script::new(steps), Upstream::new("feed").with_timer(&timer));
        let _ =
            span().in_scope(|| drive(retry(|_| script.play(), policy, Never).on(&feed), &timer));
        RECORDED.take().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(recorded(&[Step::Succeed], POLICY), []);
    assert_eq!(
        recorded(&[Step::Fail, Step::Fail, Step::Succeed], POLICY),
        [("http.request.resend_count", "2".to_owned())]
    );
    let error = ("error.type", format!("{:?}", std::any::type_name::<Down>()));
    assert_eq!(recorded(&[Step::Fail], POLICY.with_attempts(1)), std::slice::from_ref(&error));
    assert_eq!(
        recorded(&[Step::Fail], POLICY),
        [error, ("http.request.resend_count", "2".to_owned())]
    );
    let cut = POLICY.with_attempts(1).with_attempt_timeout(SECOND);
    assert_eq!(recorded(&[Step::Hang], cut), [("error.type", "\"timeout\"".to_owned())]);
    // A span without these fields records nothing, and nothing panics.
    let script = Script::new(&[Step::Fail]);
    let policy = POLICY.with_backoff(Backoff::none());
    let _ = ::tracing::info_span!("bare")
        .in_scope(|| drive(retry(|_| script.play(), policy, Never), &timer));
    assert_eq!(RECORDED.take().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn waits_and_refusals_of_a_quota_are_named() {
    capture();
    let quota = Quota::new().with_tokens(Rate::per_second(100)).with_queue(1);
    let feed = Upstream::new("feed").with_quota(quota);
    let down = |_| async { Ok::<_, Down>(()) };
    let ask = |cost| retry(down, RetryPolicy::new(), Never).on(feed.at_cost(Cost::input(cost)));
    ask(100).await.unwrap();
    ask(50).await.unwrap();
    let used_up = "feed: quota used up: it holds this attempt for 500.0ms, the limit is 100 tokens per 1s, 1 queued, further calls \
                   wait or are refused";
    assert_eq!(
        messages(),
        [warn(used_up), debug("feed: attempt 1 of 3 waits 500.0ms for the quota")]
    );

    let error = ask(101).await.unwrap_err();
    let message = "feed: gave up after 0 of 3 attempts, the cost of 101 tokens is above the quota's burst of 100 (`with_burst`)";
    assert_eq!(messages(), [(Level::WARN, message.to_owned())]);
    assert!(error.to_string().contains("the cost of 101 tokens is above the quota's burst of 100"));
}

/// A call that is refused at once has no error that names its request, so the place does.
#[tokio::test(start_paused = true)]
async fn the_line_of_a_refused_call_has_its_place() {
    capture();
    let feed = Upstream::new("feed").with_breaker(Breaker::new());
    let _isolation = feed.isolate();
    let items = resile::http::Classifier::idempotent().with_place("GET /items");
    let get = async |_| Ok::<(), resile::http::Failure>(());
    retry(get, POLICY.with_classifier(items), Never).on(&feed).await.unwrap_err();
    let refused =
        "feed: gave up after 0 of 3 attempts, the circuit breaker is open (request: GET /items)";
    assert!(messages().contains(&debug(refused)));
}

/// The line of a wait for a part has the place too.
#[test]
fn the_line_of_a_wait_has_its_place() {
    capture();
    let timer = ManualTimer::new();
    let items = resile::http::Classifier::idempotent().with_place("GET /items");
    let policy = POLICY.with_classifier(items);
    let get = |_| async { Ok::<(), resile::http::Failure>(()) };
    let cooldown = Cooldown::new().with_jitter(0.0);
    let feed = Upstream::new("feed").with_cooldown(cooldown).with_timer(&timer);
    feed.hold(SECOND * 2);
    drive(retry(get, policy, Never).on(&feed), &timer).unwrap();
    let quota = Quota::new().with_requests(Rate::per_second(1).with_burst(1));
    let feed = Upstream::new("feed").with_quota(quota).with_timer(&timer);
    for _ in 0..2 {
        drive(retry(get, policy, Never).on(&feed), &timer).unwrap();
    }
    let feed = Upstream::new("feed").with_bulkhead(Bulkhead::new(1)).with_timer(&timer);
    let _place = feed.try_admit().unwrap();
    assert!(poll(Box::pin(retry(get, policy, Never).on(&feed)).as_mut()).is_pending());
    let mut waits = LOGGED.take();
    waits.retain(|(_, fields)| fields["message"].contains(" waits "));
    let told = waits.iter().map(|(_, fields)| (&*fields["message"], &*fields["place"]));
    let line = |words: &str| format!("feed: attempt 1 of 3 waits {words} (request: GET /items)");
    assert_eq!(
        told.collect::<Vec<_>>(),
        ["at least 2.0s for the cooldown", "1.0s for the quota", "for the bulkhead"]
            .map(line)
            .iter()
            .map(|line| (&**line, "\"GET /items\""))
            .collect::<Vec<_>>()
    );
}

/// A classifier that knows the place and counts how often it is asked for it.
struct Placed<'a>(&'a Cell<u32>);

impl Classify<Down> for Placed<'_> {
    fn classify(&self, _: &Down) -> Option<Verdict> {
        Some(Verdict::transient())
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        self.0.set(self.0.get() + 1);
        Some("/store.Store/Stock".into())
    }
}

/// The lines of one upstream are told apart by the request, also that of a call that recovered.
#[test]
fn the_place_is_a_field() {
    let timer = ManualTimer::new();
    let logged = |steps: &'static [Step]| {
        capture();
        let breaker = Breaker::new().with_consecutive(2);
        let feed = Upstream::new("feed").with_timer(&timer).with_breaker(breaker);
        let (script, asked) = (Script::new(steps), Cell::new(0));
        let policy = POLICY.with_classifier(Placed(&asked));
        let _ = drive(retry(|_| script.play(), policy, Never).on(&feed), &timer);
        let place = |(_, mut it): LogRecord| (it.remove("message"), it.remove("place"));
        let lines: Vec<_> = LOGGED.take().into_iter().map(place).collect();
        for (message, place) in &lines {
            assert_eq!(place.as_deref(), Some("\"/store.Store/Stock\""), "{message:?}");
        }
        lines.into_iter().filter_map(|(message, _)| message).collect::<Vec<_>>()
    };
    let recovered = logged(&[Step::Fail, Step::Succeed]);
    assert_eq!(recovered.len(), 2);
    assert_eq!(recovered[1], "feed: attempt 2 of 3 succeeded (request: /store.Store/Stock)");
    let ended = logged(&[Step::Fail, Step::Fail]);
    let is_there = |words: &str| ended.iter().any(|line| line.contains(words));
    assert!(
        ["retrying in 1.0s: ", "breaker opened", "gave up after 2 of 3"].map(is_there) == [true; 3]
    );
}

/// An alternative of a fallback has a place of its own, so the line of the fallback has none.
#[test]
fn a_fallback_has_no_place() {
    capture();
    let timer = ManualTimer::new();
    let models = Upstream::new("models").with_timer(&timer);
    let asked = Cell::new(0);
    let policy = FallbackPolicy::new().with_classifier(Placed(&asked));
    let answer = |it: resile::fallback::Alternative<'_, u32>| {
        let (value, last) = (*it.value(), it.is_last());
        async move { if last { Ok(value) } else { Err(Down(value)) } }
    };
    let call = fallback(&[1, 2], answer, policy, Never);
    drive(call.on(&models), &timer).unwrap();
    let lines = LOGGED.take();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|(_, fields)| !fields.contains_key("place")), "{lines:?}");
}

/// A classifier may allocate its place, so it is not asked for a line that is not written. Only a request that must not
/// be sent again keeps its place, while it is in flight.
#[test]
fn a_first_success_does_not_ask_for_the_place() {
    capture();
    let timer = ManualTimer::new();
    let feed = || Upstream::new("feed").with_timer(&timer);
    for feed in [feed(), feed().with_shared_observer((Log, |_: &Event<'_>| ()))] {
        let (script, asked) = (Script::new(&[Step::Pend(1, true)]), Cell::new(0));
        let policy = POLICY.with_classifier(Placed(&asked));
        drive(retry(|_| script.play(), policy, Never).on(&feed), &timer).unwrap();
        assert_eq!((asked.get(), logged()), (0, 0));
    }
}
