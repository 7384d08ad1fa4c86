//! `GaveUp::conclusion`: what a program may tell its own caller.

use std::future::{pending, ready};
use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use proptest::prelude::*;
use resile::error::Conclusion::{
    AskAgain, AskAgainWithKey, InDoubt, NotDone, SeeError, Unresolved,
};
use resile::quota::{Cost, Rate};
use resile::{
    Backoff, Breaker, Classify, FallbackPolicy, GaveUp, Health, HedgePolicy, Never, Quota,
    ResilienceExt, RetryPolicy, Run, StopReason, Upstream, Verdict, fallback, hedge, retry,
    retry_stream,
};
use tokio_util::sync::CancellationToken;

use super::effects::{End, Failed, Keyed, Known, ends, play, stated};

const SECOND: Duration = Duration::from_secs(1);

/// Returns whether the same request would end with the same error.
fn is_final(gave_up: &GaveUp<Failed>) -> bool {
    let is_failing = gave_up.verdict().is_some_and(|it| it.health() == Health::Failing);
    gave_up.reason() == StopReason::Fatal && !is_failing
}

proptest! {
    /// A request without a key is not done exactly if no attempt may have had an effect. It is in doubt exactly if the
    /// call is.
    #[test]
    fn each_conclusion_without_a_key_follows_from_its_attempts(
        ends in proptest::collection::vec(ends(), 1..6),
        again: bool,
        is_alone: bool,
    ) {
        let (gave_up, made) = play(&ends, Known { again }, is_alone);
        let conclusion = gave_up.conclusion();
        prop_assert_eq!(conclusion, gave_up.conclusion_if_first());
        let is_none = !made.contains(&true);
        let is_told = is_none && is_final(&gave_up);
        prop_assert_eq!(conclusion == NotDone, is_none && !is_told, "{:?} {:?}", gave_up, ends);
        prop_assert!(conclusion == SeeError || !is_told, "{:?} {:?}", gave_up, ends);
        prop_assert_eq!(conclusion == InDoubt, gave_up.is_in_doubt(), "{:?} {:?}", gave_up, ends);
        let is_again = gave_up.verdict().is_some_and(|verdict| verdict.is_again());
        prop_assert!(conclusion != SeeError || !is_again, "{:?} {:?}", gave_up, ends);
        let is_idempotent = gave_up.verdict().is_some_and(|verdict| verdict.is_idempotent());
        prop_assert!(conclusion != AskAgain || is_again || is_idempotent, "{:?}", gave_up);
        prop_assert!(!matches!(conclusion, AskAgainWithKey | Unresolved), "{:?}", gave_up);
    }

    /// A request with a key is never "not done" unless the program knows that no earlier call had the key.
    #[test]
    fn each_conclusion_with_a_key_follows_from_its_attempts(
        ends in proptest::collection::vec(ends(), 1..6),
        again: bool,
        is_alone: bool,
    ) {
        let (gave_up, made) = play(&ends, Keyed(Known { again }), is_alone);
        let expected = match gave_up.reason() {
            StopReason::Unclassified => InDoubt,
            StopReason::Fatal if is_final(&gave_up) => Unresolved,
            _ => AskAgainWithKey,
        };
        prop_assert_eq!(gave_up.conclusion(), expected, "{:?} {:?}", gave_up, ends);
        let if_first = match made.contains(&true) {
            true => expected,
            false if is_final(&gave_up) => SeeError,
            false => NotDone,
        };
        prop_assert_eq!(gave_up.conclusion_if_first(), if_first, "{:?} {:?}", gave_up, ends);
    }
}

/// Returns ends of attempts, of which some state a key.
fn partly_keyed() -> impl Strategy<Value = Vec<End>> {
    let end = (ends(), any::<bool>()).prop_map(|(end, is_keyed)| match end {
        End::Error { verdict: Some(verdict) } if is_keyed => {
            End::Error { verdict: Some(verdict.keyed()) }
        }
        end => end,
    });
    proptest::collection::vec(end, 1..6)
}

