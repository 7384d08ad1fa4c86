//! `GaveUp::is_without_effect`: whether surely no attempt of the call had an effect.

use std::cell::Cell;
use std::future::{pending, ready};
use std::sync::Mutex;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use proptest::prelude::*;
use resile::classify::Cut;
use resile::observe::Event;
use resile::stream::Resumption;
use resile::time::ManualTimer;
use resile::{
    Backoff, Breaker, Classify, FallbackPolicy, GaveUp, Health, HedgePolicy, Never, ResilienceExt,
    RetryPolicy, Run, StopReason, Upstream, Verdict, fallback, hedge, retry, retry_stream,
};
use tokio_util::sync::CancellationToken;

use super::script::{clock, drive};

const SECOND: Duration = Duration::from_secs(1);

/// The end of one attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Error {
        verdict: Option<Verdict>,
    },
    /// The attempt timeout cuts it, before or after it has sent its request.
    Hangs {
        sends: bool,
    },
}

impl End {
    pub(super) fn may_have_effect(self) -> bool {
        match self {
            Self::Error { verdict } => verdict.is_none_or(|it| !it.is_without_effect()),
            Self::Hangs { sends } => sends,
        }
    }
}

/// An error with its verdict.
#[derive(Clone, Debug, thiserror::Error)]
#[error("failed")]
pub(super) struct Failed(pub(super) Option<Verdict>);

/// A classifier that repeats each cut attempt if `again`.
pub(super) struct Known {
    pub(super) again: bool,
}

impl Classify<Failed> for Known {
    fn classify(&self, failed: &Failed) -> Option<Verdict> {
        failed.0
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        let verdict = Verdict::transient();
        Some(if self.again { verdict.idempotent() } else { verdict.not_again() })
    }
}

/// A closure that returns the verdict of an error, and says nothing of a cut.
pub(super) fn stated(failed: &Failed) -> Option<Verdict> {
    failed.0
}

pub(super) async fn attempt(end: End) -> Result<(), Failed> {
    match end {
        End::Error { verdict } => Err(Failed(verdict)),
        End::Hangs { sends: false } => pending().before_sending().await,
        End::Hangs { sends: true } => {
            ready(()).before_sending().await;
            pending().await
        }
    }
}

/// Makes attempts with these ends, at most one for each. Returns the end of the call and what each
/// attempt may have done.
pub(super) fn play(
    ends: &[End],
    classifier: impl Classify<Failed>,
    is_alone: bool,
) -> (GaveUp<Failed>, Vec<bool>) {
    let (timer, number) = (ManualTimer::new(), Cell::new(0));
    let policy = RetryPolicy::new()
        .with_attempts(u32::try_from(ends.len()).unwrap())
        .with_attempt_timeout(SECOND)
        .with_backoff(Backoff::none())
        .with_classifier(classifier);
    let op = |_| attempt(ends[number.replace(number.get() + 1)]);
    let gave_up = if is_alone {
        drive(retry(op, &policy, Never).on(clock(&timer)), &timer)
    } else {
        let upstream = Upstream::new("shop").with_timer(&timer).with_breaker(Breaker::new());
        drive(retry(op, &policy, Never).on(&upstream), &timer)
    };
    let made = ends[..number.get()].iter().map(|end| end.may_have_effect()).collect();
    (gave_up.unwrap_err(), made)
}

pub(super) fn ends() -> impl Strategy<Value = End> {
    let verdicts = [
        None,
        Some(Verdict::transient()),
        Some(Verdict::transient().idempotent()),
        Some(Verdict::transient().not_sent()),
        Some(Verdict::fatal()),
        Some(Verdict::fatal().not_sent()),
        Some(Verdict::transient().not_again().without_effect()),
        Some(Verdict::transient().idempotent().without_effect()),
        Some(Verdict::fatal().with_health(Health::Healthy).without_effect()),
    ];
    let errors = proptest::sample::select(verdicts.to_vec());
    prop_oneof![
        3 => errors.prop_map(|verdict| End::Error { verdict }),
        1 => any::<bool>().prop_map(|sends| End::Hangs { sends }),
    ]
}

