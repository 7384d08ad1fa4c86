//! What a fallback knows of the calls within its alternatives: their doubt and their key.

use std::cell::Cell;
use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use proptest::prelude::*;
use resile::error::Conclusion::{
    AskAgain, AskAgainWithKey, InDoubt, NotDone, SeeError, Unresolved,
};
use resile::fallback::Alternative;
use resile::observe::Event;
use resile::time::ManualTimer;
use resile::{
    Backoff, Classify, FallbackPolicy, GaveUp, Health, HedgePolicy, Never, ResilienceExt,
    RetryPolicy, Run, StopReason, Upstream, Verdict, fallback, hedge, retry, retry_stream,
};
use tokio_util::sync::CancellationToken;

use super::effects::{End, Failed, Keyed, Known, attempt, ends, stated};
use super::script::{clock, drive};

const SECOND: Duration = Duration::from_secs(1);
const LOST: Verdict = Verdict::transient().not_again();
const SOLD_OUT: Verdict = Verdict::fatal().with_health(Health::Healthy).without_effect();
const ORDER: Known = Known { again: false };
const READ: Known = Known { again: true };
const DOUBT: &str = "the request may have been executed and must not be sent again";

const fn error(verdict: Verdict) -> End {
    End::Error { verdict: Some(verdict) }
}

const HANGS: End = End::Hangs { sends: true };

/// The rules of an inner call with one attempt, and its name.
struct Inner<C> {
    ends: &'static [End],
    classifier: C,
    name: Option<&'static str>,
}

/// Makes a fallback by `rules`, whose alternatives end like this, and returns its error and its line at the end.
async fn ask<C: Classify<Failed>>(
    inner: Inner<C>,
    rules: FallbackPolicy<impl Classify<GaveUp<Failed>>>,
) -> (GaveUp<GaveUp<Failed>>, String) {
    let Inner { ends, classifier, name } = inner;
    let policy = RetryPolicy::none().with_attempt_timeout(SECOND).with_classifier(classifier);
    let op = async |it: Alternative<'_, End>| {
        let end = *it.value();
        let call = retry(|_| attempt(end), &policy, Never);
        match name {
            Some(name) => call.on(name).await,
            None => call.await,
        }
    };
    let line = Mutex::new(String::new());
    let note = |event: &Event<'_>| *line.lock().unwrap() = event.to_string();
    let shop = Upstream::new("order");
    let end = fallback(ends, op, rules, Never).on(shop.observed_by(&note)).await.unwrap_err();
    (end, line.into_inner().unwrap())
}

/// Asks of an order without names, without observers.
async fn flat(ends: &'static [End], classifier: impl Classify<Failed>) -> GaveUp<Failed> {
    let policy = RetryPolicy::none().with_attempt_timeout(SECOND).with_classifier(classifier);
    let op = |it: Alternative<'_, End>| {
        let end = *it.value();
        retry(move |_| attempt(end), &policy, Never)
    };
    fallback(ends, op, FallbackPolicy::new(), Never).await.unwrap_err().flatten()
}

/// By default an order in doubt is not sent to another alternative, and the end tells the doubt.
#[tokio::test(start_paused = true)]
async fn an_order_in_doubt_is_not_passed_on() {
    for first in [error(LOST), HANGS] {
        let ends: &'static [End] = Vec::leak(vec![first, error(SOLD_OUT)]);
        for name in [None, Some("a")] {
            let inner = Inner { ends, classifier: ORDER, name };
            let (end, line) = ask(inner, FallbackPolicy::new()).await;
            assert_eq!((end.attempts(), end.reason()), (1, StopReason::Fatal), "{end}");
            assert_eq!((end.is_in_doubt(), end.conclusion()), (true, InDoubt), "{end}");
            let words = format!("no other alternative is tried, because {DOUBT}");
            assert!(end.to_string().ends_with(&words), "{end}");
            assert_eq!(end.to_string().matches(DOUBT).count(), 1, "{end}");
            assert!(line.contains(&words), "{line}");
            let flat = end.flatten();
            assert_eq!((flat.is_in_doubt(), flat.conclusion()), (true, InDoubt), "{flat}");
            assert_eq!(flat.to_string().matches(DOUBT).count(), 1, "{flat}");
            assert!(!flat.to_string().contains("no other alternative"), "{flat}");
        }
        assert_eq!(flat(ends, ORDER).await.conclusion(), InDoubt);
    }
}