proptest! {
    /// The key is one of the request, so what one failure states of it holds for the whole call. A later failure that
    /// says nothing of a key cannot deny what an earlier attempt may have done.
    #[test]
    fn a_key_that_any_failure_states_stays_with_the_call(
        ends in partly_keyed(),
        states_cuts: bool,
        is_alone: bool,
    ) {
        use resile::classify::ClassifyExt;
        let again = Verdict::transient();
        let (gave_up, made) = if states_cuts {
            play(&ends, stated.cut_is(again), is_alone)
        } else {
            play(&ends, stated, is_alone)
        };
        let states_key = |end: &End| {
            matches!(end, End::Error { verdict } if verdict.is_some_and(|it| it.is_keyed()))
        };
        let is_keyed = ends[..made.len()].iter().any(states_key);
        let conclusion = gave_up.conclusion();
        prop_assert_eq!(conclusion == InDoubt, gave_up.is_in_doubt(), "{:?} {:?}", gave_up, ends);
        if is_keyed && !gave_up.is_in_doubt() {
            let is_told = matches!(conclusion, AskAgainWithKey | Unresolved);
            prop_assert!(is_told, "{:?} {:?}", gave_up, ends);
            let may_have = gave_up.to_string().contains("may have been executed");
            prop_assert_eq!(may_have, made.contains(&true), "{} {:?}", gave_up, ends);
        } else {
            prop_assert!(!matches!(conclusion, AskAgainWithKey | Unresolved), "{:?}", gave_up);
        }
    }
}

/// The first attempt is executed and its answer lost. The second one is told that the item is sold out.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_lost_answer_does_not_deny_the_order() {
    let lost = || Failed(Some(Verdict::transient().keyed()));
    let sold_out = || Failed(Some(Verdict::fatal().with_health(Health::Healthy).without_effect()));
    let errors = |first| ready(Err::<(), _>(if first { lost() } else { sold_out() }));
    let words = "an earlier attempt may have been executed, \
                 the request may be sent again with its key";
    let check = |name: &str, gave_up: GaveUp<Failed>| {
        let both = [gave_up.conclusion(), gave_up.conclusion_if_first()];
        assert_eq!(
            (both, gave_up.is_without_effect()),
            ([Unresolved; 2], false),
            "{name}: {gave_up}"
        );
        assert!(gave_up.to_string().contains(words), "{name}: {gave_up}");
        assert!(gave_up.verdict().is_some_and(|verdict| verdict.is_keyed()), "{name}");
    };
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(stated);
    let op = |it: resile::Attempt| errors(it.is_first());
    check("retry", retry(op, policy, Never).await.unwrap_err());
    let shop = Upstream::new("shop");
    check("upstream", retry(op, policy, Never).on(&shop).await.unwrap_err());

    let mut run = Run::new(&policy, Never);
    let mut first = true;
    let gave_up = loop {
        match run.attempt(errors(first)).await {
            Ok(reply) => assert_eq!(reply, None),
            Err(gave_up) => break gave_up,
        }
        first = false;
    };
    check("run", gave_up);
    // Without an admission.
    let mut run = Run::new(&policy, Never);
    assert!(run.failed(lost()).is_ok());
    check("by hand", run.failed(sold_out()).unwrap_err());

    // The first attempt fails while the second one is in flight.
    let hedged = HedgePolicy::new().with_delay(SECOND).with_classifier(stated);
    let slow = |it: resile::Attempt| async move {
        tokio::time::sleep(2 * SECOND).await;
        errors(it.is_first()).await
    };
    let gave_up = hedge(slow, hedged, Never).await.unwrap_err();
    assert_eq!((gave_up.attempts(), gave_up.conclusion()), (2, Unresolved));
    assert!(gave_up.to_string().contains("may have been executed"), "{gave_up}");

    let open = |it: resile::Attempt| {
        let error = if it.is_first() { lost() } else { sold_out() };
        ready(Ok::<_, Failed>(stream::iter([Err::<u32, _>(error)])))
    };
    let mut answer = pin!(retry_stream(open, policy, Never));
    check("stream", answer.next().await.unwrap().unwrap_err());

    // An outer call knows it of its inner calls, also in its flat error.
    let by_verdict = |gave_up: &GaveUp<Failed>| gave_up.verdict();
    let once = RetryPolicy::none().with_classifier(stated);
    let rules = FallbackPolicy::new().with_classifier(by_verdict);
    let op = |it: resile::fallback::Alternative<'_, bool>| {
        let first = *it.value();
        retry(move |_| errors(first), once, Never)
    };
    let gave_up = fallback(&[true, false], op, rules, Never).await.unwrap_err();
    check("fallback", gave_up.flatten());
    let outer = policy.with_classifier(by_verdict);
    let inner = |it: resile::Attempt| {
        let first = it.is_first();
        retry(move |_| errors(first), once, Never)
    };
    check("outer", retry(inner, outer, Never).await.unwrap_err().flatten());
}