proptest! {
    /// A call is without effect exactly if each of its attempts is, and then it is not in doubt and the
    /// outer call may rely on it.
    #[test]
    fn each_attempt_counts(
        ends in proptest::collection::vec(ends(), 1..6),
        again: bool,
        is_alone: bool,
    ) {
        let (gave_up, made) = play(&ends, Known { again }, is_alone);
        prop_assert_eq!(gave_up.attempts() as usize, made.len());
        let expected = !made.contains(&true);
        prop_assert_eq!(gave_up.is_without_effect(), expected, "{:?} {:?}", gave_up, ends);
        prop_assert!(!(gave_up.is_in_doubt() && gave_up.is_without_effect()));
        if let Some(verdict) = gave_up.verdict() {
            prop_assert_eq!(verdict.is_without_effect(), expected, "{:?}", gave_up);
        }
    }
}

/// Adds a key to each request of a classifier.
pub(super) struct Keyed(pub(super) Known);

impl Classify<Failed> for Keyed {
    fn classify(&self, failed: &Failed) -> Option<Verdict> {
        self.0.classify(failed).map(Verdict::keyed)
    }

    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        Classify::<Failed>::classify_cut(&self.0, cut).map(Verdict::keyed)
    }
}

/// Returns the error and the line of a call with these ends, which its token may cancel in the last one.
fn words_of(
    ends: &[End],
    policy: RetryPolicy<impl Classify<Failed>>,
    cancels: bool,
) -> [String; 3] {
    let (timer, number, token) = (ManualTimer::new(), Cell::new(0), CancellationToken::new());
    let policy = policy
        .with_attempts(u32::try_from(ends.len()).unwrap())
        .with_attempt_timeout(SECOND)
        .with_backoff(Backoff::none());
    let op = |_| {
        let end = ends[number.replace(number.get() + 1)];
        if cancels && number.get() == ends.len() {
            token.cancel();
        }
        attempt(end)
    };
    let line = Mutex::new(String::new());
    let note = |event: &Event<'_>| *line.lock().unwrap() = event.to_string();
    let shop = Upstream::new("shop").with_timer(&timer);
    let call = retry(op, &policy, &token).on(shop.observed_by(&note));
    let gave_up = drive(call, &timer).unwrap_err();
    let effect = if gave_up.is_in_doubt() {
        String::new()
    } else if gave_up.is_without_effect() {
        "without effect".to_owned()
    } else {
        "may have been executed".to_owned()
    };
    [gave_up.to_string(), line.into_inner().unwrap(), effect]
}

proptest! {
    /// Each end of a call with a key says once whether the request may have been executed, whatever its reason
    /// is. An error without a verdict may have no key.
    #[test]
    fn each_end_of_a_keyed_call_tells_its_effect(
        ends in proptest::collection::vec(ends(), 1..6),
        again: bool,
        cancels: bool,
    ) {
        let policy = RetryPolicy::new().with_classifier(Keyed(Known { again }));
        let [error, line, effect] = words_of(&ends, policy, cancels);
        for words in [error, line] {
            let (none, may) = (words.matches("without effect"), words.matches("may have"));
            let times = usize::from(!effect.is_empty());
            prop_assert_eq!(none.count() + may.count(), times, "{} {:?}", words, ends);
            prop_assert!(words.contains(&effect), "{}: {}", words, effect);
        }
    }

    /// A read has no such words, as nobody asks whether it was executed.
    #[test]
    fn an_end_of_a_read_by_an_error_tells_no_effect(
        ends in proptest::collection::vec(ends(), 0..5),
    ) {
        let last = End::Error { verdict: Some(Verdict::transient().idempotent().not_sent()) };
        let ends: Vec<_> = ends
            .into_iter()
            .filter(|end| !matches!(end, End::Error { verdict } if !verdict.is_some_and(|it| it.is_again())))
            .chain([last])
            .collect();
        let policy = RetryPolicy::new().with_classifier(Known { again: true });
        let [error, line, _] = words_of(&ends, policy, false);
        for words in [error, line] {
            prop_assert!(!words.contains("effect") && !words.contains("executed"), "{}", words);
        }
    }
}

