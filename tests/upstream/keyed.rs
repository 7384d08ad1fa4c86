//! `resile::Keyed`: one value for each key, a bounded number of keys, and no eviction of a value in
//! use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use proptest::prelude::*;
use resile::breaker::State;
use resile::time::{ManualTimer, Timer};
use resile::{Breaker, Budget, Keyed, StopReason, Upstream, Verdict};

const SECOND: Duration = Duration::from_secs(1);

/// Makes values that number themselves.
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
fn the_least_recently_used_value_is_evicted() {
    let made = AtomicU32::new(0);
    let keyed = Keyed::from_fn(counted(&made)).with_capacity(2).without_idle();
    assert_eq!([1, 2, 1, 3].map(|key| *keyed.get(&key)), [0, 1, 0, 2]);
    assert_eq!((*keyed.get(&1), *keyed.get(&3), keyed.len()), (0, 2, 2)); // key 2 was evicted
    assert_eq!(*keyed.get(&2), 3);
}

#[test]
fn a_value_in_use_is_never_evicted() {
    let made = AtomicU32::new(0);
    let timer = ManualTimer::new();
    let keyed =
        Keyed::from_fn(counted(&made)).with_capacity(1).with_idle(SECOND).with_timer(&timer);
    let used = keyed.get(&1);
    let both = keyed.get(&2); // above the capacity, because all values are in use
    assert_eq!(keyed.len(), 2);
    timer.advance(100 * SECOND);
    drop(both);
    assert_eq!(*keyed.get(&3), 2);
    assert_eq!(keyed.len(), 2); // only the value in use and the new value are left
    assert!(Arc::ptr_eq(&used, &keyed.get(&1)));
}

#[test]
fn the_next_get_evicts_idle_values() {
    let made = AtomicU32::new(0);
    let timer = ManualTimer::new();
    let keyed = Keyed::from_fn(counted(&made)).with_idle(10 * SECOND).with_timer(&timer);
    keyed.get(&1);
    timer.advance(9 * SECOND);
    keyed.get(&2);
    timer.advance(SECOND);
    assert_eq!(keyed.len(), 2);
    keyed.get(&2);
    assert_eq!(keyed.len(), 1); // key 1 was evicted
    timer.advance(9 * SECOND);
    assert_eq!(*keyed.get(&2), 1);
    timer.advance(10 * SECOND);
    assert_eq!(*keyed.get(&2), 1); // a value that is requested is not idle
    timer.advance(Duration::MAX);
    assert_eq!(*keyed.get(&3), 2);
    assert_eq!(keyed.len(), 1);
}

#[test]
fn without_an_idle_time_the_clock_is_not_read() {
    struct NoClock;
    impl Timer for NoClock {
        type Sleep = std::future::Pending<()>;
        fn now(&self) -> Duration {
            panic!("the clock was read")
        }
        fn sleep(&self, _: Duration) -> Self::Sleep {
            panic!("a sleep was created")
        }
    }
    let keyed = Keyed::new(|key: &u8| *key).without_idle().with_timer(NoClock);
    assert_eq!(*keyed.get(&7), 7);
}

/// No lock is held while a value is made or dropped, so both may use the table.
#[test]
fn making_and_dropping_a_value_may_use_the_table() {
    struct Reentrant(u8);
    static KEYED: Keyed<u8, Reentrant> = Keyed::new(|&key| {
        if key > 0 {
            KEYED.get(&(key - 1));
        }
        Reentrant(key)
    })
    .with_capacity(2);
    impl Drop for Reentrant {
        fn drop(&mut self) {
            assert!(KEYED.len() <= 3);
        }
    }
    assert_eq!(KEYED.get(&9).0, 9);
    assert_eq!(KEYED.len(), 2);
}

#[test]
fn a_panic_while_making_a_value_leaves_the_table_usable() {
    let keyed = Keyed::new(|key: &u8| assert!(*key < 5)).without_idle();
    keyed.get(&1);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| keyed.get(&7))).is_err());
    assert_eq!(keyed.len(), 1);
    keyed.get(&2);
    assert_eq!(keyed.len(), 2);
}

/// Each host has its own upstream, named by its key. They share no state.
#[test]
fn each_key_has_its_own_upstream() {
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
    assert!(down.budget().unwrap().withdraw());
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
    /// The laws, for any order of steps. A value stays while it is in use. It also stays while it
    /// was used within the idle time and was not evicted. Any other value is made again. The number
    /// of values is bounded.
    #[test]
    fn values_are_kept_while_used_and_evicted_in_order_of_last_use(
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
                    // An idle value is evicted. An old value in use counts as just used.
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
