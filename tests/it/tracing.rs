//! What `Standard` writes to `tracing`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Once;
use std::time::Duration;

use ::tracing::field::{Field, Visit};
use ::tracing::{Level, Subscriber};
use resile::{Backoff, Jitter, ManualTimer, Never, RetryPolicy, Standard, Verdict, retry};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::script::{Down, Script, Step, drive};

const SECOND: Duration = Duration::from_secs(1);

/// A line: its level, and its fields in words.
type Line = (Level, BTreeMap<&'static str, String>);

thread_local! {
    /// What this thread's calls have logged.
    static LOGGED: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

struct Capture;

/// Captures for the whole process, each thread's lines by themselves. A subscriber for one thread alone would depend on the
/// tests beside this one: `tracing` asks the thread that meets a call site first whether anybody listens there.
fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        ::tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Capture)).unwrap();
    });
    LOGGED.take();
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
    fn on_event(&self, event: &::tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "resile" {
            let mut fields = BTreeMap::new();
            event.record(&mut Fields(&mut fields));
            LOGGED.with_borrow_mut(|lines| lines.push((*event.metadata().level(), fields)));
        }
    }
}

fn lines(steps: &'static [Step], policy: &RetryPolicy<impl resile::Classify<Down>>) -> Vec<Line> {
    capture();
    let (script, timer) = (Script::new(steps), ManualTimer::new());
    let _ = drive(retry(|_| script.play(), policy, Never).with_timer(&timer), &timer);
    // Standard is the default: to ask for it says each line once, not twice, and no line of another observer's.
    let once = logged();
    let script = Script::new(steps);
    let _ = drive(retry(|_| script.play(), policy, Never).with_timer(&timer).with_observer(Standard), &timer);
    assert_eq!(logged(), 2 * once);
    let script = Script::new(steps);
    let _ = drive(retry(|_| script.play(), policy, Never).with_timer(&timer).with_observer(()), &timer);
    assert_eq!(logged(), 2 * once, "() is silent");
    // Beside one who wants to hear of every success, still only of recoveries.
    let (script, all) = (Script::new(steps), |_: &resile::Event<'_, Down>| ());
    let _ = drive(retry(|_| script.play(), policy, Never).with_timer(&timer).with_observer((Standard, all)), &timer);
    assert_eq!(logged(), 3 * once);
    let mut lines = LOGGED.take();
    lines.truncate(once);
    lines
}

fn line(level: Level, fields: &[(&'static str, &str)]) -> Line {
    (level, fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
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
                &[
                    ("message", "attempt failed, retrying"),
                    ("attempt", "1"),
                    ("attempts_allowed", "3"),
                    ("delay", "1s"),
                    ("cause", "transient"),
                ]
            ),
            line(Level::DEBUG, &[("message", "recovered"), ("attempt", "2")]),
        ]
    );
}

#[test]
fn giving_up_warns() {
    let judged = POLICY.with_classify(|error: &Down| match error.0 {
        1 => Verdict::throttled(Some(SECOND * 20)),
        _ => Verdict::throttled(Some(SECOND * 60)),
    });
    let policy = judged.with_backoff(Backoff::none().with_jitter(Jitter::None));
    assert_eq!(
        lines(&[Step::Fail], &policy),
        [
            line(
                Level::WARN,
                &[
                    ("message", "attempt failed, retrying"),
                    ("attempt", "1"),
                    ("attempts_allowed", "3"),
                    ("delay", "20s"),
                    ("hint", "20s"),
                    ("cause", "throttled"),
                ]
            ),
            line(
                Level::WARN,
                &[
                    ("message", "gave up"),
                    ("attempt", "2"),
                    ("attempts_allowed", "3"),
                    ("hint", "60s"),
                    ("cause", "throttled"),
                    ("stop", "\"hint_too_long\""),
                ]
            ),
        ]
    );
    let fatal = lines(&[Step::Fail], &POLICY.with_classify(|_: &Down| false));
    let fields = [("message", "gave up"), ("attempt", "1"), ("attempts_allowed", "3"), ("stop", "\"fatal\"")];
    assert_eq!(fatal, [line(Level::WARN, &fields)]);
}
