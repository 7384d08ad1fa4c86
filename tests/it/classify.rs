//! `Classify`: closures, composition, and what nobody has an opinion on.

use std::time::Duration;

use proptest::prelude::*;
use resile::{Always, Cause, Classify, ManualTimer, Never, RetryPolicy, Stop, Verdict, retry};

use super::decide::verdicts;
use super::script::{Down, Script, Step, drive};

#[test]
fn closures_judge_by_bool_verdict_and_option() {
    assert_eq!((|_: &Down| true).classify(&Down(1)), Some(Verdict::retry()));
    assert_eq!((|_: &Down| false).classify(&Down(1)), Some(Verdict::Fail));
    assert_eq!((|_: &Down| Verdict::throttled(None)).classify(&Down(1)), Some(Verdict::throttled(None)));
    assert_eq!((|_: &Down| None::<Verdict>).classify(&Down(1)), None);
    assert_eq!(Always.classify(&Down(1)), Some(Verdict::retry()));
    assert_eq!(Always.classify("unsized too"), Some(Verdict::retry()));
}

#[test]
fn no_opinion_fails() {
    let (script, timer) = (Script::new(&[Step::Fail]), ManualTimer::new());
    let policy = RetryPolicy::new().with_classify(|_: &Down| None::<Verdict>);
    let gave_up = drive(retry(|_| script.play(), &policy, Never).with_timer(&timer), &timer).unwrap_err();
    assert_eq!((gave_up.stop(), gave_up.attempts(), gave_up.last()), (Stop::Fatal, 1, Some(&Down(1))));
}

proptest! {
    /// The first opinion counts, and the second classifier is not asked where there is one.
    #[test]
    fn or_else_takes_the_first_opinion(first in prop::option::of(verdicts()), second in prop::option::of(verdicts())) {
        let asked = std::cell::Cell::new(false);
        let both = (|_: &Down| first).or_else(|_: &Down| { asked.set(true); second });
        prop_assert_eq!(both.classify(&Down(1)), first.or(second));
        prop_assert_eq!(asked.get(), first.is_none());
    }

    #[test]
    fn a_verdict_says_what_it_was_made_of(hint in prop::option::of(any::<Duration>())) {
        let verdict = Verdict::throttled(hint);
        prop_assert_eq!((verdict.after(), verdict.cause(), verdict.is_retry()), (hint, Some(Cause::Throttled), true));
        let fail = Verdict::fail();
        prop_assert_eq!((fail.after(), fail.cause(), fail.is_retry()), (None, None, false));
    }
}
