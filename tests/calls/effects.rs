//! `GaveUp::is_without_effect`: whether surely no attempt of the call had an effect.

use std::cell::Cell;
use std::future::{pending, ready};
use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;
use resile::classify::Cut;
use resile::observe::Event;
use resile::time::ManualTimer;
use resile::{
    Backoff, Breaker, Classify, FallbackPolicy, GaveUp, Health, HedgePolicy, Never, ResilienceExt,
    RetryPolicy, Run, StopReason, Upstream, Verdict, fallback, hedge, retry,
};
use tokio_util::sync::CancellationToken;

use super::script::{clock, drive};

const SECOND: Duration = Duration::from_secs(1);

/// The end of one attempt.
#[derive(Clone, Copy, Debug)]
enum End {
    Error {
        verdict: Option<Verdict>,
    },
    /// The attempt timeout cuts it, before or after it has sent its request.
    Hangs {
        sends: bool,
    },
}

impl End {
    fn may_have_effect(self) -> bool {
        match self {
            Self::Error { verdict } => verdict.is_none_or(|it| !it.is_without_effect()),
            Self::Hangs { sends } => sends,
        }
    }
}

/// An error with its verdict.
#[derive(Debug, thiserror::Error)]
#[error("failed")]
struct Failed(Option<Verdict>);

/// A classifier that repeats each cut attempt if `again`.
struct Known {
    again: bool,
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

async fn attempt(end: End) -> Result<(), Failed> {
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
fn play(ends: &[End], again: bool, is_alone: bool) -> (GaveUp<Failed>, Vec<bool>) {
    let (timer, number) = (ManualTimer::new(), Cell::new(0));
    let policy = RetryPolicy::new()
        .with_attempts(u32::try_from(ends.len()).unwrap())
        .with_attempt_timeout(SECOND)
        .with_backoff(Backoff::none())
        .with_classifier(Known { again });
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

fn ends() -> impl Strategy<Value = End> {
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
        let (gave_up, made) = play(&ends, again, is_alone);
        prop_assert_eq!(gave_up.attempts() as usize, made.len());
        let expected = !made.contains(&true);
        prop_assert_eq!(gave_up.is_without_effect(), expected, "{:?} {:?}", gave_up, ends);
        prop_assert!(!(gave_up.is_in_doubt() && gave_up.is_without_effect()));
        if let Some(verdict) = gave_up.verdict() {
            prop_assert_eq!(verdict.is_without_effect(), expected, "{:?}", gave_up);
        }
    }
}

/// "Without effect" behind a last attempt is not said of the whole call if an earlier attempt may have had an
/// effect.
#[tokio::test(start_paused = true)]
async fn the_words_speak_of_the_whole_call() {
    for first in [Verdict::transient().not_sent(), Verdict::transient()] {
        let shop = Upstream::new("shop");
        let line = Mutex::new(String::new());
        let note = |event: &Event<'_>| *line.lock().unwrap() = event.to_string();
        let ends = [End::Error { verdict: Some(first) }, End::Hangs { sends: false }];
        let number = Cell::new(0);
        let op = |_| attempt(ends[number.replace(number.get() + 1)]);
        let policy = RetryPolicy::new()
            .with_attempts(2)
            .with_attempt_timeout(SECOND)
            .with_classifier(Known { again: true });
        let gave_up = retry(op, policy, Never).on(shop.observed_by(&note)).await.unwrap_err();
        let and = if gave_up.is_without_effect() {
            "without effect, after"
        } else {
            "without effect, but an earlier attempt may have had one, after"
        };
        for words in [format!("{gave_up:#}"), line.into_inner().unwrap()] {
            assert!(words.contains(&format!("did not finish within 1s, {and}")), "{words}");
        }
    }
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
            assert_eq!(verdict.is_without_effect(), (400..=498).contains(&code), "{code}");
            assert!(!verdict.is_not_sent(), "a quota charges it: {code}");
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