/// A read and a request with a key may be sent elsewhere.
#[tokio::test(start_paused = true)]
async fn a_request_that_may_be_repeated_is_passed_on() {
    static LIST: [End; 2] = [HANGS, error(SOLD_OUT)];
    static UNSENT: [End; 2] = [error(Verdict::transient().not_sent()), error(SOLD_OUT)];
    assert_eq!(flat(&LIST, READ).await.conclusion(), SeeError);
    assert_eq!(flat(&LIST, Keyed(READ)).await.conclusion(), Unresolved);
    let end = flat(&UNSENT, ORDER).await;
    assert_eq!((end.attempts(), end.conclusion()), (2, SeeError), "{end}");
}

/// A closure states the key of the lost answer only, and the last alternative tells nothing of it.
#[tokio::test(start_paused = true)]
async fn the_key_of_an_earlier_alternative_is_known() {
    static LIST: [End; 2] = [error(Verdict::transient().keyed()), error(SOLD_OUT)];
    for name in [None, Some("a")] {
        let inner = Inner { ends: &LIST, classifier: stated, name };
        let (end, line) = ask(inner, FallbackPolicy::new()).await;
        assert_eq!((end.attempts(), end.conclusion()), (2, AskAgainWithKey), "{end}");
        assert!(line.contains("may be sent again with its key"), "{line}");
        let flat = end.flatten();
        assert_eq!(flat.conclusion(), Unresolved, "{flat}");
        assert!(!flat.to_string().contains("classifier of the fallback"), "{flat}");
    }
}

/// The program passes an order in doubt on by its own classifier. The next alternative denies it.
#[tokio::test(start_paused = true)]
async fn the_doubt_of_an_earlier_alternative_is_told() {
    let key = Verdict::transient().keyed();
    for (last, name) in [(SOLD_OUT, None), (SOLD_OUT, Some("a")), (key, None), (key, Some("a"))] {
        let ends: &'static [End] = Vec::leak(vec![error(LOST), error(last)]);
        let inner = Inner { ends, classifier: ORDER, name };
        let (end, line) = ask(inner, FallbackPolicy::new().with_classifier(|_: &_| true)).await;
        assert_eq!((end.attempts(), end.reason()), (2, StopReason::Alternatives), "{end}");
        assert!(line.contains(DOUBT), "{line}");
        assert_eq!(end.to_string().matches(DOUBT).count(), 1, "{end}");
        let verdict = end.verdict().unwrap();
        assert!(!verdict.is_again() && !verdict.is_idempotent(), "{end:?}");
        assert_eq!((end.is_in_doubt(), end.conclusion()), (true, InDoubt), "{end}");
        let flat = end.flatten();
        assert_eq!((flat.is_in_doubt(), flat.conclusion()), (true, InDoubt), "{flat}");
        assert_eq!(flat.to_string().matches(DOUBT).count(), 1, "{flat}");
    }
}

/// Nobody states what a cut means. The fallback goes on, because its alternatives may answer a read, but its error does
/// not deny an order.
#[tokio::test(start_paused = true)]
async fn a_doubt_that_nobody_has_stated_is_passed_on_and_told() {
    static LIST: [End; 2] = [HANGS, error(SOLD_OUT)];
    let end = flat(&LIST, stated).await;
    assert_eq!((end.attempts(), end.conclusion()), (2, InDoubt), "{end}");
}