/// The words stand before those of the last error, which may be that of an attempt without effect.
#[test]
fn a_keyed_call_says_what_may_have_happened_before_its_last_error() {
    let lost = End::Error { verdict: Some(Verdict::transient()) };
    let refused = End::Error { verdict: Some(Verdict::transient().not_sent()) };
    let invalid = End::Error { verdict: Some(Verdict::fatal().with_health(Health::Healthy)) };
    let unsent = End::Hangs { sends: false };
    let again = "the request may have been executed and may be sent again with its key";
    let earlier =
        "an earlier attempt may have been executed, the request may be sent again with its key";
    for (ends, words) in [
        (&[lost, refused][..], format!("shop: gave up after 2 attempts, {earlier}")),
        (&[lost, refused, lost], format!("shop: gave up after 3 attempts, {again}")),
        (&[refused], "shop: gave up after 1 attempt, without effect".into()),
        (
            &[lost, unsent],
            format!(
                "shop: gave up after 2 attempts in 1.0s, {earlier} \
                 (last failure: did not finish within 1s; an earlier attempt failed)"
            ),
        ),
        (&[lost, invalid], format!("shop: gave up after 2 attempts, the error is final, {again}")),
    ] {
        let policy = RetryPolicy::new().with_classifier(Keyed(Known { again: true }));
        assert_eq!(words_of(ends, policy, false)[0], words);
    }
}

/// The function of `over` may judge an error by itself, and then says nothing of a key.
#[tokio::test]
async fn the_verdict_on_a_keyed_call_states_the_key() {
    use resile::http::Classifier;
    let healthy = Verdict::fatal().with_health(Health::Healthy);
    for (classifier, is_keyed) in
        [(Classifier::keyed(), true), (Classifier::non_idempotent(), false)]
    {
        let own = classifier.over(|_, _: &Failed| Some(healthy));
        let policy = RetryPolicy::new().with_classifier(own);
        let gave_up =
            retry(|_| ready(Err::<(), _>(Failed(None))), policy, Never).await.unwrap_err();
        let verdict = gave_up.verdict().unwrap();
        assert_eq!((verdict.is_keyed(), verdict.is_again()), (is_keyed, false));
        assert_eq!((verdict.health(), gave_up.is_in_doubt()), (Health::Healthy, false));
    }
}

/// An earlier call with the same key may have been executed, so its caller must know the key of a call that was refused.
#[tokio::test]
async fn the_verdict_on_a_keyed_call_without_an_attempt_states_the_key() {
    use resile::http::{Classifier, Failure};
    let shop = Upstream::new("shop").with_breaker(Breaker::new());
    let _isolated = shop.isolate();
    for (classifier, is_keyed) in [
        (Classifier::keyed(), true),
        (Classifier::idempotent(), false),
        (Classifier::non_idempotent(), false),
    ] {
        let policy = RetryPolicy::new().with_classifier(classifier);
        let call = retry(|_| pending::<Result<(), Failure>>(), policy, Never).on(&shop);
        let gave_up = call.await.unwrap_err();
        let verdict = gave_up.verdict().unwrap();
        assert_eq!((gave_up.attempts(), verdict.is_keyed()), (0, is_keyed));
        assert!(verdict.is_again() && verdict.is_not_sent() && gave_up.is_without_effect());
        let words = gave_up.to_string();
        assert!(!words.contains("effect") && !words.contains("executed"), "{words}");
    }
}

/// A call whose request must not be executed twice says it too, in the same place. If the classifier says nothing of
/// the request, a cut that had sent nothing says it of itself. Neither speaks of the whole call if an earlier attempt
/// may have had an effect.
#[test]
fn the_words_speak_of_the_whole_call() {
    let unknown = |failed: &Failed| failed.0.unwrap_or(Verdict::fatal());
    let unsent = End::Hangs { sends: false };
    for (first, before, behind) in [
        (Verdict::transient().not_sent(), ", without effect", ", without effect"),
        (Verdict::transient(), "", ", without effect, but an earlier attempt may have had one"),
    ] {
        let ends = [End::Error { verdict: Some(first) }, unsent];
        let words = |before, behind| {
            format!(
                "shop: gave up after 2 attempts in 1.0s{before} \
                 (last failure: did not finish within 1s{behind}; an earlier attempt failed)"
            )
        };
        let once = RetryPolicy::new().with_classifier(Known { again: false });
        let is_none = first.is_without_effect();
        let expected = words(before, if is_none { "" } else { behind });
        assert_eq!(words_of(&ends, once, false)[0], expected);
        let unstated = RetryPolicy::new().with_classifier(unknown);
        assert_eq!(words_of(&ends, unstated, false)[0], words("", behind));
        let read = RetryPolicy::new().with_classifier(Known { again: true });
        assert_eq!(words_of(&ends, read, false)[0], words("", ""));
    }
}

