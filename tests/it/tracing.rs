//! What `Log` writes to `tracing`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Once;
use std::time::Duration;

use ::tracing::field::{Empty, Field, Visit};
use ::tracing::span::{Id, Record};
use ::tracing::{Level, Subscriber};
use resile::observe::{Event, Log};
use resile::{
    Attempt, Backoff, Breaker, Budget, Bulkhead, Classify, Cooldown, FallbackPolicy, HedgePolicy,
    Jitter, ManualTimer, Never, RetryPolicy, Upstream, Verdict, fallback, hedge, retry,
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::script::{Down, Script, Step, drive, poll};

const SECOND: Duration = Duration::from_secs(1);

/// A line: its level, and its fields in words.
type Line = (Level, BTreeMap<&'static str, String>);

thread_local! {
    /// What this thread's calls have logged.
    static LOGGED: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    /// What was recorded on this thread's spans.
    static RECORDED: RefCell<BTreeMap<&'static str, String>> = const { RefCell::new(BTreeMap::new()) };
}

struct Capture;

/// Captures for the whole process, each thread's lines by themselves. A subscriber for one thread alone would depend on the
/// tests beside this one: `tracing` asks the thread that meets a call site first whether anybody listens there.
fn capture() {
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
            LOGGED.with_borrow_mut(|lines| lines.push((*event.metadata().level(), fields)));
        }
    }
}

