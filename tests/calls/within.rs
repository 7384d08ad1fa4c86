//! What an outer call says of the end of a call within: its type, and the level of its line.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::tracing::Level;
use futures_util::{TryStreamExt, stream};
use resile::cancel::Cancel;
use resile::observe::{Event, EventKind};
use resile::time::ManualTimer;
use resile::{
    Backoff, Breaker, Budget, Classify, FallbackPolicy, GaveUp, Jitter, Never, RetryPolicy,
    Upstream, Verdict, fallback, retry, retry_stream,
};
use tokio_util::sync::CancellationToken;

use super::script::drive;
use super::tracing::{capture, messages, taken};

const SECOND: Duration = Duration::from_secs(1);

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(2)
    .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));

#[derive(Debug)]
struct Wrapped(GaveUp<io::Error>);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("wrapped")
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

struct Names;

impl Classify<io::Error> for Names {
    fn classify(&self, _: &io::Error) -> Option<Verdict> {
        Some(Verdict::transient())
    }

    fn error_type<'e>(&self, _: &'e io::Error) -> Option<Cow<'e, str>> {
        Some("503".into())
    }
}

/// A fallback over an open breaker asks the second alternative a thousand times.
#[test]
fn the_alternatives_of_a_refusing_upstream_are_no_warnings() {
    capture();
    let timer = ManualTimer::new();
    let open = Backoff::fixed(SECOND * 30).with_jitter(Jitter::None);
    let breaker = Breaker::new().with_consecutive(1).with_open_time(open).with_probes(1.0, 1);
    let first = Upstream::new("first").with_breaker(breaker).with_timer(&timer);
    let answers = Upstream::new("answers").with_timer(&timer);
    let call = |is_up: bool| {
        let one = |it: resile::fallback::Alternative<'_, u32>| {
            let (first, is_last) = (&first, it.is_last());
            async move {
                if is_last {
                    return Ok(2);
                }
                let send = |_| async move {
                    if is_up { Ok(1) } else { Err(io::Error::from(io::ErrorKind::NotFound)) }
                };
                retry(send, POLICY, Never).on(first).await
            }
        };
        let policy = FallbackPolicy::new();
        drive(fallback(&[1, 2], one, policy, Never).on(&answers), &timer).unwrap()
    };
    for _ in 0..1_000 {
        assert_eq!(call(false), 2);
    }
    timer.advance(SECOND * 30);
    assert_eq!(call(true), 1);
    let lines: Vec<_> = messages().into_iter().filter(|(level, _)| *level <= Level::INFO).collect();
    let lines: Vec<_> = lines.iter().map(|(level, line)| (*level, &**line)).collect();
    let opened = "first: breaker opened for 30.0s, all attempts are refused: too many failures in a row (1): entity not found";
    let closed = "first: breaker closed: 1000 attempts refused within 30.0s";
    assert_eq!(lines, [(Level::WARN, opened), (Level::INFO, closed)]);
}

/// An upstream that did not refuse has no line of its own, so the alternative has one.
#[test]
fn an_alternative_that_failed_is_a_warning() {
    capture();
    let timer = ManualTimer::new();
    let (first, answers) =
        (Upstream::new("first").with_timer(&timer), Upstream::new("answers").with_timer(&timer));
    let one = |it: resile::fallback::Alternative<'_, u32>| {
        let (first, is_last) = (&first, it.is_last());
        async move {
            if is_last {
                return Ok(2);
            }
            let send = |_| async { Err(io::Error::from(io::ErrorKind::NotFound)) };
            retry(send, POLICY.with_attempts(1), Never).on(first).await
        }
    };
    let call = fallback(&[1, 2], one, FallbackPolicy::new(), Never).on(&answers);
    assert_eq!(drive(call, &timer).unwrap(), 2);
    let is_line = |(level, line): &(Level, String)| {
        *level == Level::WARN && line.starts_with("answers: alternative 1 of 2 failed")
    };
    assert_eq!(messages().iter().filter(|line| is_line(line)).count(), 1);
}