/// The fallback itself ends the only alternative: by its deadline, by its limit on an attempt, or by its token.
#[tokio::test(start_paused = true)]
async fn a_fallback_that_cuts_its_alternative_knows_the_request() {
    let total = FallbackPolicy::new().with_total_timeout(SECOND);
    let own = FallbackPolicy::new().with_attempt_timeout(SECOND);
    for listens in [false, true] {
        for (rules, cancels) in [(total, false), (own, false), (FallbackPolicy::new(), true)] {
            let cut = async |classifier: &dyn Classify<Failed>, before: bool| {
                let token = CancellationToken::new();
                let policy = RetryPolicy::new()
                    .with_backoff(Backoff::fixed(60 * SECOND))
                    .with_classifier(classifier);
                let op = async |_: Alternative<'_, ()>| {
                    let call = async |_| {
                        if cancels {
                            token.cancel();
                        }
                        if before {
                            let sending = pending::<Result<(), Failed>>().before_sending();
                            return sending.await;
                        }
                        pending().await
                    };
                    let call = retry(call, &policy, Never);
                    if listens { call.on("a").await } else { call.await }
                };
                let end = fallback(&[()], op, rules, &token).await.unwrap_err();
                let (conclusion, in_doubt) = (end.conclusion(), end.is_in_doubt());
                assert_eq!(conclusion == InDoubt, in_doubt, "{end}");
                let words = |words: &str| end.to_string().matches(words).count();
                let told = words(DOUBT) + words("has no opinion on a cut attempt");
                assert_eq!(told, usize::from(in_doubt), "{end}");
                let flat = end.flatten();
                assert_eq!((flat.conclusion(), flat.is_in_doubt()), (conclusion, in_doubt));
                conclusion
            };
            let name = format!("{rules:?} {cancels} {listens}");
            assert_eq!(cut(&ORDER, false).await, InDoubt, "{name}");
            assert_eq!(cut(&Keyed(READ), false).await, AskAgainWithKey, "{name}");
            // Nobody states what a cut means.
            assert_eq!(cut(&stated, false).await, InDoubt, "{name}");
            // The default of a fallback says nothing of a request that its token ends.
            let read = if cancels { SeeError } else { AskAgain };
            assert_eq!(cut(&READ, false).await, read, "{name}");
            let unsent = cut(&ORDER, true).await;
            assert!(matches!(unsent, AskAgain | NotDone), "{name}: {unsent:?}");
        }
    }
}

/// The fallback drops a stream that has shown a part of its answer.
#[tokio::test(start_paused = true)]
async fn a_fallback_that_cuts_a_part_knows_the_request() {
    let total = FallbackPolicy::new().with_total_timeout(SECOND);
    let own = FallbackPolicy::new().with_attempt_timeout(SECOND);
    for (rules, cancels) in [(total, false), (own, false), (FallbackPolicy::new(), true)] {
        let cut = async |classifier: &dyn Classify<Failed>| {
            let token = CancellationToken::new();
            let policy = RetryPolicy::new().with_classifier(classifier);
            let op = async |_: Alternative<'_, u8>| {
                let open =
                    async |_| Ok(stream::iter([Ok::<_, Failed>(1)]).chain(stream::pending()));
                let mut answer = pin!(retry_stream(open, &policy, Never));
                while answer.try_next().await?.is_some() {
                    if cancels {
                        token.cancel();
                    }
                }
                Ok(())
            };
            let end = fallback(&[1, 2], op, rules, &token).await.unwrap_err();
            assert_eq!((end.attempts(), end.is_partial()), (1, true), "{end}");
            let flat = end.clone().flatten();
            assert_eq!(flat.conclusion(), end.conclusion(), "{flat}");
            assert_eq!(end.is_in_doubt(), end.conclusion() == InDoubt, "{end}");
            end.conclusion()
        };
        assert_eq!(cut(&ORDER).await, InDoubt);
        let keyed = cut(&Keyed(READ)).await;
        assert!(matches!(keyed, AskAgainWithKey | Unresolved), "{keyed:?}");
        assert!(!matches!(cut(&READ).await, InDoubt | NotDone));
    }
}

