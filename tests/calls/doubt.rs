//! `GaveUp::is_in_doubt`: whether the last request may have been executed and must not be sent again.

use std::cell::Cell;
use std::future::{pending, ready};
use std::task::{Context, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::classify::{ClassifyExt, Cut};
use resile::time::ManualTimer;
use resile::{
    Attempt, Backoff, Breaker, Classify, GaveUp, Health, Never, RetryPolicy, Run, StopReason,
    Upstream, Verdict, retry,
};
use tokio_util::sync::CancellationToken;

use super::script::{clock, drive};

const SECOND: Duration = Duration::from_secs(1);
const WORDS: &str = "the request may have been executed and must not be sent again";

/// Each attempt fails with its number, and the classifier says the verdicts in order.
fn fails(verdicts: &[Option<Verdict>]) -> GaveUp<usize> {
    let classifier = |error: &usize| verdicts[*error];
    let policy = RetryPolicy::new()
        .with_attempts(u32::try_from(verdicts.len()).unwrap())
        .with_backoff(Backoff::none())
        .with_classifier(classifier);
    let number = Cell::new(0);
    let call = retry(|_| ready(Err::<(), _>(number.replace(number.get() + 1))), policy, Never);
    drive(call, &ManualTimer::new()).unwrap_err()
}

/// A classifier with an opinion on cuts and on no error.
struct OnCut(Option<Verdict>);

impl Classify<&'static str> for OnCut {
    fn classify(&self, _: &&'static str) -> Option<Verdict> {
        Some(Verdict::transient())
    }
    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        self.0
    }
}

/// The attempt hangs, and a limit or the token ends it.
fn hangs(on_cut: Option<Verdict>, by_token: bool, total: Duration) -> GaveUp<&'static str> {
    let timer = ManualTimer::new();
    let policy = RetryPolicy::new()
        .with_attempts(1)
        .with_attempt_timeout(SECOND)
        .with_total_timeout(total)
        .with_classifier(OnCut(on_cut));
    let token = CancellationToken::new();
    let hang = |_: Attempt| {
        if by_token {
            token.cancel();
        }
        pending::<Result<(), &'static str>>()
    };
    drive(retry(hang, policy, token.clone()).on(clock(&timer)), &timer).unwrap_err()
}

fn verdicts() -> impl Strategy<Value = Option<Verdict>> {
    let health = prop_oneof![
        Just(Health::Healthy),
        Just(Health::Throttling),
        Just(Health::Failing),
        Just(Health::Unknown)
    ];
    proptest::option::weighted(
        0.9,
        (any::<bool>(), health).prop_map(|(again, health)| {
            let verdict = Verdict::transient().with_health(health);
            if again { verdict } else { verdict.not_again() }
        }),
    )
}

proptest! {
    /// Only the last failure counts, because a call goes on only after a verdict that allows it.
    #[test]
    fn the_verdict_on_the_last_failure_decides(
        verdicts in proptest::collection::vec(verdicts(), 1..4)
    ) {
        let gave_up = fails(&verdicts);
        let last = verdicts[gave_up.attempts() as usize - 1];
        let has_failed = |it: Verdict| matches!(it.health(), Health::Failing | Health::Throttling);
        let expected = last.is_none_or(|it| !it.is_again() && has_failed(it));
        prop_assert_eq!(gave_up.is_in_doubt(), expected);
        let says = gave_up.to_string().ends_with(WORDS);
        prop_assert_eq!(says, expected && last.is_some());
        prop_assert_eq!(gave_up.clone().map(|_| ()).is_in_doubt(), expected);
    }

    /// A cut request is in doubt unless it may be sent again. Its health does not count.
    #[test]
    fn a_cut_request_is_in_doubt_unless_it_may_be_sent_again(
        on_cut in verdicts(), by_token: bool, is_deadline: bool
    ) {
        let gave_up = hangs(on_cut, by_token, if is_deadline { SECOND / 2 } else { SECOND * 9 });
        prop_assert_eq!(gave_up.is_in_doubt(), on_cut.is_none_or(|it| !it.is_again()));
        prop_assert_eq!(gave_up.reason() == StopReason::Cancelled, by_token);
    }
}