/// Returns the lines of a fallback whose alternatives all end in the same way, and its error.
fn alternatives<K: Cancel + Clone>(verdict: Verdict, token: &K) -> (Vec<(Level, String)>, String) {
    capture();
    let timer = ManualTimer::new();
    let upstream = |name: &'static str| Upstream::new(name).with_timer(&timer);
    let (model, answers) = (upstream("model"), upstream("answers"));
    let one = |_: resile::fallback::Alternative<'_, u32>| {
        let send = |_| async { Err::<(), _>(io::Error::from(io::ErrorKind::NotFound)) };
        retry(send, POLICY.with_classifier(move |_: &io::Error| verdict), token.clone()).on(&model)
    };
    let policy = FallbackPolicy::new().with_classifier(resile::classify::Always);
    let gave_up = drive(fallback(&[1, 2], one, policy, Never).on(&answers), &timer).unwrap_err();
    let lines = messages().into_iter().filter(|(_, line)| line.starts_with("answers"));
    (lines.collect(), GaveUp::flatten(gave_up).to_string())
}

/// The request is sent elsewhere, so the line does not say that the error is final.
#[test]
fn an_alternative_that_is_passed_on_says_nothing_of_a_repetition() {
    let (lines, error) = alternatives(Verdict::fatal(), &Never);
    let next = "answers: alternative 1 of 2 failed, trying the next: \
                model: gave up after 1 attempt: entity not found";
    assert_eq!(lines[0], (Level::WARN, next.to_owned()));
    let last = "the error is final";
    assert!(lines[1].1.contains(last) && error.contains(last), "{lines:?} {error}");
}

/// The classifier of the fallback ends it after its first alternative.
#[test]
fn a_fallback_that_tries_no_other_alternative_says_so() {
    capture();
    let timer = ManualTimer::new();
    let answers = Upstream::new("answers").with_timer(&timer);
    let one = |_: resile::fallback::Alternative<'_, u32>| async { Err::<(), _>("no such user") };
    let policy = FallbackPolicy::new().with_classifier(|_: &&str| Verdict::fatal());
    let gave_up = drive(fallback(&[1, 2], one, policy, Never).on(&answers), &timer).unwrap_err();
    let words = "answers: gave up after 1 alternative, no other alternative is tried, \
                 because the classifier of the fallback forbids it";
    assert_eq!(gave_up.to_string(), words);
    let line = "answers: gave up after 1 of 2 alternatives, \
                no other alternative is tried, because the classifier of the fallback forbids it: \
                no such user";
    assert_eq!(messages(), [(Level::WARN, line.to_owned())]);
}

/// The field `reason` of a fallback that stops is that of its flattened error.
#[test]
fn a_fallback_that_stops_has_the_reason_of_its_last_alternative() {
    let timer = ManualTimer::new();
    let upstream = |name: &'static str| Upstream::new(name).with_timer(&timer);
    let (model, answers) = (upstream("model"), upstream("answers"));
    let stops = FallbackPolicy::new().with_classifier(|_: &GaveUp<&str>| Verdict::fatal());
    // Returns the field of the line, and that of the flattened error.
    let ends = |one: &dyn Fn() -> Result<(), GaveUp<&'static str>>| {
        capture();
        let ask = async |_: resile::fallback::Alternative<'_, u32>| one();
        let call = fallback(&[1, 2], ask, &stops, Never).on(&answers);
        let flat = drive(call, &timer).unwrap_err().flatten();
        let (_, fields) = taken().pop().unwrap();
        assert!(fields["message"].starts_with("answers: gave up after 1 of 2"), "{fields:?}");
        (fields["reason"].clone(), format!("{:?}", flat.reason().as_str()))
    };
    let open = async |_| Ok(stream::iter([Ok(1), Err("reset")]));
    let breaks = || {
        let words = retry_stream(open, POLICY, Never).on(&model);
        drive(words.try_for_each(async |_| Ok(())), &timer)
    };
    let token = CancellationToken::new();
    token.cancel();
    let send = |_| async { Err::<(), _>("down") };
    let cancelled = || drive(retry(send, POLICY, &token).on(&model), &timer);
    let failed = || drive(retry(send, POLICY, Never).on(&model), &timer);
    let reason = |word: &str| (format!("{word:?}"), format!("{word:?}"));
    assert_eq!(ends(&breaks), reason("partial"));
    assert_eq!(ends(&cancelled), reason("cancelled"));
    assert_eq!(ends(&failed), reason("attempts"));

    // The alternative is no call.
    let down = |_: resile::fallback::Alternative<'_, u32>| async { Err::<(), _>("no such user") };
    let stops = FallbackPolicy::new().with_classifier(|_: &&str| Verdict::fatal());
    capture();
    drive(fallback(&[1, 2], down, &stops, Never).on(&answers), &timer).unwrap_err();
    assert_eq!(taken().pop().unwrap().1["reason"], "\"fatal\"");
}

