//! `Verdict` and `Classify`: closures, composition, cut attempts, and classifiers without an
//! opinion.

use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::breaker::State;
use resile::classify::{Always, ClassifyExt, Cut};
use resile::observe::{Event, EventKind};
use resile::time::ManualTimer;
use resile::timeout::{self, ClassifyOperation};
use resile::{
    Backoff, Breaker, Classify, GaveUp, Health, Never, RetryPolicy, Run, StopReason, Upstream,
    Verdict, retry,
};
use tokio_util::sync::CancellationToken;

use super::decide::verdicts;
use super::script::{Down, Script, Step, clock, drive};

const ONCE: RetryPolicy = RetryPolicy::new().with_attempts(1);
const DOUBT: &str = "the request may have been executed and must not be sent again";
const CUTS: [Cut; 3] = [Cut::AttemptTimeout(Duration::from_secs(1)), Cut::Deadline, Cut::Stream];

#[test]
fn closures_classify_by_bool_verdict_and_option() {
    assert_eq!((|_: &Down| true).classify(&Down(1)), Some(Verdict::transient()));
    assert_eq!((|_: &Down| false).classify(&Down(1)), Some(Verdict::fatal()));
    assert_eq!((|_: &Down| Verdict::throttled()).classify(&Down(1)), Some(Verdict::throttled()));
    assert_eq!((|_: &Down| None::<Verdict>).classify(&Down(1)), None);
    assert_eq!(Always.classify(&Down(1)), Some(Verdict::transient()));
    assert_eq!(Always.classify("unsized too"), Some(Verdict::transient()));
}

/// A verdict answers three questions. A change of one answer leaves the other two.
#[test]
fn a_verdict_answers_three_questions() {
    let answers = |verdict: Verdict| (verdict.is_again(), verdict.health(), verdict.hint());
    assert_eq!(answers(Verdict::transient()), (true, Health::Failing, None));
    assert_eq!(answers(Verdict::throttled()), (true, Health::Throttling, None));
    assert_eq!(answers(Verdict::fatal()), (false, Health::Unknown, None));
    assert_eq!(size_of::<Verdict>(), 16);
}

#[test]
fn a_call_without_an_opinion_ends_as_unclassified() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let policy = RetryPolicy::new().with_classifier(|_: &Down| None::<Verdict>);
    let gave_up =
        drive(retry(|_| script.play(), &policy, Never).on(clock(&timer)), &timer).unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Unclassified, 1));
    assert_eq!((gave_up.last(), gave_up.verdict()), (Some(&Down(1)), None));
    assert_eq!(
        gave_up.to_string(),
        "script: gave up after 1 attempt, the classifier has no verdict on the error"
    );
}

/// The default of a closure is that of its return type. Pairs, `Arc` and references keep an opinion,
/// and a statement wins over a default.
#[test]
fn opinions_on_cuts_compose() {
    let (again, not_again) = (Some(Verdict::transient()), Some(Verdict::transient().not_again()));
    let (plain, silent) = (|_: &Down| true, |_: &Down| None::<Verdict>);
    let verdict = |_: &Down| Verdict::transient();
    let (once, twice) = (plain.cut_is(not_again.unwrap()), silent.cut_is(again.unwrap()));
    let shared: Arc<dyn Classify<Down> + Send + Sync> = Arc::new(once);
    let (erased, by_reference): (&dyn Classify<Down>, &(dyn Classify<Down> + Send + Sync)) =
        (&once, &once);
    for cut in CUTS {
        let of = |classifier: &dyn Classify<Down>| classifier.classify_cut(cut);
        assert_eq!([of(&plain), of(&Always), of(&(plain, Always))], [again; 3]);
        assert_eq!([of(&silent), of(&verdict), of(&Own(false))], [not_again; 3]);
        assert_eq!([of(&(plain, silent)), of(&(verdict, Always))], [not_again; 2]);
        assert_eq!([of(&once), of(&(silent, once)), of(&(once, twice))], [not_again; 3]);
        assert_eq!([of(&(twice, once)), of(&((twice, plain), Arc::new(once)))], [not_again; 2]);
        assert_eq!([of(&shared), of(&erased), of(&by_reference)], [not_again; 3]);
        assert_eq!([of(&(by_reference, Always)), of(&(Always, erased))], [not_again; 2]);
        assert_eq!([of(&twice), of(&(silent, twice)), of(&(twice, verdict))], [again; 3]);
        assert_eq!(of(&Own(true)), None);
        assert_eq!([of(&(Own(true), plain)), of(&(twice, Own(true)))], [not_again, again]);

        // A statement that protects the request remains. A default does not.
        let healthy = Verdict::fatal().with_health(Health::Healthy);
        assert_eq!(of(&once.cut_is(Verdict::transient())), not_again);
        assert_eq!(of(&(plain, once).cut_is(Verdict::transient())), not_again);
        assert_eq!([of(&silent.cut_is(healthy)), of(&twice.cut_is(healthy))], [Some(healthy); 2]);
    }
    let error =
        [once.classify(&Down(1)), shared.classify(&Down(1)), by_reference.classify(&Down(1))];
    assert_eq!(error, [Some(Verdict::transient()); 3]);
}