proptest! {
    /// Nobody must find out whether a request was executed that may be executed twice.
    #[test]
    fn an_idempotent_request_is_never_in_doubt(
        verdicts in proptest::collection::vec(verdicts(), 1..4), by_token: bool
    ) {
        let read = |it: &Option<Verdict>| Some(it.unwrap_or(Verdict::fatal()).idempotent());
        let verdicts: Vec<_> = verdicts.iter().map(read).collect();
        let gave_up = fails(&verdicts);
        prop_assert!(!gave_up.is_in_doubt() && !gave_up.to_string().contains(WORDS));
        prop_assert!(!hangs(verdicts[0], by_token, SECOND * 9).is_in_doubt());
        let [plain, read] = [verdicts[0].unwrap(), verdicts[0].unwrap().idempotent()];
        prop_assert_eq!(plain.is_again(), read.is_again());
    }
}

/// The classifier allows a repetition, but the caller has no second request. So nothing is in doubt.
#[test]
fn a_request_that_cannot_be_made_again_says_so() {
    let once = Verdict::overloaded().not_repeatable();
    assert_eq!(once, Verdict::overloaded().not_again());
    let words = "the request cannot be made again";
    let gave_up = fails(&[Some(once), None]);
    assert_eq!(gave_up.to_string(), format!("gave up after 1 attempt, {words}"));
    assert_eq!((gave_up.reason(), gave_up.is_in_doubt()), (StopReason::Fatal, false));
    let cut = hangs(Some(Verdict::transient().on_cut().not_repeatable()), false, SECOND * 9);
    assert!(cut.to_string().contains(words) && !cut.is_in_doubt(), "{cut}");
    // An order that must not be sent again stays in doubt.
    let order = Verdict::transient().not_again().not_repeatable();
    let gave_up = fails(&[Some(order), None]);
    assert_eq!(gave_up.to_string(), format!("gave up after 1 attempt, {WORDS}"));
    assert!(gave_up.is_in_doubt());
}

/// The statement of a classifier goes along with its verdict, also to an outer call.
/// The statement of the upstream forbids a repetition and decides the words, but nothing else.
#[test]
fn a_request_that_the_upstream_does_not_want_says_so() {
    let stop = Verdict::overloaded().not_wanted();
    let asks = "the upstream asks for no retry";
    assert_eq!(stop, Verdict::overloaded().not_again());
    for (verdict, words, in_doubt) in [
        (stop.idempotent(), asks.to_owned(), false),
        (stop.with_health(Health::Healthy), asks.to_owned(), false),
        (stop, format!("{WORDS}, {asks}"), true),
    ] {
        let gave_up = fails(&[Some(verdict), None]);
        assert_eq!(gave_up.to_string(), format!("gave up after 1 attempt, {words}"));
        assert_eq!(gave_up.is_in_doubt(), in_doubt);
    }
}

#[test]
fn the_classifiers_of_the_crate_know_what_is_idempotent() {
    use resile::{http, io};
    let full = ::http::StatusCode::INSUFFICIENT_STORAGE; // 507, which is never sent again
    let [read, post] = [http::Classifier::idempotent(), http::Classifier::non_idempotent()]
        .map(|it| fails(&[Some(it.verdict(full, None))]));
    assert!(!read.is_in_doubt() && post.is_in_doubt());
    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let [read, post] = [io::Classifier::idempotent(), io::Classifier::non_idempotent()]
        .map(|it| fails(&[Some(it.verdict(&reset).unwrap().not_again())]));
    assert!(!read.is_in_doubt() && post.is_in_doubt());
    let outer = fails(&[read.verdict()]);
    assert!(!outer.is_in_doubt() && fails(&[post.verdict()]).is_in_doubt());
}

/// A read whose last request was never sent may have been executed before, which does no harm.
#[test]
fn a_read_that_was_not_sent_again_is_not_in_doubt() {
    use resile::{http, io};
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let http = http::Classifier::idempotent();
    let io = io::Classifier::idempotent();
    for [lost, not_sent] in [
        [Some(http.unanswered()), Some(http.not_sent())],
        [Some(io.unanswered()), io.verdict(&refused)],
    ] {
        let verdict = fails(&[lost, not_sent]).verdict().unwrap();
        assert!(verdict.is_again() && !verdict.is_not_sent());
        assert!(!fails(&[Some(verdict.not_again())]).is_in_doubt(), "{verdict:?}");
    }
}

/// A call that made no attempt sent nothing.
#[test]
fn a_refused_call_is_not_in_doubt() {
    let timer = ManualTimer::new();
    let upstream = Upstream::new("store").with_breaker(Breaker::new()).with_timer(&timer);
    let _isolation = upstream.isolate();
    let policy = RetryPolicy::new().with_classifier(OnCut(None));
    let sent = |_: Attempt| ready(Ok::<(), &str>(()));
    let refused = drive(retry(sent, policy, Never).on(&upstream), &timer).unwrap_err();
    assert_eq!((refused.attempts(), refused.is_in_doubt()), (0, false));
    let token = CancellationToken::new();
    token.cancel();
    let policy = RetryPolicy::new().with_classifier(OnCut(None));
    let cancelled = drive(retry(sent, policy, token), &timer).unwrap_err();
    assert_eq!((cancelled.attempts(), cancelled.is_in_doubt()), (0, false));
}