/// The last alternative was cancelled by a token of its own.
#[test]
fn a_cancelled_alternative_is_not_a_warning() {
    let token = CancellationToken::new();
    token.cancel();
    let (lines, error) = alternatives(Verdict::transient(), &token);
    assert!(error.contains("cancelled"), "{error}");
    assert!(
        !lines.is_empty() && lines.iter().all(|(level, _)| *level == Level::DEBUG),
        "{lines:?}"
    );
}

#[test]
fn the_type_of_a_call_within_is_that_of_its_end() {
    let timer = ManualTimer::new();
    let types = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&types);
    let outer =
        Upstream::new("outer").with_timer(&timer).with_shared_observer(move |event: &Event<'_>| {
            if let EventKind::GaveUp { error_type, .. } = event.kind {
                seen.lock().unwrap().push(error_type.to_owned());
            }
        });
    let last = || types.lock().unwrap().pop().unwrap();
    let ends = |inner: &Upstream<&ManualTimer>, policy: RetryPolicy| {
        let policy = &policy;
        let send = |_| async { Err::<(), _>(io::Error::from(io::ErrorKind::NotFound)) };
        let inner = |_| retry(send, policy, Never).on(inner);
        drive(retry(inner, POLICY.with_attempts(1), Never).on(&outer), &timer).unwrap_err();
        last()
    };
    let inner = || Upstream::new("inner").with_timer(&timer);
    let once = POLICY.with_attempts(1);
    let io = std::any::type_name::<io::Error>();
    assert_eq!(ends(&inner(), once), io);
    let isolated = inner().with_breaker(Breaker::new());
    let _isolation = isolated.isolate();
    assert_eq!(ends(&isolated, once), "open");
    let poor = inner().with_budget(Budget::new().with_capacity(0));
    assert_eq!(ends(&poor, POLICY), io);
    let (inner, isolated) = (&inner(), &isolated);

    // The inner classifier has a word for the last error.
    let send = |_| async { Err::<(), _>(io::Error::from(io::ErrorKind::NotFound)) };
    let named = &once.with_classifier(Names);
    let call = |_| retry(send, named, Never).on(inner);
    drive(retry(call, once, Never).on(&outer), &timer).unwrap_err();
    assert_eq!(last(), "503");

    // A cut, and a call within a call within a call.
    let hangs = |_| std::future::pending::<Result<(), io::Error>>();
    let brief = &once.with_attempt_timeout(SECOND);
    let call = |_| retry(hangs, brief, Never).on(inner);
    let call = |_| retry(call, once, Never).on(inner);
    drive(retry(call, once, Never).on(&outer), &timer).unwrap_err();
    assert_eq!(last(), "timeout");

    // The error of the call is wrapped, or is no `Error`.
    let call = |_| async { retry(send, once, Never).on(isolated).await.map_err(Wrapped) };
    drive(retry(call, once, Never).on(&outer), &timer).unwrap_err();
    assert_eq!(last(), "open");
    let words = |_| async { Err::<(), _>("no".to_owned()) };
    let call = |_| retry(words, once, Never).on(isolated);
    drive(retry(call, once, Never).on(&outer), &timer).unwrap_err();
    assert_eq!(last(), "open");
    let call = |_| retry(words, once, Never).on(inner);
    drive(retry(call, once, Never).on(&outer), &timer).unwrap_err();
    assert_eq!(last(), std::any::type_name::<String>());

    // An error without a call within has its own type.
    drive(retry(send, once, Never).on(&outer), &timer).unwrap_err();
    assert_eq!(last(), io);
}