/// A classifier may say of an error without effect that it may be repeated in any case. That does not make the
/// request a read.
#[test]
fn an_order_that_was_not_sent_says_so() {
    let refused = End::Error { verdict: Some(Verdict::transient().not_sent().idempotent()) };
    let policy = RetryPolicy::new().with_classifier(Known { again: false });
    let [error, line, _] = words_of(&[refused, refused], policy, false);
    assert_eq!(error, "shop: gave up after 2 attempts, without effect");
    assert!(line.starts_with("shop: gave up after 2 of 2 attempts, without effect: "), "{line}");
}

/// Answers of HTTP that say that nothing was executed.
#[cfg(feature = "http")]
#[test]
fn a_refusal_of_http_has_no_effect() {
    for classifier in
        [resile::http::Classifier::idempotent(), resile::http::Classifier::non_idempotent()]
    {
        for code in 100..1_000 {
            let Ok(status) = http::StatusCode::from_u16(code) else { continue };
            let verdict = classifier.verdict(status, None);
            let is_refused =
                matches!(code, 307 | 308 | 400..=498 | 501 | 505 | 506 | 508 | 510 | 511);
            assert_eq!(verdict.is_without_effect(), is_refused, "{code}");
            assert!(!verdict.is_not_sent(), "a quota counts it: {code}");
        }
        assert!(classifier.not_sent().is_without_effect());
        assert!(!classifier.unanswered().is_without_effect());
    }
}

#[test]
fn a_call_before_its_first_attempt_has_no_effect() {
    let shop = Upstream::new("shop").with_breaker(Breaker::new().with_consecutive(1));
    shop.try_admit().unwrap().settle(&Verdict::transient());
    let call = retry(|_| ready(Err::<(), _>("down")), RetryPolicy::new(), Never).on(&shop);
    let refused = drive(call, &ManualTimer::new()).unwrap_err();
    assert_eq!((refused.reason(), refused.attempts()), (StopReason::Open, 0));
    assert!(refused.is_without_effect() && refused.verdict().unwrap().is_not_sent());
}

/// The token and the deadline drop an attempt in flight.
#[tokio::test(start_paused = true)]
async fn an_attempt_in_flight_counts_by_what_it_has_sent() {
    for (sends, by_token) in [(true, true), (true, false), (false, true), (false, false)] {
        let token = CancellationToken::new();
        let op = |_| {
            if by_token {
                token.cancel();
            }
            attempt(End::Hangs { sends })
        };
        let policy =
            RetryPolicy::new().with_total_timeout(SECOND).with_classifier(Known { again: false });
        let gave_up = retry(op, policy, &token).await.unwrap_err();
        let reason = if by_token { StopReason::Cancelled } else { StopReason::Deadline };
        assert_eq!((gave_up.reason(), gave_up.attempts()), (reason, 1));
        assert_eq!(gave_up.is_without_effect(), !sends, "{gave_up:?}");
    }
}

/// The caller of a `Run` drops an attempt, and nobody knows what it did.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_its_caller_drops_may_have_an_effect() {
    let policy = RetryPolicy::new().with_total_timeout(SECOND);
    let mut run = Run::new(&policy, Never);
    run.next().await.unwrap();
    let dropped = tokio::time::timeout(SECOND / 2, run.attempt(pending::<Result<(), &str>>()));
    assert!(dropped.await.is_err());
    tokio::time::advance(SECOND).await;
    let gave_up = run.next().await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.is_without_effect()), (StopReason::Deadline, false));
}

