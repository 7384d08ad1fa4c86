//! The budget and the cooldown of an upstream that is shared, and the signal to its listener.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::cooldown::Hold;
use resile::observe::{Event, EventKind, HeldBy};
use resile::quota::{Cost, Dimension, Rate};
use resile::time::ManualTimer;
use resile::upstream::{Resource, Shared};
use resile::{Budget, Cooldown, Never, Quota, Upstream, Verdict};
use tokio_test::task::spawn;

use super::script::poll;

const TOKENS: Resource = Resource::Quota(Dimension::Tokens);
const SECOND: Duration = Duration::from_secs(1);

type Host = Upstream<ManualTimer>;

fn host(timer: &ManualTimer) -> Host {
    let quota = Quota::new().with_tokens(Rate::per_second(1).with_burst(10));
    Upstream::new("model")
        .with_budget(Budget::new().with_capacity(5))
        .with_cooldown(Cooldown::new())
        .with_quota(quota)
        .with_timer(timer.clone())
        .with_observer(&())
}

/// Takes the signal.
fn changed(shared: &Shared<'_, ManualTimer>) -> bool {
    shared.poll_changed(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Adjust(i64),
    Ceiling(u64),
    Deposit,
    Spend,
    GiveBack,
    Low(u64),
    Usable(u64),
}

/// Returns what can be used and what waits after an addition, up to `most` in all.
fn brought((left, earned): (u64, u64), amount: u64, usable: u64, most: u64) -> (u64, u64) {
    let now = left.max((left + amount).min(usable).min(most));
    let rest = if usable < most { amount - (now - left) } else { 0 };
    (now, earned.max((earned + rest).min(most.saturating_sub(now))))
}

/// A token, in the units of a budget.
const TOKEN: u64 = 1_000_000;
const CAPACITY: u32 = 5;

fn step() -> impl Strategy<Value = Step> {
    let most = 2 * u64::from(CAPACITY) * TOKEN;
    let change = -5_000_000..5_000_000_i64;
    prop_oneof![
        3 => prop_oneof![8 => change, 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
            .prop_map(Step::Adjust),
        1 => (0..most).prop_map(Step::Ceiling),
        3 => Just(Step::Deposit),
        4 => Just(Step::Spend),
        2 => Just(Step::GiveBack),
        1 => (0..most).prop_map(Step::Low),
        2 => (0..most).prop_map(Step::Usable),
    ]
}

proptest! {
    /// The budget is a number between 0 and its capacity. Deposits stop at the ceiling, and those above the
    /// usable number wait. A token
    /// that is given back is not a deposit. A call that leaves too few tokens sets the signal.
    #[test]
    fn a_shared_budget_follows_a_plain_model(steps in prop::collection::vec(step(), 1..60)) {
        let budget = Budget::new().with_capacity(CAPACITY).with_deposit(0.3);
        let host = Upstream::new("model").with_budget(budget).with_timer(ManualTimer::new());
        let (shared, budget) = (host.share().unwrap(), host.budget().unwrap());
        let capacity = u64::from(CAPACITY) * TOKEN;
        let (mut left, mut earned) = (capacity, 0_u64);
        let (mut ceiling, mut usable, mut low) = (capacity, capacity, 0);
        for step in steps {
            while changed(&shared) {}
            let mut is_low = false;
            match step {
                Step::Adjust(change) => {
                    shared.adjust(Resource::Budget, change);
                    let waited = earned;
                    earned = earned.saturating_add_signed(change.min(0));
                    let change = change.saturating_add_unsigned(waited - earned);
                    left = left.saturating_add_signed(change).min(capacity);
                }
                Step::Ceiling(units) => {
                    shared.set_ceiling(Resource::Budget, units);
                    ceiling = units.min(capacity);
                }
                Step::Usable(units) => {
                    shared.set_usable(Resource::Budget, units);
                    usable = units.min(capacity);
                    (left, earned) = brought((left, 0), earned, usable, capacity);
                }
                Step::Low(units) => {
                    shared.set_low(Resource::Budget, units);
                    low = units;
                }
                Step::Deposit => {
                    budget.deposit();
                    (left, earned) = brought((left, earned), 3 * TOKEN / 10, usable, ceiling);
                }
                Step::Spend | Step::GiveBack => {
                    let is_paid = budget.withdraw();
                    prop_assert_eq!(is_paid, left >= TOKEN);
                    is_low = left < TOKEN || left - TOKEN < low;
                    if is_paid && matches!(step, Step::Spend) {
                        left -= TOKEN;
                    } else if is_paid {
                        budget.refund();
                        (left, earned) = brought((left - TOKEN, earned), TOKEN, usable, capacity);
                    }
                }
            }
            prop_assert_eq!(shared.balance(Resource::Budget), i64::try_from(left + earned).ok());
            prop_assert_eq!(u64::from(budget.available()), left / TOKEN);
            prop_assert_eq!(changed(&shared), is_low);
        }
        drop(shared);
        for _ in 0..20 {
            budget.deposit();
        }
        prop_assert_eq!(budget.available(), CAPACITY, "no ceiling after the end");
    }

    /// A joined hold never makes a hold shorter, and is as long as at the other member if this
    /// one has none. The caps of both apply.
    #[test]
    fn a_joined_hold_is_that_of_the_other_member(
        holds in prop::collection::vec((0..60_000_u64, 0..40_000_u64), 1..8),
        own in proptest::option::of(0..60_000_u64),
        (age, cap) in (0..100_000_u64, 1_000..90_000_u64),
    ) {
        let (here, there) = (ManualTimer::new(), ManualTimer::new());
        let cap = Duration::from_millis(cap);
        let other = host(&there);
        let cooldown = Cooldown::new().with_cap(cap);
        let host = Upstream::new("model").with_cooldown(cooldown).with_timer(here.clone());
        here.advance(Duration::from_millis(age));
        for (after, pass) in holds {
            other.hold(Duration::from_millis(after));
            there.advance(Duration::from_millis(pass));
        }
        let (other, shared) = (other.share().unwrap(), host.share().unwrap());
        if let Some(own) = own {
            host.hold(Duration::from_millis(own));
        }
        while changed(&shared) {}
        let before = shared.hold();
        let theirs = other.hold();
        shared.hold_as(theirs.unwrap_or_default());
        prop_assert!(!changed(&shared), "the hold of another member is not news");
        let after = shared.hold();
        match (before, theirs) {
            (before, None) => prop_assert_eq!(after, before),
            (None, Some(theirs)) => {
                let expected = Hold {
                    elapsed: theirs.elapsed,
                    remaining: theirs.remaining.min(cap),
                    hint: theirs.hint.min(cap),
                };
                prop_assert_eq!(after, Some(expected));
            }
            (Some(before), Some(theirs)) => {
                let after = after.unwrap();
                prop_assert_eq!(after.remaining, before.remaining.max(theirs.remaining.min(cap)));
                prop_assert_eq!(after.elapsed, before.elapsed.max(theirs.elapsed));
                prop_assert!(after.hint >= before.hint.max(theirs.hint.min(cap)));
            }
        }
        // A hold that is joined again is the same hold.
        shared.hold_as(theirs.unwrap_or_default());
        prop_assert_eq!(shared.hold(), after);
    }
}

/// The release depends on the whole hold. So it takes as long in a process that has just begun.
#[test]
fn a_young_process_releases_as_slowly_as_the_others() {
    let held = Hold { elapsed: 99 * SECOND, remaining: SECOND, hint: 100 * SECOND };
    for age in [0, 1, 500] {
        let timer = ManualTimer::new();
        timer.advance(age * SECOND);
        let host = host(&timer);
        host.share().unwrap().hold_as(held);
        timer.advance(SECOND);
        // A quarter of the hold. A call is let go at random, so the last of many takes long.
        let mut calls: Vec<_> = (0..200).map(|_| Box::pin(host.admit(Never))).collect();
        let mut last = Duration::ZERO;
        while !calls.is_empty() {
            calls.retain_mut(|call| poll(call.as_mut()).is_pending());
            let Some(next) = timer.until_next() else { break };
            timer.advance(next);
            last += next;
        }
        assert!(last > 20 * SECOND && last <= 25 * SECOND, "age {age}: {last:?}");
    }
}

#[test]
fn only_a_longer_hold_of_this_process_sets_the_signal() {
    let host = host(&ManualTimer::new());
    host.hold(SECOND);
    let shared = host.share().unwrap();
    assert!(changed(&shared), "a hold that begins before the first look is seen");
    assert!(!changed(&shared));
    shared.hold_as(Hold { elapsed: SECOND, remaining: 9 * SECOND, hint: 10 * SECOND });
    assert_eq!(host.held(), Some(9 * SECOND));
    assert!(!changed(&shared), "a joined hold");
    host.hold(5 * SECOND);
    assert!(!changed(&shared), "a shorter hold");
    host.hold(Duration::ZERO);
    assert!(!changed(&shared), "no hold");
    host.hold(11 * SECOND);
    assert!(changed(&shared));
}

/// A process tells of its own hold and of a joined one in other words.
#[test]
fn the_line_of_a_hold_says_who_was_asked() {
    let told = Arc::new(Mutex::new(Vec::new()));
    for is_own in [false, true] {
        let seen = Arc::clone(&told);
        let host = host(&ManualTimer::new()).with_shared_observer(move |event: &Event<'_>| {
            if matches!(event.kind, EventKind::Limiting { by: HeldBy::Cooldown, .. }) {
                seen.lock().unwrap().push((event.gauges.is_hold_joined, event.to_string()));
            }
        });
        let shared = host.share().unwrap();
        shared.hold_as(Hold { remaining: 2 * SECOND, ..Hold::default() });
        if is_own {
            host.hold(3 * SECOND);
        }
        shared.hold_as(Hold { remaining: SECOND, ..Hold::default() });
        assert!(poll(pin!(host.admit(Never))).is_pending());
    }
    let told = told.lock().unwrap();
    let words = told.iter().map(|(is_joined, line)| (*is_joined, line.split_once(": ").unwrap().1));
    assert_eq!(
        words.collect::<Vec<_>>(),
        [
            (
                true,
                "cooldown: all calls wait 2.0s, those with less time left end at once, \
                    another process was asked to wait"
            ),
            (
                false,
                "cooldown: all calls wait 3.0s, those with less time left end at once, \
                     the program asked for it"
            ),
        ]
    );
}

/// The answers to requests that were on their way when the news of the hold came ask for the same hold, which
/// then ends a little later. It has one line at most.
#[test]
fn a_refusal_within_a_joined_hold_is_of_another_process_unless_it_is_longer() {
    let refused_after = |later: Duration, wait: Duration| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let timer = ManualTimer::new();
        let host = host(&timer).with_shared_observer(move |event: &Event<'_>| {
            if matches!(event.kind, EventKind::Limiting { by: HeldBy::Cooldown, .. }) {
                let line = event.to_string();
                let why = line.split_once("at once, ").unwrap().1.to_owned();
                seen.lock().unwrap().push((event.gauges.is_hold_joined, why));
            }
        });
        timer.advance(20 * SECOND);
        let admission = host.try_admit().unwrap();
        let shared = host.share().unwrap();
        let rest = Duration::from_millis(2_998);
        shared.hold_as(Hold { remaining: rest, ..Hold::default() });
        timer.advance(later);
        admission.settle(&Verdict::throttled().after(wait));
        told.lock().unwrap().clone()
    };
    let millis = Duration::from_millis;
    let other = [(true, "another process was asked to wait".to_owned())];
    let words = "the upstream throttled an attempt, another process was asked to wait before";
    let both = [(true, words.to_owned())];
    let own = [(false, "the upstream throttled an attempt".to_owned())];
    assert_eq!(refused_after(millis(5), 3 * SECOND), both);
    assert_eq!(refused_after(millis(900), 3 * SECOND), both, "a slow answer");
    assert_eq!(refused_after(millis(5), SECOND), other, "it lengthens nothing");
    assert_eq!(refused_after(millis(5), 5 * SECOND), own, "it is longer");
    assert_eq!(refused_after(2 * SECOND, 3 * SECOND), own, "it is longer");
    assert_eq!(refused_after(millis(3_100), SECOND / 2), own, "the other hold is over");
}