/// A token that is cancelled during the delay finds no request in flight.
#[test]
fn a_call_cancelled_between_its_attempts_is_not_in_doubt() {
    let timer = ManualTimer::new();
    let policy = RetryPolicy::new()
        .with_classifier((|_: &&str| Verdict::throttled()).cut_is(Verdict::fatal()));
    let token = CancellationToken::new();
    let fail = |_: Attempt| {
        token.cancel();
        ready(Err::<(), _>("busy"))
    };
    let gave_up = drive(retry(fail, policy, token.clone()).on(clock(&timer)), &timer).unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.is_in_doubt()), (StopReason::Cancelled, false));
}

/// The caller of a run drops an attempt, which may have been executed.
#[test]
fn a_dropped_attempt_is_in_doubt_unless_it_may_be_sent_again() {
    for (on_cut, expected) in [(Verdict::transient(), false), (Verdict::fatal(), true)] {
        let timer = ManualTimer::new();
        let policy = RetryPolicy::new().with_attempts(1).with_classifier(OnCut(Some(on_cut)));
        let mut run = Run::new(policy, Never).on(clock(&timer));
        let mut attempt = Box::pin(run.attempt(pending::<Result<(), &'static str>>()));
        assert!(attempt.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(attempt);
        let gave_up = drive(run.attempt(ready(Ok::<(), _>(()))), &timer).unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.is_in_doubt()), (StopReason::Attempts, expected));
    }
}

/// A token or the deadline drops the attempt in flight. The error and the log then say what is unknown.
#[test]
fn a_dropped_order_is_told_in_the_error_and_in_the_log() {
    use resile::io::Classifier;
    for (by_token, end) in [
        (true, "bank: gave up after 1 attempt, cancelled, "),
        (false, "bank: gave up after 1 attempt in 3.0s, "),
    ] {
        for (classifier, in_doubt) in
            [(Classifier::non_idempotent(), true), (Classifier::idempotent(), false)]
        {
            let lines = std::sync::Mutex::new(Vec::new());
            let note = |event: &resile::observe::Event<'_>| {
                if let resile::observe::EventKind::GaveUp { in_doubt, .. } = event.kind {
                    lines.lock().unwrap().push((in_doubt, event.to_string()));
                }
            };
            let (timer, token) = (ManualTimer::new(), CancellationToken::new());
            let policy =
                RetryPolicy::new().with_total_timeout(3 * SECOND).with_classifier(classifier);
            let upstream = Upstream::new("bank").with_timer(timer.clone());
            let call = retry(|_| pending::<Result<(), std::io::Error>>(), policy, token.clone())
                .on(upstream.observed_by(&note));
            let mut call = Box::pin(call);
            let mut cx = Context::from_waker(Waker::noop());
            assert!(call.as_mut().poll(&mut cx).is_pending());
            if by_token {
                token.cancel();
            } else {
                timer.advance(3 * SECOND);
            }
            let std::task::Poll::Ready(Err(gave_up)) = call.as_mut().poll(&mut cx) else {
                panic!("the call has ended")
            };
            assert_eq!(gave_up.is_in_doubt(), in_doubt);
            assert_eq!(
                gave_up.to_string().starts_with(&format!("{end}{WORDS}")),
                in_doubt,
                "{gave_up}"
            );
            let lines = lines.lock().unwrap();
            assert_eq!((lines.len(), lines[0].0), (1, in_doubt));
            assert_eq!(lines[0].1.contains(WORDS), in_doubt, "{}", lines[0].1);
        }
    }
}

/// A classifier of one's own that forbids a repetition says nothing of the request. The second of the pair
/// knows that it is a read.
#[tokio::test(start_paused = true)]
async fn a_read_stays_a_read_when_the_first_of_a_pair_forbids_its_repetition() {
    let mine = |_: &std::io::Error| Verdict::transient().not_again();
    let down = async |_| Err::<(), _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
    for (second, in_doubt) in [
        (resile::io::Classifier::idempotent(), false),
        (resile::io::Classifier::non_idempotent(), true),
    ] {
        let policy = RetryPolicy::new().with_classifier((mine, second));
        let gave_up = retry(down, policy, Never).await.unwrap_err();
        assert_eq!((gave_up.attempts(), gave_up.is_in_doubt()), (1, in_doubt));
    }
}