/// The last inner call is in doubt by its own classifier, and the outer one calls its error final.
#[tokio::test]
async fn a_key_does_not_resolve_the_doubt_of_the_last_inner_call() {
    let doubt = Verdict::transient().not_again();
    let op = |it: resile::Attempt| {
        let verdict = if it.is_first() { Verdict::transient().keyed() } else { doubt };
        let policy = RetryPolicy::none().with_classifier(stated);
        retry(move |_| ready(Err::<(), _>(Failed(Some(verdict)))), policy, Never)
    };
    let by_outer = |gave_up: &GaveUp<Failed>| {
        if gave_up.is_in_doubt() { Some(Verdict::fatal()) } else { gave_up.verdict() }
    };
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(by_outer);
    let gave_up = retry(op, policy, Never).await.unwrap_err();
    assert_eq!((gave_up.is_in_doubt(), gave_up.conclusion()), (false, Unresolved));
    let flat = gave_up.flatten();
    assert_eq!((flat.is_in_doubt(), flat.conclusion()), (true, InDoubt));
    assert!(!flat.to_string().contains("with its key"), "{flat}");
}

const UNSENT: Verdict = Verdict::transient().not_sent();
const LOST: Verdict = Verdict::transient().keyed();
const SOLD_OUT: Verdict = Verdict::fatal().with_health(Health::Healthy).without_effect();

fn by_verdict(gave_up: &GaveUp<Failed>) -> Option<Verdict> {
    gave_up.verdict()
}

/// The token ends a stream of an order that is read, after an attempt that sent nothing.
#[tokio::test]
async fn a_stream_that_is_read_is_not_denied_by_its_token() {
    for (again, conclusion) in [(false, InDoubt), (true, AskAgain)] {
        let token = CancellationToken::new();
        let policy = RetryPolicy::new().with_backoff(Backoff::none());
        let policy = policy.with_classifier(Known { again });
        let open = |it: resile::Attempt| {
            let answer = stream::iter([Ok(1)]).chain(stream::pending());
            ready(if it.is_first() { Err(Failed(Some(UNSENT))) } else { Ok(answer) })
        };
        let mut answer = pin!(retry_stream(open, policy, &token));
        assert_eq!(answer.next().await.unwrap().unwrap(), 1);
        token.cancel();
        let end = answer.next().await.unwrap().unwrap_err();
        assert_eq!((end.reason(), end.is_without_effect()), (StopReason::Cancelled, false));
        assert_eq!(end.conclusion(), conclusion, "{end}");
    }
}

/// The caller drops the operation of the first attempt and begins another one.
#[tokio::test]
async fn an_attempt_by_hand_without_a_report_may_have_an_effect() {
    let policy = RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none());
    let policy = policy.with_classifier(Known { again: false });
    for error in [UNSENT, SOLD_OUT] {
        let mut run = Run::new(&policy, Never);
        run.next().await.unwrap();
        run.next().await.unwrap();
        let end = run.failed(Failed(Some(error))).unwrap_err();
        assert!(!end.is_without_effect() && end.conclusion() != NotDone, "{end}");
        let mut run = Run::new(&policy, Never);
        run.next().await.unwrap();
        let end = run.attempt(ready(Err::<(), _>(Failed(Some(error))))).await;
        let end = end.map(|_| ()).and_then(|()| run.failed(Failed(Some(error)))).unwrap_err();
        assert!(!end.is_without_effect() && end.conclusion() != NotDone, "{end}");
        // A report closes the attempt.
        let mut run = Run::new(&policy, Never);
        run.next().await.unwrap();
        let end = run.failed(Failed(Some(error)));
        if error == UNSENT {
            end.unwrap();
            run.next().await.unwrap();
            let end = run.failed(Failed(Some(error))).unwrap_err();
            assert!(end.is_without_effect(), "{end}");
        }
    }
}