/// A classifier without `classify_cut`, or one that returns `None` there.
struct Own(bool);

impl Classify<Down> for Own {
    fn classify(&self, _: &Down) -> Option<Verdict> {
        Some(Verdict::transient())
    }

    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        struct Default;
        impl Classify<Down> for Default {
            fn classify(&self, _: &Down) -> Option<Verdict> {
                None
            }
        }
        if self.0 { None } else { Default.classify_cut(cut) }
    }
}

/// Defaults and statements with equal answers are equal, also for a `HashSet`.
#[test]
fn the_ground_of_a_verdict_is_no_part_of_it() {
    let stated = Verdict::transient().not_again();
    let default = (|_: &Down| stated).classify_cut(Cut::Deadline).unwrap();
    assert_eq!(stated, default);
    assert_eq!(format!("{stated:?}"), format!("{default:?}"));
    assert_eq!(std::collections::HashSet::from([stated, default]).len(), 1);
}

/// A call that a default ends says so and names the remedy. The breaker counts the cut.
#[test]
fn a_cut_without_an_opinion_ends_the_call_and_names_the_remedy() {
    let (script, timer) = (Script::new(&[Step::Hang]), ManualTimer::new());
    let upstream = Upstream::new("web")
        .with_breaker(Breaker::new().with_consecutive(1))
        .with_timer(timer.clone());
    let policy = RetryPolicy::new()
        .with_attempt_timeout(Duration::from_secs(1))
        .with_classifier(|_: &Down| Verdict::transient());
    let events = std::cell::RefCell::new(Vec::new());
    let observer = |event: &Event<'_>| events.borrow_mut().push(event.to_string());
    let call = retry(|_| script.play(), policy, Never).on(upstream.observed_by(&observer));
    let gave_up = drive(call, &timer).unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Unclassified, 1));
    assert_eq!(gave_up.verdict(), Some(Verdict::transient().not_again()));
    let words = "the classifier has no opinion on a cut attempt (add one with `cut_is`)";
    assert_eq!(
        gave_up.to_string(),
        format!(
            "web: gave up after 1 attempt in 1.0s, {words} (last failure: did not finish within 1s)"
        )
    );
    assert_eq!(
        events.into_inner().last().unwrap(),
        &format!("web: gave up after 1 of 3 attempts, {words}: did not finish within 1s")
    );
    assert_eq!(upstream.breaker().unwrap().state(), State::Open);
}

/// A classifier that is made for one request.
struct Order;

impl Classify<Down> for Order {
    fn classify(&self, _: &Down) -> Option<Verdict> {
        Some(Verdict::transient())
    }

    fn place(&self) -> Option<Cow<'_, str>> {
        Some("POST /orders\n".into())
    }
}