/// The store sends the hold back, and another process is refused at about the same time. Both end a little later.
#[test]
fn an_own_hold_stays_one_unless_that_of_another_process_is_longer() {
    let joined_after = |later: Duration, rest: Duration| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let timer = ManualTimer::new();
        let host = host(&timer).with_shared_observer(move |event: &Event<'_>| {
            seen.lock().unwrap().push(event.gauges.is_hold_joined);
        });
        timer.advance(20 * SECOND);
        let shared = host.share().unwrap();
        host.try_admit().unwrap().settle(&Verdict::throttled().after(3 * SECOND));
        timer.advance(later);
        for _ in 0..2 {
            shared.hold_as(Hold { remaining: rest, ..Hold::default() });
        }
        told.lock().unwrap().clear();
        assert!(poll(pin!(host.admit(Never))).is_pending());
        told.lock().unwrap()[0]
    };
    let millis = Duration::from_millis;
    assert!(!joined_after(millis(5), 3 * SECOND));
    assert!(!joined_after(millis(5), millis(2_990)), "it lengthens nothing");
    assert!(joined_after(millis(5), 5 * SECOND));
    assert!(joined_after(millis(3_500), SECOND), "the own hold is over");
}

#[test]
fn the_listener_is_woken_by_each_part() {
    let timer = ManualTimer::new();
    let host = host(&timer);
    let shared = host.share().unwrap();
    shared.set_low(Resource::Budget, 4 * TOKEN);
    shared.extend(TOKENS, SECOND);
    shared.adjust(TOKENS, 9);
    shared.set_low(TOKENS, 4);
    while changed(&shared) {}
    let mut listener = spawn(std::future::poll_fn(|context| shared.poll_changed(context)));
    let mut is_woken = |act: &dyn Fn()| {
        while listener.poll().is_ready() {}
        act();
        listener.is_woken()
    };
    let take = |units| {
        host.at_cost(Cost::input(units)).try_admit().map(resile::call::Admission::succeeded)
    };
    assert!(!is_woken(&|| take(5).unwrap()), "4 units are enough");
    assert!(is_woken(&|| take(1).unwrap()), "3 are few");
    assert!(is_woken(&|| drop(take(4).unwrap_err())), "not enough");
    assert!(!is_woken(&|| assert!(host.budget().unwrap().withdraw())));
    assert!(is_woken(&|| assert!(host.budget().unwrap().withdraw())));
    assert!(is_woken(&|| host.hold(SECOND)));
    assert!(!is_woken(&|| ()));
}