/// An attempt that the caller made without an admission counts, whoever made the one before it.
#[tokio::test]
async fn a_failure_by_hand_after_an_attempt_is_one_of_another_attempt() {
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(stated);
    let mut run = Run::new(policy, Never);
    assert_eq!(run.attempt(ready(Err::<(), _>(Failed(Some(LOST))))).await.unwrap(), None);
    let end = run.failed(Failed(Some(SOLD_OUT))).unwrap_err();
    assert_eq!((end.attempts(), end.conclusion()), (2, Unresolved), "{end}");
    assert!(end.to_string().contains("an earlier attempt may have been executed"), "{end}");
}

/// The last attempt had no effect and forbids a repetition. The one before may have been executed, but nobody says that
/// it is an order.
#[tokio::test]
async fn the_words_of_the_doubt_need_a_doubt() {
    let refused = Verdict::transient().not_again().without_effect();
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(stated);
    let op = |it: resile::Attempt| {
        let verdict = if it.is_first() { Verdict::transient() } else { refused };
        ready(Err::<(), _>(Failed(Some(verdict))))
    };
    let end = retry(op, policy, Never).await.unwrap_err();
    assert_eq!((end.is_in_doubt(), end.conclusion()), (false, SeeError));
    assert!(!end.to_string().contains("must not be sent again"), "{end}");
}

/// The classifier has no opinion on cuts, so the token leaves a doubt. A key of an earlier error does not resolve it.
#[tokio::test]
async fn a_cancelled_call_in_doubt_says_one_thing() {
    for second in [LOST, Verdict::transient()] {
        let token = CancellationToken::new();
        let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(stated);
        let op = async |it: resile::Attempt| match it.number() {
            1 => Err::<(), _>(Failed(Some(LOST))),
            2 => Err(Failed(Some(second))),
            _ => {
                token.cancel();
                pending().await
            }
        };
        let end = retry(op, policy, &token).await.unwrap_err();
        assert_eq!((end.conclusion(), end.is_in_doubt()), (InDoubt, true), "{end}");
        assert!(!end.verdict().is_some_and(|it| it.is_keyed() || it.is_again()), "{end:?}");
        assert!(end.to_string().contains("must not be sent again"), "{end}");
    }
}

/// The last inner call is refused without an effect, and the first one may have been executed.
#[tokio::test]
async fn a_flat_error_denies_no_effect_of_an_earlier_inner_call() {
    let inner = |it: resile::Attempt| {
        let verdict = if it.is_first() { LOST } else { UNSENT };
        let policy = RetryPolicy::none().with_classifier(Keyed(Known { again: true }));
        retry(move |_| ready(Err::<(), _>(Failed(Some(verdict)))), policy, Never)
    };
    let twice = RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none());
    let flat = retry(inner, twice.with_classifier(by_verdict), Never).await.unwrap_err().flatten();
    assert_eq!((flat.is_without_effect(), flat.conclusion_if_first()), (false, AskAgainWithKey));
    assert!(!flat.verdict().unwrap().is_without_effect());
    let policy = RetryPolicy::none().with_classifier(by_verdict);
    let outer = retry(|_| ready(Err::<(), _>(flat.clone())), policy, Never).await.unwrap_err();
    assert_eq!(outer.conclusion_if_first(), AskAgainWithKey, "{outer}");
}

/// The outer call is in doubt, because its classifier does not know the last inner error. That one is "sold out".
#[tokio::test]
async fn a_flat_error_keeps_the_key_although_the_outer_call_is_in_doubt() {
    let once = RetryPolicy::none().with_classifier(stated);
    let by_outer = |gave_up: &GaveUp<Failed>| gave_up.verdict().filter(Verdict::is_again);
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(by_outer);
    let op = |it: resile::Attempt| {
        let verdict = if it.is_first() { LOST } else { SOLD_OUT };
        retry(move |_| ready(Err::<(), _>(Failed(Some(verdict)))), once, Never)
    };
    let end = retry(op, policy, Never).await.unwrap_err();
    assert_eq!((end.reason(), end.conclusion()), (StopReason::Unclassified, InDoubt));
    assert_eq!(end.flatten().conclusion(), Unresolved);
}