/// Neither the words of such an error nor a cut attempt, which has none, name the place.
#[test]
fn the_line_of_a_failed_attempt_names_the_place_of_its_request() {
    let (script, timer) = (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new());
    let upstream = Upstream::new("web").with_timer(timer.clone());
    let policy = RetryPolicy::new()
        .with_attempt_timeout(Duration::from_secs(1))
        .with_backoff(Backoff::none())
        .with_classifier(Order);
    let events = std::cell::RefCell::new(Vec::new());
    let observer = |event: &Event<'_>| {
        if let EventKind::GaveUp { failure, .. } | EventKind::Waiting { failure, .. } = &event.kind
        {
            events.borrow_mut().push(failure.to_string());
        }
    };
    let call = retry(|_| script.play(), policy, Never).on(upstream.observed_by(&observer));
    let gave_up = drive(call, &timer).unwrap_err();
    assert_eq!(
        events.into_inner(),
        ["POST /orders\\n: down, 1", "POST /orders\\n: did not finish within 1s"]
    );
    let end =
        "(last failure: POST /orders\\n: did not finish within 1s; an earlier attempt failed)";
    assert!(gave_up.to_string().ends_with(end), "{gave_up}");
    assert!(format!("{:#}", gave_up.map(|down| down.0)).ends_with(end));
}

/// A dropped attempt has no error either. The earlier error is that of another attempt.
#[test]
fn the_place_of_a_dropped_request_is_told() {
    let (script, timer) = (Script::new(&[Step::Fail, Step::Hang]), ManualTimer::new());
    let upstream = Upstream::new("web").with_timer(timer.clone());
    let token = CancellationToken::new();
    let classifier = Order.cut_is(Verdict::transient().not_again());
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(classifier);
    let events = std::cell::RefCell::new(Vec::new());
    let observer = |event: &Event<'_>| {
        if let EventKind::GaveUp { .. } = &event.kind {
            events.borrow_mut().push(event.to_string());
        }
    };
    let call = retry(|_| script.play(), policy, token.clone()).on(upstream.observed_by(&observer));
    let mut call = std::pin::pin!(call);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    token.cancel();
    let Poll::Ready(Err(gave_up)) = call.as_mut().poll(&mut cx) else { panic!("it has ended") };
    let words = format!("cancelled, POST /orders\\n was dropped in flight, {DOUBT}");
    assert_eq!(gave_up.to_string(), format!("web: gave up after 2 attempts, {words}"));
    let line = format!("web: gave up after 2 of 3 attempts, {words}: down, 1");
    assert_eq!(events.take(), [line]);
    // A fallback or another outer call takes it over.
    let outer = retry(|_| std::future::ready(Err::<(), _>(gave_up.clone())), ONCE, Never);
    let flat = drive(outer, &timer).unwrap_err().flatten();
    assert!(flat.to_string().ends_with(&words), "{flat}");
}