/// A listener that is gone is not kept. The next one begins with a look.
#[test]
fn leaving_forgets_the_listener() {
    let host = host(&ManualTimer::new());
    let shared = host.share().unwrap();
    while changed(&shared) {}
    let woken = std::sync::Arc::new(Counted);
    let waker = Waker::from(std::sync::Arc::clone(&woken));
    assert!(shared.poll_changed(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    assert!(std::sync::Arc::strong_count(&woken) > 1);
    drop(shared);
    assert_eq!(std::sync::Arc::strong_count(&woken), 1);
    assert!(changed(&host.share().unwrap()));
}

struct Counted;

impl std::task::Wake for Counted {
    fn wake(self: std::sync::Arc<Self>) {}
}

/// Nothing refills in the hold of a refusal for the caller's own limit. An overload empties no quota.
#[test]
fn a_refusal_tells_the_rest_of_its_hold() {
    let timer = ManualTimer::new();
    let host = host(&timer);
    let shared = host.share().unwrap();
    shared.extend(TOKENS, SECOND * 60);
    shared.adjust(TOKENS, 10);
    let cost = Cost::input(2).with_max_output(0);
    let call = || host.at_cost(cost).try_admit().unwrap();
    call().settle(&Verdict::overloaded().after(SECOND));
    assert_eq!((shared.reported_level(TOKENS), shared.resumes_in(TOKENS)), (None, Duration::ZERO));
    timer.advance(SECOND * 2);
    call().settle(&Verdict::throttled().after(SECOND * 3));
    timer.advance(SECOND);
    assert_eq!((shared.reported_level(TOKENS), shared.resumes_in(TOKENS)), (Some(0), SECOND * 2));
    assert_eq!((shared.reported_level(TOKENS), shared.balance(TOKENS)), (None, Some(0)));
    timer.advance(SECOND * 3);
    assert_eq!(shared.resumes_in(TOKENS), Duration::ZERO);
}

/// The limits of a resource that an upstream does not have do nothing.
#[test]
fn missing_parts_are_ignored() {
    let host = Upstream::new("bare").with_timer(ManualTimer::new());
    let shared = host.share().unwrap();
    for resource in [TOKENS, Resource::Budget] {
        shared.adjust(resource, 5);
        shared.extend(resource, SECOND);
        shared.set_low(resource, 5);
        shared.set_ceiling(resource, 5);
        assert_eq!((shared.balance(resource), shared.reported_level(resource)), (None, None));
        assert_eq!(shared.waiting(resource), resile::quota::Waiting::default());
        assert_eq!(shared.resumes_in(resource), Duration::ZERO);
    }
    shared.hold_as(Hold { remaining: SECOND, ..Hold::default() });
    assert_eq!(shared.hold(), None);
    assert!(!changed(&shared));
    assert!(poll(pin!(host.admit(Never))).is_ready());
}

/// The member has a line of its own for a joined hold, so its release writes none. A hold that begins
/// within the release has its line.
#[test]
fn the_release_of_a_joined_hold_hides_no_later_hold() {
    let timer = ManualTimer::new();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&lines);
    let host = host(&timer).with_shared_observer(move |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Limiting { by: HeldBy::Cooldown, .. }) {
            written.lock().unwrap().push(event.to_string());
        }
    });
    let remaining = 40 * SECOND;
    host.share().unwrap().hold_as(Hold { elapsed: Duration::ZERO, remaining, hint: remaining });
    timer.advance(remaining);
    assert_eq!(host.held(), None);
    let mut waiting: Vec<_> = (0..8).map(|_| Box::pin(host.admit(Never).into_future())).collect();
    let held = waiting
        .iter_mut()
        .map(|call| poll(call.as_mut()).is_pending())
        .filter(|held| *held)
        .count();
    assert!(held > 0, "no call waits for its turn");
    assert_eq!(*lines.lock().unwrap(), [""; 0]);
    host.hold(10 * SECOND);
    let line = "model: cooldown: all calls wait 10.0s, those with less time left end at once, \
                the program asked for it";
    assert_eq!(*lines.lock().unwrap(), [line]);
}