/// A stream that ends by itself after a part leaves what its own error says.
#[tokio::test(start_paused = true)]
async fn a_fallback_hears_the_end_of_a_stream_and_not_its_drop() {
    let policy = RetryPolicy::new().with_classifier(|_: &Failed| Verdict::fatal());
    let rules = FallbackPolicy::new().with_classifier(|_: &GaveUp<Failed>| true);
    let op = async |it: Alternative<'_, u8>| {
        let ended = |_| ready(Ok(stream::iter([Ok(1), Err(Failed(None))])));
        let whole = |_| ready(Ok(stream::iter([Ok::<_, Failed>(1)])));
        if it.is_last() {
            retry_stream(whole, &policy, Never).try_collect::<Vec<_>>().await?;
            let refused = policy.with_classifier(|_: &Failed| SOLD_OUT);
            return retry(|_| ready(Err::<(), _>(Failed(None))), refused, Never).await;
        }
        retry_stream(ended, &policy, Never).try_collect::<Vec<_>>().await.map(|_| ())
    };
    let end = fallback(&[1, 2], op, rules, Never).await.unwrap_err();
    assert_eq!((end.attempts(), end.is_in_doubt()), (2, false), "{end}");
}

/// The deadline of the fallback ends the wait for the next attempt of an order with a key.
#[tokio::test(start_paused = true)]
async fn a_fallback_that_ends_a_wait_knows_the_key() {
    let policy = RetryPolicy::new().with_backoff(Backoff::fixed(60 * SECOND));
    let policy = policy.with_classifier(stated);
    let failed = || Failed(Some(Verdict::transient().keyed()));
    let op = |_: Alternative<'_, ()>| retry(|_| ready(Err::<(), _>(failed())), &policy, Never);
    let rules = FallbackPolicy::new().with_total_timeout(SECOND);
    let end = fallback(&[()], op, rules, Never).await.unwrap_err();
    assert_eq!((end.reason(), end.conclusion()), (StopReason::Deadline, AskAgainWithKey), "{end}");
}

/// Two calls run in one alternative at once, and the one that ends last is not in doubt.
#[tokio::test(start_paused = true)]
async fn each_call_in_an_alternative_counts() {
    let policy = RetryPolicy::none().with_classifier(ORDER);
    let call = |verdict| retry(move |_| ready(Err::<(), _>(Failed(Some(verdict)))), &policy, Never);
    let op = async |_: Alternative<'_, u32>| {
        let (_, last) = tokio::join!(call(LOST), call(SOLD_OUT));
        last
    };
    let end = fallback(&[1, 2], op, FallbackPolicy::new(), Never).await.unwrap_err();
    assert_eq!((end.attempts(), end.conclusion()), (1, InDoubt), "{end}");
}

/// An alternative tries a second place by itself, whose end says nothing of the first one.
#[tokio::test(start_paused = true)]
async fn a_second_call_in_an_alternative_denies_nothing_of_the_first_one() {
    let unsent = Verdict::transient().not_sent();
    for (classifier, first, conclusion) in [
        (&ORDER as &dyn Classify<Failed>, LOST, InDoubt),
        (&Keyed(READ), Verdict::transient(), AskAgainWithKey),
    ] {
        let policy = RetryPolicy::none().with_classifier(classifier);
        let call =
            |verdict| retry(move |_| ready(Err::<(), _>(Failed(Some(verdict)))), &policy, Never);
        let op = async |_: Alternative<'_, ()>| {
            let _ = call(first).await;
            call(unsent).await
        };
        let by_verdict = |end: &GaveUp<Failed>| end.verdict();
        let rules = FallbackPolicy::new().with_classifier(by_verdict);
        let end = fallback(&[()], op, rules, Never).await.unwrap_err();
        assert_eq!((end.conclusion_if_first(), end.is_without_effect()), (conclusion, false));
        // The deadline cuts the second one before it sends.
        let op = async |_: Alternative<'_, ()>| {
            let _ = call(first).await;
            retry(|_| pending::<Result<(), Failed>>().before_sending(), &policy, Never).await
        };
        let rules = FallbackPolicy::new().with_total_timeout(SECOND);
        let end = fallback(&[()], op, rules, Never).await.unwrap_err();
        assert_eq!((end.conclusion_if_first(), end.is_without_effect()), (conclusion, false));
    }
}