/// The caller of a run drops an attempt, and later the call ends.
#[test]
fn the_place_of_a_request_that_the_caller_dropped_is_told() {
    let timer = ManualTimer::new();
    let upstream = Upstream::new("web").with_timer(timer.clone());
    let mut run = Run::new(ONCE.with_classifier(Order), Never).on(&upstream);
    let mut attempt = Box::pin(run.attempt(std::future::pending::<Result<(), Down>>()));
    assert!(attempt.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(attempt);
    let gave_up = drive(run.attempt(std::future::ready(Ok::<(), _>(()))), &timer).unwrap_err();
    let words = "web: gave up after 1 attempt, POST /orders\\n was dropped in flight";
    assert_eq!(gave_up.to_string(), words);
}

/// A flat error has the cut of its inner call, also if the outer call ended for a reason of its own.
#[tokio::test(start_paused = true)]
async fn a_flat_error_names_the_place_of_the_inner_cut() {
    let second = Duration::from_secs(1);
    let once = RetryPolicy::none().with_attempt_timeout(second).with_classifier(Order);
    let policy = RetryPolicy::new().with_classifier(|_: &GaveUp<Down>| true);
    let late = policy.with_backoff(Backoff::fixed(second * 9)).with_total_timeout(second * 5);
    for (policy, reason) in
        [(late, StopReason::Deadline), (policy.with_attempts(1), StopReason::Unclassified)]
    {
        let inner = |_| retry(|_| std::future::pending::<Result<(), Down>>(), &once, Never);
        let flat = retry(inner, policy, Never).await.unwrap_err().flatten();
        assert_eq!(flat.reason(), reason);
        let end = "(last failure: POST /orders\\n: did not finish within 1s)";
        assert!(flat.to_string().ends_with(end), "{flat}");
    }
}

#[test]
fn what_contains_a_classifier_knows_its_place_too() {
    fn place(classifier: &dyn Classify<Down>) -> Option<String> {
        classifier.place().map(Cow::into_owned)
    }
    let none = |_: &Down| true;
    let known = Some("POST /orders\n".to_owned());
    assert_eq!(place(&none), None);
    assert_eq!(place(&(none, Order)), known);
    assert_eq!(place(&(Order, none)), known);
    assert_eq!(place(&Arc::new(Order)), known);
    assert_eq!(place(&(&Order as &dyn Classify<Down>)), known);
    assert_eq!(place(&Order.cut_is(Verdict::transient())), known);
    let operation: &dyn Classify<timeout::Error<Down>> = &ClassifyOperation(Order);
    assert_eq!(operation.place().map(Cow::into_owned), known);
}

/// What a member states of the request holds for each error. What the second one says of an error is not asked, since
/// the first one has judged it.
#[test]
fn a_pair_keeps_what_either_member_states_of_the_request() {
    let queued = |_: &Down| Some(Verdict::transient().without_effect());
    let of_an_error = |_: &Down| Some(Verdict::fatal().keyed());
    let verdict = (queued, of_an_error).classify(&Down(1)).unwrap();
    assert!(verdict.is_without_effect() && !verdict.is_idempotent());

    let keyed = Always.cut_is(Verdict::transient().keyed());
    let fatal = |_: &Down| Some(Verdict::fatal());
    let none = |_: &Down| None::<Verdict>;
    let states = [
        (queued, keyed).classify(&Down(1)),
        (keyed, queued).classify(&Down(1)),
        (fatal, keyed).classify(&Down(1)),
        (none, (none, keyed)).classify(&Down(1)),
    ];
    assert!(states.iter().all(|it| it.is_some_and(|it| it.is_keyed())), "{states:?}");
    assert_eq!(states.map(|it| it.is_some_and(|it| it.is_again())), [true, true, false, true]);
}

proptest! {
    /// The first opinion counts. The second classifier is asked too if the first would send the
    /// request again, because the error may tell of a cut.
    #[test]
    fn a_pair_takes_the_first_opinion(first in prop::option::of(verdicts()), second in prop::option::of(verdicts())) {
        let asked = std::cell::Cell::new(false);
        let both = (|_: &Down| first, |_: &Down| { asked.set(true); second });
        prop_assert_eq!(both.classify(&Down(1)), first.or(second));
        prop_assert_eq!(asked.get(), first.is_none_or(|first| first.is_again()));
    }

    #[test]
    fn a_verdict_keeps_its_three_answers(verdict in verdicts(), hint in any::<Duration>()) {
        // A verdict holds at most 584 years.
        let longest = Duration::from_nanos(u64::MAX - 1);
        let hinted = verdict.after(hint);
        prop_assert_eq!(hinted.hint(), Some(hint.min(longest)));
        prop_assert_eq!((hinted.is_again(), hinted.health()), (verdict.is_again(), verdict.health()));
        let spent = verdict.not_again();
        prop_assert_eq!((spent.is_again(), spent.health(), spent.hint()), (false, verdict.health(), verdict.hint()));
        let healthy = verdict.with_health(Health::Healthy);
        prop_assert_eq!((healthy.is_again(), healthy.health()), (verdict.is_again(), Health::Healthy));
        prop_assert_eq!(healthy.hint(), verdict.hint());
    }
}