/// A strain lasts until the end of a hold that another member has made longer, although no call waits.
#[test]
fn a_joined_hold_prolongs_the_strain_of_this_process() {
    let timer = ManualTimer::new();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&lines);
    let host = Upstream::new("model").with_cooldown(Cooldown::new().with_jitter(0.0));
    let host = host.with_timer(timer.clone()).with_shared_observer(move |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Limiting { .. } | EventKind::Relieved { .. }) {
            written.lock().unwrap().push(event.to_string());
        }
    });
    host.hold(5 * SECOND);
    let hold = |remaining| Hold { elapsed: SECOND, remaining, hint: remaining };
    host.share().unwrap().hold_as(hold(60 * SECOND));
    host.share().unwrap().hold_as(hold(9 * SECOND)); // ends earlier
    timer.advance(Duration::from_millis(69_999));
    host.try_admit().unwrap().succeeded();
    let begun = "model: cooldown: all calls wait 5.0s, those with less time left end at once, \
                 the program asked for it";
    assert_eq!(*lines.lock().unwrap(), [begun]);
    timer.advance(Duration::from_millis(1));
    host.try_admit().unwrap().succeeded();
    let over = "model: cooldown over: 0 waits within 60.0s, until 10.0s ago";
    assert_eq!(*lines.lock().unwrap(), [begun, over]);
}
