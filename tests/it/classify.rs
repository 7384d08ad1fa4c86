//! `Verdict` and `Classify`: closures, composition, cut attempts, and classifiers without an
//! opinion.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use resile::{
    Always, Classify, Cut, Health, ManualTimer, Never, RetryPolicy, StopReason, Verdict, retry,
};

use super::decide::verdicts;
use super::script::{Down, Script, Step, clock, drive};

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

/// A closure has no opinion on cuts without `cut_is`. Pairs, `Arc` and references keep an opinion.
#[test]
fn opinions_on_cuts_compose() {
    let silent = |_: &Down| true;
    let once = silent.cut_is(Verdict::transient().not_again());
    let shared: Arc<dyn Classify<Down> + Send + Sync> = Arc::new(once);
    let by_reference: &(dyn Classify<Down> + Send + Sync) = &once;
    for cut in CUTS {
        let of = |classifier: &dyn Classify<Down>| classifier.classify_cut(cut);
        assert_eq!((of(&silent), of(&Always), of(&(silent, Always))), (None, None, None));
        let expected = Some(Verdict::transient().not_again());
        assert_eq!(
            (of(&once), of(&(silent, once)), of(&(once, silent))),
            (expected, expected, expected)
        );
        assert_eq!((of(&shared), of(&by_reference)), (expected, expected));
        assert_eq!((of(&(by_reference, Always)), of(&Arc::new(once))), (expected, expected));
        let twice = once.cut_is(Verdict::fatal());
        assert_eq!(
            (of(&twice), of(&(once, twice))),
            (Some(Verdict::fatal()), expected),
            "the outermost `cut_is` wins, and the first of a pair wins"
        );
    }
    let error =
        [once.classify(&Down(1)), shared.classify(&Down(1)), by_reference.classify(&Down(1))];
    assert_eq!(error, [Some(Verdict::transient()); 3]);
}

proptest! {
    /// The first opinion counts. The second classifier is asked only if the first has none.
    #[test]
    fn a_pair_takes_the_first_opinion(first in prop::option::of(verdicts()), second in prop::option::of(verdicts())) {
        let asked = std::cell::Cell::new(false);
        let both = (|_: &Down| first, |_: &Down| { asked.set(true); second });
        prop_assert_eq!(both.classify(&Down(1)), first.or(second));
        prop_assert_eq!(asked.get(), first.is_none());
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