/// The lines of calls on an upstream that is given no other observer, without the place, which is checked.
fn lines(steps: &'static [Step], policy: &RetryPolicy<impl Classify<Down>>) -> Vec<Line> {
    capture();
    let timer = ManualTimer::new();
    let run = |upstream: &Upstream<&ManualTimer>| {
        let script = Script::new(steps);
        let _ = drive(retry(|_| script.play(), policy, Never).on(upstream), &timer);
    };
    let feed = || Upstream::new("feed").with_timer(&timer);
    run(&feed());
    // `Log` is the default: to ask for it says each line once, not twice, and no line of another observer's.
    let once = logged();
    run(&feed().with_observer(&Log));
    assert_eq!(logged(), 2 * once);
    run(&feed().with_observer(&()));
    assert_eq!(logged(), 2 * once, "() is silent");
    // Beside one who wants to hear of every success, still only of recoveries.
    run(&feed().with_shared_observer((Log, |_: &Event<'_>| ())));
    assert_eq!(logged(), 3 * once);
    let mut lines = taken();
    lines.truncate(once);
    lines
}

/// What was logged, without the place, which is checked.
fn taken() -> Vec<Line> {
    let mut lines = LOGGED.take();
    for (_, fields) in &mut lines {
        if let Some(at) = fields.remove("at") {
            assert!(at.starts_with(&format!("{}:", file!())), "{at}");
        }
    }
    lines
}

/// The levels and messages of what was logged.
fn messages() -> Vec<(Level, String)> {
    taken()
        .into_iter()
        .map(|(level, mut fields)| (level, fields.remove("message").unwrap()))
        .collect()
}

fn line(level: Level, message: &str, fields: &[(&'static str, &str)]) -> Line {
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
fn success_at_once_says_nothing() {
    assert_eq!(lines(&[Step::Succeed], &POLICY), []);
    assert_eq!(lines(&[Step::Pend(3, true)], &POLICY), []);
}

#[test]
fn retries_warn_and_recovery_is_a_detail() {
    assert_eq!(
        lines(&[Step::Fail, Step::Succeed], &POLICY),
        [
            line(
                Level::WARN,
                "feed: attempt 1 of 3 failed, retrying in 1.0s: down, 1",
                &[
                    ("upstream", "\"feed\""),
                    ("attempt", "1"),
                    ("attempts_allowed", "3"),
                    ("delay", "1s"),
                    ("health", "\"failing\""),
                ]
            ),
            line(
                Level::DEBUG,
                "feed: attempt 2 of 3 succeeded",
                &[("upstream", "\"feed\""), ("attempt", "2"), ("attempts_allowed", "3")]
            ),
        ]
    );
}

#[test]
fn giving_up_warns() {
    let judged = POLICY.with_classifier(|error: &Down| match error.0 {
        1 => Verdict::throttled().after(SECOND * 20),
        _ => Verdict::throttled().after(SECOND * 60),
    });
    let policy = judged.with_backoff(Backoff::none().with_jitter(Jitter::None));
    assert_eq!(
        lines(&[Step::Fail], &policy),
        [
            line(
                Level::WARN,
                "feed: attempt 1 of 3 failed, retrying in 20.0s: down, 1 (asked to wait 20.0s)",
                &[
                    ("upstream", "\"feed\""),
                    ("attempt", "1"),
                    ("attempts_allowed", "3"),
                    ("delay", "20s"),
                    ("hint", "20s"),
                    ("health", "\"throttling\""),
                ]
            ),
            line(
                Level::WARN,
                "feed: gave up after 2 of 3 attempts, the upstream asked for a longer wait than the policy allows: \
                 down, 2 (asked to wait 60.0s)",
                &[
                    ("upstream", "\"feed\""),
                    ("attempt", "2"),
                    ("attempts_allowed", "3"),
                    ("hint", "60s"),
                    ("health", "\"throttling\""),
                    ("reason", "\"hint_too_long\""),
                ]
            ),
        ]
    );
}

/// The caller has a first error that is final: a detail. After a retry it is the end of a story, and warns.
#[test]
fn a_fatal_first_error_is_a_detail() {
    let fields = |reason: &'static str, health: Option<&'static str>, attempt: &'static str| {
        let fields = [
            ("upstream", "\"feed\""),
            ("attempt", attempt),
            ("attempts_allowed", "3"),
            ("reason", reason),
        ];
        fields.into_iter().chain(health.map(|health| ("health", health))).collect::<Vec<_>>()
    };
    let fatal = "the request must not be sent again";
    assert_eq!(
        lines(&[Step::Fail], &POLICY.with_classifier(|_: &Down| false)),
        [line(
            Level::DEBUG,
            &format!("feed: gave up after 1 of 3 attempts, {fatal}: down, 1"),
            &fields("\"fatal\"", Some("\"unknown\""), "1")
        )]
    );
    assert_eq!(
        lines(&[Step::Fail], &POLICY.with_classifier(|_: &Down| None::<Verdict>)),
        [line(
            Level::DEBUG,
            "feed: gave up after 1 of 3 attempts, the classifier has no verdict on the error: down, 1",
            &fields("\"unclassified\"", None, "1")
        )]
    );
    let then = lines(&[Step::Fail], &POLICY.with_classifier(|error: &Down| error.0 == 1));
    assert_eq!(
        then[1],
        line(
            Level::WARN,
            &format!("feed: gave up after 2 of 3 attempts, {fatal}: down, 2"),
            &fields("\"fatal\"", Some("\"unknown\""), "2")
        )
    );
    // Other reasons warn, also on the first attempt.
    let once = lines(&[Step::Fail], &POLICY.with_attempts(1));
    assert_eq!((once.len(), once[0].0), (1, Level::WARN));
}

/// An error without `Display`.
#[derive(Debug)]
struct Undescribed;

/// A call on a name has the name and the error's words; one on nothing has neither.
#[test]
fn a_name_alone_and_no_name() {
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
    let lines = taken();
    assert!(lines.iter().all(|(_, fields)| !fields.contains_key("upstream")), "{lines:?}");
    LOGGED.set(lines);
    assert_eq!(messages(), [warn(failed[1]), debug(recovered[1])]);

    // An error without `Display` has the words of its `Debug`; the chain of an `anyhow` error is one line.
    let feed = Upstream::new("feed");
    let once = policy.with_attempts(1);
    let _ = drive(
        retry(|_| async { Err::<(), _>(Undescribed) }, once, Never).on(feed.debug()),
        &ManualTimer::new(),
    );
    let chain = |_| async { Err::<(), _>(anyhow::anyhow!("reset").context("while asking")) };
    let _ = drive(retry(chain, once, Never).on(&feed), &ManualTimer::new());
    let gave_up = "feed: gave up after 1 of 1 attempts";
    assert_eq!(
        messages(),
        [
            warn(&format!("{gave_up}: Undescribed")),
            warn(&format!("{gave_up}: while asking: reset"))
        ]
    );
}

/// An outage logs its beginning and its end, not each refusal.
#[test]
fn a_breaker_logs_the_beginning_and_the_end_of_an_outage() {
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
    let opened = "feed: breaker opened for 30.0s: too many failures in a row";
    assert_eq!(
        messages(),
        [warn(&format!("{gave_up}, 1")), warn(opened), warn(&format!("{gave_up}, 2"))]
    );
    (0..3).for_each(|_| call(&down));
    let refused = debug(
        "feed: gave up after 0 of 1 attempts, the circuit breaker is open, try again in 30.0s",
    );
    assert_eq!(messages(), [refused.clone(), refused.clone(), refused]);
    timer.advance(SECOND * 30);
    call(&Script::new(&[Step::Succeed]));
    let closed = (Level::INFO, "feed: breaker closed".to_owned());
    assert_eq!(messages(), [debug("feed: breaker half-open, probing"), closed.clone()]);
    drop(feed.isolate());
    assert_eq!(messages(), [warn("feed: breaker isolated"), closed]);

    // Its fields: why, and for how long. No call, no place.
    (0..2).for_each(|_| call(&down));
    let lines = LOGGED.take();
    let fields = [("upstream", "\"feed\""), ("delay", "30s"), ("reason", "\"consecutive\"")];
    assert_eq!(lines[1], line(Level::WARN, opened, &fields));
}

#[test]
fn refusals_cancellation_and_waits_are_details() {
    capture();
    let timer = ManualTimer::new();
    let cooldown = Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO);
    let full = Bulkhead::new(1).with_queue(0);
    let feed = Upstream::new("feed").with_cooldown(cooldown).with_bulkhead(full).with_timer(&timer);
    let succeeds = || retry(|_| async { Ok::<_, Down>(()) }, POLICY, Never);

    feed.hold(SECOND * 2);
    drive(succeeds().on(&feed), &timer).unwrap();
    assert_eq!(messages(), [debug("feed: attempt 1 of 3 waits 2.0s for the cooldown")]);
    let place = feed.bulkhead().unwrap().try_acquire().unwrap();
    drive(succeeds().on(&feed), &timer).unwrap_err();
    assert_eq!(messages(), [debug("feed: gave up after 0 of 3 attempts, the bulkhead is full")]);
    drop(place);

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

    // What no budget pays for, and what is cut, warns.
    let poor = Upstream::new("feed").with_budget(Budget::new().with_capacity(0)).with_timer(&timer);
    drive(retry(|_| script.play(), POLICY, Never).on(&poor), &timer).unwrap_err();
    assert_eq!(
        messages(),
        [warn("feed: gave up after 1 of 3 attempts, the retry budget is spent: down, 2")]
    );
    let hangs = |_| std::future::pending::<Result<(), Down>>();
    drive(retry(hangs, POLICY.with_total_timeout(SECOND), Never).on(&poor), &timer).unwrap_err();
    let cut = "feed: gave up after 1 of 3 attempts: did not finish before the deadline of the call";
    assert_eq!(messages(), [warn(cut)]);
}

/// Hedges are details; alternatives are not, as an answer from the second hides that the first is down.
#[tokio::test(start_paused = true)]
async fn hedges_are_details_and_alternatives_are_not() {
    capture();
    let feed = Upstream::new("feed");
    let op = |attempt: Attempt| async move {
        tokio::time::sleep(if attempt.is_first() { SECOND * 9 } else { SECOND }).await;
        Ok::<_, Down>(())
    };
    hedge(op, HedgePolicy::new().with_delay(SECOND), Never).on(&feed).await.unwrap();
    // A first attempt's `Started`, and `Lost`, are for observers of all events.
    let started = debug("feed: attempt 2 of 2 starts");
    assert_eq!(messages(), [started, debug("feed: attempt 2 of 2 succeeded")]);
    let poor = Upstream::new("feed").with_budget(Budget::new().with_capacity(0));
    hedge(op, HedgePolicy::new().with_delay(SECOND * 5), Never).on(&poor).await.unwrap();
    let denied = "feed: hedge not started after attempt 1 of 2: \
                  the budget is spent or the upstream did not admit it";
    assert_eq!(messages(), [debug(denied)]);

    let answer = |it: resile::Alternative<'_, u32>| {
        let (value, last) = (*it.value(), it.is_last());
        async move { if last { Ok(value) } else { Err(Down(value)) } }
    };
    fallback(&[1, 2], answer, FallbackPolicy::new(), Never).on("models").await.unwrap();
    let failed = warn("models: alternative 1 of 2 failed, trying the next: down, 1");
    assert_eq!(messages(), [failed, debug("models: alternative 2 of 2 succeeded")]);
}

/// Once for each pair of places, however often the calls are made.
#[test]
fn nested_calls_warn_once_for_each_pair_of_places() {
    capture();
    let inner = || retry(|_| async { Ok::<_, Down>(()) }, POLICY, Never).on("inner");
    let outer = || retry(|_| inner(), POLICY, Never).on("outer");
    (0..3).for_each(|_| drive(outer(), &ManualTimer::new()).unwrap());
    let lines = taken();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let (level, fields) = &lines[0];
    let message = &fields["message"];
    assert_eq!((*level, &*fields["upstream"]), (Level::WARN, "\"inner\""));
    let start = format!("inner: this call runs within an attempt of the call at {}:", file!());
    assert!(
        message.starts_with(&start) && message.ends_with(": their attempts multiply"),
        "{message}"
    );
    // The same inner place in another outer one is another pair.
    drive(retry(|_| inner(), POLICY, Never).on("outer"), &ManualTimer::new()).unwrap();
    assert_eq!(taken().len(), 1);
}

/// OpenTelemetry's names, on the caller's span, where that has them.
#[test]
fn the_span_records_resends_and_the_type_of_the_error() {
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
    // A span without the fields takes nothing, and nothing panics.
    let script = Script::new(&[Step::Fail]);
    let policy = POLICY.with_backoff(Backoff::none());
    let _ = ::tracing::info_span!("bare")
        .in_scope(|| drive(retry(|_| script.play(), policy, Never), &timer));
    assert_eq!(RECORDED.take().len(), 0);
}