/// A final error of one attempt ends a hedge while another one is in flight.
#[tokio::test(start_paused = true)]
async fn an_overtaken_attempt_may_have_an_effect() {
    let refused = Some(Verdict::fatal().not_sent());
    for first in [End::Error { verdict: refused }, End::Hangs { sends: true }] {
        let op = |it: resile::Attempt| {
            let second = End::Error { verdict: refused };
            attempt(if it.is_first() { first } else { second })
        };
        let policy = HedgePolicy::new().with_delay(SECOND).with_classifier(Known { again: true });
        let gave_up = hedge(op, policy, Never).await.unwrap_err();
        assert_eq!(gave_up.reason(), StopReason::Fatal);
        assert_eq!(gave_up.is_without_effect(), !first.may_have_effect(), "{gave_up:?}");
    }
}

/// A fallback knows it of all alternatives, also in its flat error.
#[tokio::test(start_paused = true)]
async fn a_fallback_counts_all_alternatives() {
    let refused = End::Error { verdict: Some(Verdict::transient().not_sent()) };
    let failed = End::Error { verdict: Some(Verdict::transient()) };
    for ends in [[refused, refused], [failed, refused], [refused, failed]] {
        let policy = RetryPolicy::new()
            .with_attempts(3)
            .with_backoff(Backoff::none())
            .with_classifier(Known { again: true });
        let op = |it: resile::fallback::Alternative<'_, End>| {
            let end = *it.value();
            retry(move |_| attempt(end), &policy, Never)
        };
        let by_verdict = |gave_up: &GaveUp<Failed>| gave_up.verdict();
        let rules = FallbackPolicy::new().with_classifier(by_verdict);
        let gave_up = fallback(&ends, op, rules, Never).await.unwrap_err();
        let expected = ends.iter().all(|end| !end.may_have_effect());
        assert_eq!(gave_up.is_without_effect(), expected, "{ends:?}");
        assert_eq!(gave_up.flatten().is_without_effect(), expected, "flat: {ends:?}");
    }
}

/// The beginning of an answer is proof that the request was executed at least in part. So a later error proves neither
/// that it had no effect nor that it may be sent again.
#[tokio::test(start_paused = true)]
async fn an_error_after_content_cannot_deny_an_effect() {
    const ITEM: Result<u32, Failed> = Ok(1);
    let invalid = Verdict::fatal().with_health(Health::Healthy).without_effect();
    let limited = Verdict::throttled().without_effect();
    let doubt = "the request may have been executed and must not be sent again";
    let key = "the request may have been executed and may be sent again with its key";
    let read = |verdict: Verdict| verdict.idempotent();
    let part = "part of the answer was already delivered";
    for (verdict, again, items, in_doubt, words) in [
        (invalid, false, 2, true, format!("{doubt}, {part}")),
        (limited, false, 2, true, format!("{doubt}, {part}")),
        (limited.not_sent(), false, 1, true, format!("{doubt}, {part}")),
        (read(invalid), true, 2, false, format!("the error is final, {part}")),
        (invalid.keyed(), true, 2, false, format!("the error is final, {key}, {part}")),
        (invalid, false, 0, false, "the error is final, without effect".to_owned()),
    ] {
        for resumes in [false, true] {
            let opened = Cell::new(0);
            let open = |_| {
                opened.set(opened.get() + 1);
                let content = stream::iter((0..items).map(|_| ITEM));
                ready(Ok(content.chain(stream::iter([Err(Failed(Some(verdict)))]))))
            };
            let policy = RetryPolicy::new().with_classifier(Known { again });
            let lines = Mutex::new(Vec::new());
            let note = |event: &Event<'_>| lines.lock().unwrap().push(event.to_string());
            let feed = Upstream::new("feed");
            let watch = retry_stream(open, policy, Never)
                .with_resumption(|_| if resumes { Resumption::Resume } else { Resumption::Fail })
                .on(feed.observed_by(&note));
            let last = watch.collect::<Vec<_>>().await.pop().unwrap();
            let gave_up = last.unwrap_err();
            let facts = (gave_up.is_partial(), gave_up.is_without_effect(), gave_up.is_in_doubt());
            assert_eq!(facts, (items > 0, items == 0, in_doubt), "{gave_up}");
            assert_eq!((opened.get(), gave_up.reason()), (1, StopReason::Fatal));
            assert!(gave_up.to_string().ends_with(&words), "{gave_up}");
            let line = lines.into_inner().unwrap().pop().unwrap();
            assert!(line.contains(&words), "{line}");
            assert_eq!(gave_up.verdict().unwrap().is_without_effect(), items == 0);
        }
    }
}
