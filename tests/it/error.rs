//! `GaveUp`, `Elapsed` and `Error<E>` as errors.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use resile::{
    Backoff, Classify, Elapsed, Error, GaveUp, Lift, ManualTimer, Never, ResilienceExt, RetryPolicy, Stop, Verdict,
    retry,
};

use super::script::{Down, Script, Step, drive};

const SECOND: Duration = Duration::from_secs(1);
type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// A call that is given up on errors made by `error`.
fn given_up<E>(error: impl Fn() -> E) -> GaveUp<E> {
    let (timer, policy) = (ManualTimer::new(), RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none()));
    drive(retry(|_| async { Err::<(), _>(error()) }, &policy, Never).with_timer(&timer), &timer).unwrap_err()
}

fn elapsed() -> Elapsed {
    let timer = ManualTimer::new();
    let error = drive(std::future::pending::<io::Result<()>>().timeout(SECOND).with_timer(&timer), &timer).unwrap_err();
    *error.get_ref().unwrap().downcast_ref::<Elapsed>().unwrap()
}

#[derive(Debug, thiserror::Error)]
enum Own {
    #[error("connection")]
    Connection(#[source] io::Error),
    #[error("too slow")]
    Slow(#[from] Elapsed),
}

/// Each level prints itself only; the chain of sources has each once.
#[test]
fn gave_up_prints_its_own_level() {
    let gave_up = given_up(|| Own::Connection(io::Error::other("reset by peer")));
    let mut chain = vec![gave_up.to_string()];
    let mut level = gave_up.source();
    while let Some(error) = level {
        chain.push(error.to_string());
        level = error.source();
    }
    assert_eq!(chain, ["gave up after 2 attempts: no attempts left", "connection", "reset by peer"]);
    assert_eq!(format!("{:#}", anyhow::Error::from(gave_up)), chain.join(": "));
}

#[test]
fn gave_up_says_how_long_and_what_was_asked() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let policy = RetryPolicy::new()
        .with_attempts(2)
        .with_backoff(Backoff::fixed(Duration::from_millis(1500)).with_jitter(resile::Jitter::None))
        .with_hint_cap(SECOND)
        .with_classify(
            |error: &Down| if error.0 == 1 { Verdict::retry() } else { Verdict::throttled(Some(SECOND * 9)) },
        );
    let words = |policy: &RetryPolicy<_>| {
        drive(retry(|_| script.play(), policy, Never).with_timer(&timer), &timer).unwrap_err().to_string()
    };
    assert_eq!(words(&policy), "gave up after 2 attempts in 1.5s: no attempts left (worth trying again in 9.0s)");
    assert_eq!(
        words(&policy),
        "gave up after 1 attempt: the peer asked for a longer wait than the policy allows (worth trying again in 9.0s)"
    );
}

/// Error types that do not implement `Error` go through unharmed.
#[test]
fn anyhow_and_boxes_are_operations_errors() {
    let gave_up = given_up(|| anyhow::anyhow!("root").context("on top"));
    assert_eq!(format!("{:#}", gave_up.into_last().unwrap()), "on top: root");
    let gave_up = given_up(|| Boxed::from("a box"));
    assert_eq!((gave_up.stop(), gave_up.attempts()), (Stop::Attempts, 2));
    assert_eq!(gave_up.last().unwrap().to_string(), "a box");
    assert_eq!(gave_up.into_last().unwrap().to_string(), "a box");
    let gave_up = given_up(|| "a word");
    assert_eq!(gave_up.clone(), gave_up);
}

#[test]
fn elapsed_converts_into_whatever_there_is() {
    let elapsed = elapsed();
    assert_eq!(elapsed.limit(), SECOND);
    assert!(anyhow::Error::from(elapsed).is::<Elapsed>());
    assert!(Boxed::from(elapsed).is::<Elapsed>());
    assert!(matches!(Own::from(elapsed), Own::Slow(inner) if inner == elapsed));
    assert_eq!(Error::<io::Error>::from(elapsed).to_string(), "not finished within 1s");
    assert!(elapsed.source().is_none());
}

/// Under a limit, each of them is what the operation returns anyway.
#[test]
fn limits_fit_every_error_type() {
    async fn hangs<E>() -> Result<(), E> {
        std::future::pending().await
    }
    let timer = ManualTimer::new();
    let anyhow = drive(hangs::<anyhow::Error>().timeout(SECOND).with_timer(&timer), &timer).unwrap_err();
    let boxed = drive(hangs::<Boxed>().timeout(SECOND).with_timer(&timer), &timer).unwrap_err();
    let own = drive(hangs::<Own>().timeout(SECOND).with_timer(&timer), &timer).unwrap_err();
    let union = drive(hangs::<Error<io::Error>>().timeout(SECOND).with_timer(&timer), &timer).unwrap_err();
    assert_eq!(anyhow.to_string(), boxed.to_string());
    assert!(matches!((own, union), (Own::Slow(_), Error::Elapsed(_))));
}

#[test]
fn the_union_is_transparent() {
    let inner = || Own::Connection(io::Error::other("reset by peer"));
    let union = Error::Operation(inner());
    assert_eq!(union.to_string(), inner().to_string());
    assert_eq!(union.source().unwrap().to_string(), "reset by peer");
    assert!(matches!(union.into_operation(), Some(Own::Connection(_))));
    let refused = Error::<Own>::from(elapsed());
    assert!(refused.source().is_none());
    assert!(refused.into_operation().is_none());
}

#[test]
fn lift_judges_the_operation_and_retries_the_refusal() {
    let lifted = Lift(|error: &Down| (error.0 > 1).then(|| Verdict::throttled(None)));
    assert_eq!(lifted.classify(&Error::Operation(Down(2))), Some(Verdict::throttled(None)));
    assert_eq!(lifted.classify(&Error::Operation(Down(1))), None);
    assert_eq!(lifted.classify(&elapsed().into()), Some(Verdict::retry()));
}

/// A classifier that has an opinion on attempts that were cut keeps it under `Lift`.
#[test]
fn lift_asks_the_classifier_about_what_was_cut() {
    use resile::http::{Classifier, Refused};
    use resile::{CutOff, OrElse};

    type Union = Error<Refused>;
    let cut: [Union; 2] = [elapsed().into(), CutOff::default().into()];
    let no_opinion = |_: &Refused| None::<Verdict>;
    for error in cut {
        assert_eq!(Lift(Classifier::non_idempotent()).classify(&error), Some(Verdict::fail()));
        assert_eq!(Lift(Classifier::idempotent()).classify(&error), Some(Verdict::retry()));
        let asked: OrElse<_, _> = no_opinion.or_else(Classifier::non_idempotent());
        assert_eq!(Lift(asked).classify(&error), Some(Verdict::fail()));
        assert_eq!(Lift(no_opinion).classify(&error), Some(Verdict::retry()));
    }
}

/// The composition that the README teaches: a limit on each attempt, and `Lift` around the classifier.
#[test]
fn a_request_that_is_not_idempotent_is_sent_once_if_it_times_out() {
    use resile::http::{Classifier, Refused};

    for (classifier, times, stop) in
        [(Classifier::non_idempotent(), 1, Stop::Fatal), (Classifier::idempotent(), 3, Stop::Attempts)]
    {
        let (timer, sent) = (ManualTimer::new(), std::cell::Cell::new(0));
        let policy = RetryPolicy::new().with_classify(Lift(classifier));
        let post = |_| {
            sent.set(sent.get() + 1);
            std::future::pending::<Result<(), Error<Refused>>>().timeout(SECOND).with_timer(&timer)
        };
        let gave_up = drive(retry(post, &policy, Never).with_timer(&timer), &timer).unwrap_err();
        assert_eq!((sent.get(), gave_up.stop()), (times, stop));
    }
}