/// Returns the conclusion on a call that its token cancels in its first attempt.
async fn cancelled(classifier: impl Classify<Failed>) -> [resile::error::Conclusion; 2] {
    let token = CancellationToken::new();
    let policy = RetryPolicy::new().with_classifier(classifier);
    let op = |_| {
        token.cancel();
        pending::<Result<(), Failed>>()
    };
    let gave_up = retry(op, policy, &token).await.unwrap_err();
    assert_eq!(gave_up.reason(), StopReason::Cancelled);
    [gave_up.conclusion(), gave_up.conclusion_if_first()]
}

#[tokio::test]
async fn a_cancelled_read_is_asked_again_and_a_cancelled_order_is_not() {
    assert_eq!(cancelled(Known { again: true }).await, [AskAgain; 2]);
    assert_eq!(cancelled(Known { again: false }).await, [InDoubt; 2]);
    assert_eq!(cancelled(Keyed(Known { again: true })).await, [AskAgainWithKey; 2]);
}

/// Whether an attempt timeout or the upstream itself ends a read at its deadline, it may be asked again.
#[tokio::test(start_paused = true)]
async fn a_read_of_a_failing_upstream_may_be_asked_again() {
    let stop = Verdict::overloaded().idempotent().not_wanted();
    let late = Verdict::transient().not_again().idempotent();
    let missing = Verdict::fatal().with_health(Health::Healthy).idempotent();
    for (verdict, conclusion) in [(stop, AskAgain), (late, AskAgain), (missing, SeeError)] {
        let policy = RetryPolicy::new().with_classifier(move |_: &Failed| verdict);
        let call = retry(|_| ready(Err::<(), _>(Failed(None))), policy, Never);
        let gave_up = call.await.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.conclusion()), (StopReason::Fatal, conclusion));
    }
    let policy = RetryPolicy::new().with_total_timeout(SECOND);
    let policy = policy.with_classifier(Known { again: true });
    let call = retry(|_| pending::<Result<(), Failed>>(), policy, Never);
    let gave_up = call.await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.conclusion()), (StopReason::Deadline, AskAgain));
}

/// The limit on the whole ends a stream of which the reader has a part.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_read_may_be_asked_again_after_its_limit() {
    for (again, conclusion) in [(true, AskAgain), (false, InDoubt)] {
        let policy = RetryPolicy::new().with_classifier(Known { again });
        let open = async |_| Ok(stream::iter([Ok::<_, Failed>(1)]).chain(stream::pending()));
        let call = retry_stream(open, policy, Never).with_whole_timeout(SECOND);
        let mut call = pin!(call);
        assert_eq!(call.next().await.unwrap().unwrap(), 1);
        let gave_up = call.next().await.unwrap().unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.conclusion()), (StopReason::Partial, conclusion));
    }
}

/// The same request is too large each time.
#[tokio::test]
async fn a_request_that_is_too_large_is_not_asked_again() {
    let shop = Upstream::new("shop").with_quota(Quota::new().with_tokens(Rate::per_minute(60)));
    let ask = async |classifier: &dyn Classify<Failed>| {
        let policy = RetryPolicy::new().with_classifier(classifier);
        let call = retry(|_| ready(Ok::<(), Failed>(())), policy, Never);
        let gave_up = call.on(shop.at_cost(Cost::input(1_000))).await.unwrap_err();
        assert_eq!(gave_up.reason(), StopReason::TooLarge);
        [gave_up.conclusion(), gave_up.conclusion_if_first()]
    };
    assert_eq!(ask(&Known { again: true }).await, [SeeError; 2]);
    assert_eq!(ask(&Keyed(Known { again: true })).await, [Unresolved, SeeError]);
}

/// A breaker refuses the second ask, and the first one may have been executed.
#[tokio::test]
async fn a_refused_ask_with_a_key_is_not_done_only_if_it_is_the_first() {
    let shop = Upstream::new("shop").with_breaker(Breaker::new());
    let _isolated = shop.isolate();
    let policy = RetryPolicy::new().with_classifier(Keyed(Known { again: true }));
    let call = retry(|_| ready(Ok::<(), Failed>(())), policy, Never).on(&shop);
    let gave_up = call.await.unwrap_err();
    assert_eq!(gave_up.conclusion(), AskAgainWithKey);
    assert_eq!(gave_up.conclusion_if_first(), NotDone);
}