/// A classifier may forbid a repetition after an error and allow it after a cut, as that of a chat. Then it does not call
/// the request an order, so another model may answer.
#[tokio::test]
async fn a_chat_goes_to_the_next_model() {
    use resile::classify::ClassifyExt;
    static LIST: [End; 2] = [error(LOST), error(SOLD_OUT)];
    let end = flat(&LIST, stated.cut_is(Verdict::transient())).await;
    assert_eq!((end.attempts(), end.is_in_doubt()), (2, true), "{end}");
}

/// An error around a fallback has its words, and a stated doubt hides that of a cut without an opinion.
#[tokio::test(start_paused = true)]
async fn a_flat_error_has_the_words_of_the_doubt() {
    let order = |verdict| {
        let once = RetryPolicy::none().with_classifier(ORDER);
        retry(move |_| ready(Err::<(), _>(Failed(Some(verdict)))), once, Never)
    };
    let rules = FallbackPolicy::new().with_classifier(|_: &GaveUp<Failed>| true);
    let list = [LOST, SOLD_OUT];
    let op = |_| fallback(&list, |it: Alternative<'_, Verdict>| order(*it.value()), rules, Never);
    let by_verdict = |end: &GaveUp<GaveUp<Failed>>| end.verdict();
    let policy = RetryPolicy::none().with_classifier(by_verdict);
    let flat = retry(op, policy, Never).await.unwrap_err().flatten();
    for end in [flat.to_string(), flat.flatten().to_string()] {
        assert_eq!(end.matches(DOUBT).count(), 1, "{end}");
    }
    let hangs = RetryPolicy::none().with_total_timeout(SECOND).with_classifier(stated);
    let op = async |it: Alternative<'_, bool>| {
        if it.is_last() {
            return retry(|_| pending::<Result<(), Failed>>(), &hangs, Never).await;
        }
        order(LOST).await
    };
    let flat = fallback(&[true, false], op, rules, Never).await.unwrap_err().flatten();
    assert_eq!(flat.to_string().matches(DOUBT).count(), 1, "{flat}");
}

/// A call may end while the closure makes the alternative.
#[test]
fn a_blocking_call_in_the_closure_is_heard() {
    let op = |_: Alternative<'_, u8>| {
        let mut run = Run::new(RetryPolicy::none().with_classifier(ORDER), Never);
        run.blocking_next().unwrap();
        ready(Err::<(), _>(run.failed(Failed(Some(LOST))).unwrap_err()))
    };
    let call = fallback(&[1, 2], op, FallbackPolicy::new(), Never);
    let end = drive(call, &ManualTimer::new()).unwrap_err();
    assert_eq!((end.attempts(), end.conclusion()), (1, InDoubt), "{end}");
}

