//! `resile::Keyed`: one for each key, bounded, and none dropped that is in use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use proptest::prelude::*;
use resile::breaker::State;
use resile::{Breaker, Budget, Keyed, ManualTimer, StopReason, Timer, Upstream, Verdict};

const SECOND: Duration = Duration::from_secs(1);

/// A value that knows which one it is.
fn counted(made: &AtomicU32) -> impl Fn(&u8) -> u32 {
    |_| made.fetch_add(1, Ordering::Relaxed)
}

#[test]
fn one_key_has_one_value() {
    static MADE: AtomicU32 = AtomicU32::new(0);
    static KEYED: Keyed<String, u32> = Keyed::new(|_| MADE.fetch_add(1, Ordering::Relaxed));
    let start = Barrier::new(8);
    let all: Vec<_> = std::thread::scope(|scope| {
        let ask = || {
            start.wait();
            KEYED.get("host")
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert!(all.iter().all(|it| Arc::ptr_eq(it, &all[0])));
    assert!(!Arc::ptr_eq(&KEYED.get("other"), &all[0]));
    assert_eq!(KEYED.len(), 2);
}

#[test]
fn the_one_not_used_for_longest_gives_way() {
    let made = AtomicU32::new(0);
    let keyed = Keyed::from_fn(counted(&made)).with_capacity(2).without_idle();
    assert_eq!([1, 2, 1, 3].map(|key| *keyed.get(&key)), [0, 1, 0, 2]);
    assert_eq!((*keyed.get(&1), *keyed.get(&3), keyed.len()), (0, 2, 2)); // it was 2 that went
    assert_eq!(*keyed.get(&2), 3);
}

#[test]
fn one_in_use_is_never_dropped() {
    let made = AtomicU32::new(0);
    let timer = ManualTimer::new();
    let keyed =
        Keyed::from_fn(counted(&made)).with_capacity(1).with_idle(SECOND).with_timer(&timer);
    let used = keyed.get(&1);
    let both = keyed.get(&2); // past the capacity, as all are in use
    assert_eq!(keyed.len(), 2);
    timer.advance(100 * SECOND);
    drop(both);
    assert_eq!(*keyed.get(&3), 2);
    assert_eq!(keyed.len(), 2); // back at what is in use, and the new one
    assert!(Arc::ptr_eq(&used, &keyed.get(&1)));
}

#[test]
fn idle_ones_are_dropped_by_the_next_get() {
    let made = AtomicU32::new(0);
    let timer = ManualTimer::new();
    let keyed = Keyed::from_fn(counted(&made)).with_idle(10 * SECOND).with_timer(&timer);
    keyed.get(&1);
    timer.advance(9 * SECOND);
    keyed.get(&2);
    timer.advance(SECOND);
    assert_eq!(keyed.len(), 2);
    keyed.get(&2);
    assert_eq!(keyed.len(), 1); // 1 has gone
    timer.advance(9 * SECOND);
    assert_eq!(*keyed.get(&2), 1);
    timer.advance(10 * SECOND);
    assert_eq!(*keyed.get(&2), 1); // the one that is asked for is used, not idle
    timer.advance(Duration::MAX);
    assert_eq!(*keyed.get(&3), 2);
    assert_eq!(keyed.len(), 1);
}

#[test]
fn no_clock_without_an_idle_time() {
    struct NoClock;
    impl Timer for NoClock {
        type Sleep = std::future::Pending<()>;
        fn now(&self) -> Duration {
            panic!("the clock was read")
        }
        fn sleep(&self, _: Duration) -> Self::Sleep {
            panic!("a timer was made")
        }
    }
    let keyed = Keyed::new(|key: &u8| *key).without_idle().with_timer(NoClock);
    assert_eq!(*keyed.get(&7), 7);
}

/// Making and dropping a value may use the table: no lock is held.
#[test]
fn values_may_use_the_table() {
    struct Nosy(u8);
    static KEYED: Keyed<u8, Nosy> = Keyed::new(|&key| {
        if key > 0 {
            KEYED.get(&(key - 1));
        }
        Nosy(key)
    })
    .with_capacity(2);
    impl Drop for Nosy {
        fn drop(&mut self) {
            assert!(KEYED.len() <= 3);
        }
    }
    assert_eq!(KEYED.get(&9).0, 9);
    assert_eq!(KEYED.len(), 2);
}

#[test]
fn a_panic_while_making_leaves_the_table_whole() {
    let keyed = Keyed::new(|key: &u8| assert!(*key < 5)).without_idle();
    keyed.get(&1);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| keyed.get(&7))).is_err());
    assert_eq!(keyed.len(), 1);
    keyed.get(&2);
    assert_eq!(keyed.len(), 2);
}