/// A closure states the key of its errors, and the call that the breaker refuses has none. An earlier ask with the key
/// may have been executed. A classifier without keys says so by its opinion on a cut.
#[tokio::test]
async fn a_refused_ask_of_which_nobody_states_the_key_may_be_asked_again() {
    use resile::classify::{Always, ClassifyExt};
    let shop = Upstream::new("shop").with_breaker(Breaker::new());
    let _isolated = shop.isolate();
    let keyed = |_: &Failed| Verdict::transient().keyed();
    let plain = |_: &Failed| Verdict::transient();
    let once = Verdict::transient().not_again();
    let classifiers: [(&dyn Classify<Failed>, _, _); 8] = [
        (&keyed, AskAgain, NotDone),
        (&plain, AskAgain, NotDone),
        (&Always, AskAgain, NotDone),
        (&keyed.cut_is(Verdict::transient()), AskAgain, NotDone),
        (&keyed.cut_is(Verdict::transient().keyed()), AskAgainWithKey, NotDone),
        (&plain.cut_is(Verdict::transient().idempotent()), NotDone, NotDone),
        (&plain.cut_is(once), NotDone, NotDone),
        (&Known { again: false }, NotDone, NotDone),
    ];
    for (number, (classifier, conclusion, if_first)) in classifiers.into_iter().enumerate() {
        let policy = RetryPolicy::new().with_classifier(classifier);
        let call = retry(|_| ready(Ok::<(), Failed>(())), policy, Never).on(&shop);
        let gave_up = call.await.unwrap_err();
        let both = [gave_up.conclusion(), gave_up.conclusion_if_first()];
        assert_eq!(both, [conclusion, if_first], "{number}");
        // An outer call knows no more.
        let outer = |gave_up: &GaveUp<Failed>| gave_up.verdict();
        let policy = RetryPolicy::none().with_classifier(outer);
        let outer = retry(|_| ready(Err::<(), _>(gave_up.clone())), policy, Never);
        let outer = outer.await.unwrap_err();
        assert_eq!([outer.conclusion(), outer.conclusion_if_first()], both, "{number}");
    }
}

/// The token ended the call before an attempt, so to ask again does no harm whatever the request is.
#[tokio::test]
async fn a_call_that_is_cancelled_before_its_first_attempt_may_be_asked_again() {
    let token = CancellationToken::new();
    token.cancel();
    let policy = RetryPolicy::new().with_classifier(|_: &Failed| Verdict::transient().keyed());
    let gave_up = retry(|_| ready(Ok::<(), Failed>(())), policy, &token).await.unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Cancelled, 0));
    assert_eq!((gave_up.conclusion(), gave_up.conclusion_if_first()), (AskAgain, NotDone));
}

/// Each attempt was cut before it sent its request, after an error that stated its key or without one.
#[tokio::test(start_paused = true)]
async fn a_call_whose_attempts_sent_nothing_is_not_done_only_if_its_request_was_judged() {
    let unsent = |_| pending::<Result<(), Failed>>().before_sending();
    let policy = RetryPolicy::none().with_attempt_timeout(SECOND);
    let keyed = policy.with_classifier(|_: &Failed| Verdict::transient().keyed());
    let gave_up = retry(unsent, keyed, Never).await.unwrap_err();
    assert!(gave_up.is_without_effect());
    assert_eq!((gave_up.conclusion(), gave_up.conclusion_if_first()), (AskAgain, NotDone));
    let once = policy.with_classifier(Known { again: false });
    assert_eq!(retry(unsent, once, Never).await.unwrap_err().conclusion(), NotDone);
    let refused = |_: &Failed| Verdict::transient().not_sent();
    let fails = |_| ready(Err::<(), _>(Failed(None)));
    let call = retry(fails, policy.with_classifier(refused), Never);
    assert_eq!(call.await.unwrap_err().conclusion(), NotDone);
}

/// The classifier calls the error final and says nothing of the upstream.
#[tokio::test]
async fn a_final_error_says_what_happened() {
    let policy = RetryPolicy::new().with_classifier(|_: &Failed| Verdict::fatal());
    let call = retry(|_| ready(Err::<(), _>(Failed(None))), policy, Never);
    assert_eq!(call.await.unwrap_err().conclusion(), SeeError);
}