/// Attempts of whose drop their call does not tell: one by hand and those of a hedge.
#[tokio::test(start_paused = true)]
async fn an_attempt_by_hand_and_a_hedge_are_heard() {
    let rules = FallbackPolicy::new().with_total_timeout(2 * SECOND);
    let keyed = Keyed(READ);
    for (classifier, conclusion) in
        [(&ORDER as &dyn Classify<Failed>, InDoubt), (&keyed, AskAgainWithKey), (&READ, AskAgain)]
    {
        let policy = RetryPolicy::none().with_classifier(classifier);
        let op = async |_: Alternative<'_, ()>| {
            let mut run = Run::new(&policy, Never);
            run.next().await?;
            pending::<()>().await;
            run.failed(Failed(None))
        };
        let end = fallback(&[()], op, rules, Never).await.unwrap_err();
        assert_eq!(end.conclusion(), conclusion, "{end}");
        let policy = HedgePolicy::new().with_delay(SECOND).with_classifier(classifier);
        let op =
            |_: Alternative<'_, ()>| hedge(|_| pending::<Result<(), Failed>>(), &policy, Never);
        let end = fallback(&[()], op, rules, Never).await.unwrap_err();
        assert_eq!(end.conclusion(), conclusion, "{end}");
        // A report or an end leaves nothing to a drop.
        let op = async |_: Alternative<'_, ()>| {
            let mut run = Run::new(RetryPolicy::new().with_classifier(classifier), Never);
            run.next().await?;
            assert_eq!(run.succeeded(1), 1);
            hedge(|_| ready(Ok::<(), Failed>(())), &policy, Never).await?;
            pending::<Result<(), GaveUp<Failed>>>().await
        };
        let end: GaveUp<GaveUp<Failed>> = fallback(&[()], op, rules, Never).await.unwrap_err();
        assert_eq!(end.conclusion(), AskAgain, "{end}");
    }
}

proptest! {
    /// The end of a fallback by its default rules denies nothing that an alternative may have done, and goes on after
    /// each other failure.
    #[test]
    fn a_fallback_denies_nothing(
        orders in proptest::collection::vec((ends(), 0_u8..3), 1..5),
    ) {
        let timer = ManualTimer::new();
        let tried = Cell::new(0);
        let op = |it: Alternative<'_, (End, u8)>| {
            tried.set(tried.get() + 1);
            let (end, kind) = *it.value();
            let classifier: &'static (dyn Classify<Failed> + Sync) = match kind {
                0 => &READ,
                1 => &ORDER,
                _ => &Keyed(READ),
            };
            let policy = RetryPolicy::none().with_attempt_timeout(SECOND);
            retry(move |_| attempt(end), policy.with_classifier(classifier), Never).on(clock(&timer))
        };
        let call = fallback(&orders, op, FallbackPolicy::new(), Never).on(clock(&timer));
        let end = drive(call, &timer).unwrap_err();
        let is_in_doubt = |(end, kind): &(End, u8)| match end {
            End::Hangs { sends } => *kind == 1 && *sends,
            End::Error { verdict: None } => true,
            End::Error { verdict: Some(verdict) } => {
                let is_failing = verdict.health() == Health::Failing;
                *kind < 2 && is_failing && !verdict.is_again()
                    && !verdict.is_without_effect() && !verdict.is_idempotent()
            }
        };
        let tried = &orders[..tried.get()];
        let has_doubt = tried.iter().any(is_in_doubt);
        let has_key = tried.iter().any(|(end, kind)| {
            *kind == 2 && end.may_have_effect() && !matches!(end, End::Error { verdict: None })
        });
        for end in [(end.conclusion(), end.is_in_doubt()), {
            let flat = end.flatten();
            (flat.conclusion(), flat.is_in_doubt())
        }] {
            prop_assert_eq!(end, if has_doubt { (InDoubt, true) } else { (end.0, false) }, "{:?}", tried);
            if has_key && !has_doubt {
                prop_assert!(matches!(end.0, AskAgainWithKey | Unresolved), "{:?} {:?}", end, tried);
            }
        }
        let stops = |it: &(End, u8)| is_in_doubt(it) && !matches!(it.0, End::Error { verdict: None });
        let first = orders.iter().position(stops).map_or(orders.len(), |index| index + 1);
        prop_assert_eq!(tried.len(), first, "{:?}", orders);
    }
}