/// One upstream for each host: named by its key, and none stands in for another.
#[test]
fn each_key_has_an_upstream_of_its_own() {
    static HOSTS: Keyed<String, Upstream> = Keyed::new(|host| {
        Upstream::named(host.as_str())
            .with_breaker(Breaker::new().with_consecutive(2))
            .with_budget(Budget::new().with_capacity(3))
    });
    let (down, up) = (HOSTS.get("down.example"), HOSTS.get("up.example"));
    assert_eq!((down.name(), up.name()), ("down.example", "up.example"));
    for _ in 0..2 {
        HOSTS.get("down.example").try_admit().unwrap().settle(&Verdict::transient());
    }
    down.budget().unwrap().withdraw().unwrap().spend();
    let refused = HOSTS.get("down.example").try_admit().unwrap_err();
    assert_eq!((refused.reason(), refused.upstream()), (StopReason::Open, Some("down.example")));
    HOSTS.get("up.example").try_admit().unwrap().succeeded();
    let seen =
        [down, up].map(|it| (it.breaker().unwrap().state(), it.budget().unwrap().available()));
    assert_eq!(seen, [(State::Open, 2), (State::Closed, 3)]);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Get(u8),
    GetAndHold(u8),
    Release(u8),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..8_u8).prop_map(Step::Get),
        2 => (0..8_u8).prop_map(Step::GetAndHold),
        2 => (0..8_u8).prop_map(Step::Release),
        2 => (0..20_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    /// The laws, whatever the order: who is in use is the same one; who was used within the idle time and needed not
    /// give way is the same one; who was not is another; the number is bounded.
    #[test]
    fn keeps_what_it_must_and_no_more(
        capacity in 0..6_usize,
        idle in 0..30_u64,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let made = AtomicU32::new(0);
        let timer = ManualTimer::new();
        let idle = SECOND * u32::try_from(idle).unwrap();
        let keyed = Keyed::from_fn(counted(&made)).with_capacity(capacity).with_idle(idle).with_timer(&timer);
        let mut held = BTreeMap::<u8, Arc<u32>>::new();
        // The model: (key, value, last use), oldest first.
        let mut kept = Vec::<(u8, u32, Duration)>::new();
        for step in steps {
            let now = timer.now();
            match step {
                Step::Pass(by) => timer.advance(SECOND * u32::try_from(by).unwrap()),
                Step::Release(key) => drop(held.remove(&key)),
                Step::Get(key) | Step::GetAndHold(key) => {
                    let next = made.load(Ordering::Relaxed);
                    let value = keyed.get(&key);
                    let known = kept.iter().position(|it| it.0 == key).map(|at| kept.remove(at).1);
                    prop_assert_eq!(*value, known.unwrap_or(next));
                    let in_use = |it: &(u8, u32, Duration)| held.contains_key(&it.0);
                    // What is idle goes, what is as old and in use is as good as new.
                    let (old, mut young): (Vec<_>, Vec<_>) = kept.iter().partition(|it| now.saturating_sub(it.2) >= idle);
                    let renewed: Vec<_> = old.into_iter().filter(in_use).map(|it| (it.0, it.1, now)).collect();
                    if known.is_some() {
                        young.push((key, *value, now));
                        young.extend(renewed);
                        kept = young;
                    } else {
                        young.extend(renewed);
                        kept = Vec::new();
                        let (mut room, mut passed) = (young.len(), Vec::new());
                        for it in young {
                            if room < capacity {
                                kept.push(it);
                            } else if in_use(&it) {
                                passed.push((it.0, it.1, now));
                            } else {
                                room -= 1;
                            }
                        }
                        kept.extend(passed);
                        kept.push((key, *value, now));
                    }
                    if let Step::GetAndHold(_) = step {
                        held.insert(key, value);
                    }
                    prop_assert!(known.is_some() || keyed.len() <= capacity.max(held.len() + 1));
                }
            }
            prop_assert_eq!(keyed.len(), kept.len());
        }
    }
}
