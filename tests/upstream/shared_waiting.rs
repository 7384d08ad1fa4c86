//! Calls that wait for a lease: their order, their wakes and their deadlines.

use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::quota::{Cost, Dimension, Rate};
use resile::time::ManualTimer;
use resile::upstream::{AtCost, Resource, Shared};
use resile::{Never, Quota, RetryPolicy, StopReason, Upstream, retry};
use tokio_test::task::spawn;

const TOKENS: Resource = Resource::Quota(Dimension::Tokens);
const SECOND: Duration = Duration::from_secs(1);
const BURST: u32 = 10;

type Host = Upstream<ManualTimer>;

fn host(timer: &ManualTimer) -> Host {
    let quota = Quota::new().with_tokens(Rate::per_second(1).with_burst(u64::from(BURST)));
    Upstream::new("model").with_quota(quota).with_timer(timer.clone()).with_observer(&())
}

/// Takes the signal.
fn changed(shared: &Shared<'_, ManualTimer>) -> bool {
    shared.poll_changed(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    Adjust(i64),
    Extend(u64),
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..6_u64).prop_map(Step::Pass),
        5 => (-5..25_i64).prop_map(Step::Adjust),
        3 => (0..9_u64).prop_map(Step::Extend),
        1 => (0..8_usize).prop_map(Step::Leave),
    ]
}

proptest! {
    /// Only calls that were woken are polled. So each grant and each longer lease wakes the first
    /// call, and each call that goes wakes the next one.
    #[test]
    fn a_grant_wakes_the_waiting_calls_in_order(
        costs in prop::collection::vec(1..=BURST, 1..8),
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let timer = ManualTimer::new();
        let host = host(&timer);
        let shared = host.share().unwrap();
        let wait = |cost: u32| {
            let mut call = spawn(AtCost::new(&host, Cost::input(cost.into())).admit(Never));
            assert!(call.poll().is_pending());
            (cost, call)
        };
        let mut calls: Vec<_> = costs.into_iter().map(wait).collect();
        let (mut balance, mut end, mut now) = (0_i64, 0_u64, 0_u64);
        for step in steps {
            match step {
                Step::Pass(seconds) => {
                    timer.advance(SECOND * u32::try_from(seconds).unwrap());
                    now += seconds;
                }
                Step::Adjust(units) => {
                    shared.adjust(TOKENS, units);
                    balance += units;
                }
                Step::Extend(seconds) => {
                    shared.extend(TOKENS, Duration::from_secs(seconds));
                    end = now + seconds;
                }
                Step::Leave(at) if at < calls.len() => drop(calls.remove(at)),
                Step::Leave(_) => {}
            }
            // In the model the first calls go, as far as the lease has their units.
            let served = calls.iter().take_while(|(cost, _)| {
                let fits = now < end && balance >= i64::from(*cost);
                balance -= if fits { i64::from(*cost) } else { 0 };
                fits
            });
            let served = served.count();
            let mut gone = 0;
            while let Some(at) = calls.iter_mut().position(|(_, call)| call.is_woken()) {
                if let Poll::Ready(admitted) = calls[at].1.poll() {
                    prop_assert_eq!(at, 0, "a later call went first");
                    admitted.unwrap().succeeded();
                    drop(calls.remove(at));
                    gone += 1;
                }
            }
            prop_assert_eq!(gone, served, "after {:?}", step);
            prop_assert_eq!(shared.balance(TOKENS), Some(balance));
            let all = calls.iter().map(|(cost, _)| u64::from(*cost)).sum();
            let first = calls.first().map_or(0, |(cost, _)| u64::from(*cost));
            let waiting = shared.waiting(TOKENS);
            prop_assert_eq!((waiting.first, waiting.all), (first, all));
        }
    }

    /// A lease can grow at any time. So a call ends at its deadline and not before, no matter how
    /// many calls are ahead of it.
    #[test]
    fn a_call_waits_for_a_lease_until_its_deadline(
        ahead in prop::collection::vec(1..=BURST, 0..6),
        (cost, debt, limit, granted) in (1..=BURST, 0..100_i64, 2..20_u64, any::<bool>()),
    ) {
        let timer = ManualTimer::new();
        let host = host(&timer);
        let shared = host.share().unwrap();
        shared.adjust(TOKENS, -debt);
        shared.extend(TOKENS, Duration::MAX);
        let mut others: Vec<_> = ahead
            .iter()
            .map(|cost| spawn(AtCost::new(&host, Cost::input((*cost).into())).admit(Never)))
            .collect();
        prop_assert!(others.iter_mut().all(|other| other.poll().is_pending()));
        let policy = RetryPolicy::new().with_total_timeout(Duration::from_secs(limit));
        let op = |_| std::future::ready(Ok::<_, &str>(()));
        let mut call = spawn(retry(op, policy, Never).on(AtCost::new(&host, Cost::input(cost.into()))));
        prop_assert!(call.poll().is_pending());
        timer.advance(Duration::from_secs(limit - 1) + Duration::from_nanos(999_999_999));
        prop_assert!(call.poll().is_pending(), "too early");
        if granted {
            let all: i64 = ahead.iter().copied().map(i64::from).sum();
            shared.adjust(TOKENS, debt + all + i64::from(cost));
            prop_assert!(others.iter_mut().all(|other| other.poll().is_ready()));
            let Poll::Ready(Ok(())) = call.poll() else { panic!("it has its units") };
        } else {
            timer.advance(Duration::from_nanos(1));
            let Poll::Ready(Err(gave_up)) = call.poll() else { panic!("the deadline is over") };
            prop_assert_eq!(gave_up.reason(), StopReason::Deadline);
            prop_assert_eq!(gave_up.elapsed(), Duration::from_secs(limit));
        }
    }
}

/// A call that began to wait without a lease is served from the lease, and the other way round.
#[test]
fn waiting_calls_survive_join_and_leave() {
    let timer = ManualTimer::new();
    let host = host(&timer);
    host.at_cost(Cost::input(BURST.into())).try_admit().unwrap().succeeded();
    let mut first = spawn(host.at_cost(Cost::input(3)).admit(Never));
    let mut second = spawn(host.at_cost(Cost::input(4)).admit(Never));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    let shared = host.share().unwrap();
    timer.advance(100 * SECOND);
    assert!(first.is_woken() && first.poll().is_pending(), "nothing refills in a lease");
    shared.extend(TOKENS, SECOND);
    shared.adjust(TOKENS, 3);
    assert!(first.is_woken() && first.poll().is_ready());
    assert!(second.is_woken() && second.poll().is_pending());
    drop(shared);
    assert!(second.is_woken() && second.poll().is_pending(), "it now waits for the refill");
    assert_eq!(timer.until_next(), Some(4 * SECOND));
    timer.advance(4 * SECOND);
    assert!(second.is_woken() && second.poll().is_ready());
}

#[test]
fn units_in_flight_belong_to_the_mode_in_which_they_come_back() {
    let timer = ManualTimer::new();
    let host = host(&timer);
    let before = host.at_cost(Cost::input(6)).try_admit().unwrap();
    let shared = host.share().unwrap();
    assert_eq!(shared.balance(TOKENS), Some(0));
    before.withdraw();
    assert_eq!(shared.balance(TOKENS), Some(6));
    shared.extend(TOKENS, SECOND);
    let within = host.at_cost(Cost::input(5)).try_admit().unwrap();
    drop(shared);
    assert_eq!(host.quota_level(Dimension::Tokens), Some(1));
    within.withdraw();
    assert_eq!(host.quota_level(Dimension::Tokens), Some(6));
    timer.advance(60 * SECOND);
    assert_eq!(host.quota_level(Dimension::Tokens), Some(10));
}

#[test]
fn a_debt_outlives_join_and_leave() {
    let timer = ManualTimer::new();
    let host = host(&timer);
    let mut call = host.at_cost(Cost::input(1)).try_admit().unwrap();
    call.record(resile::quota::Usage::new().with_input(15));
    call.succeeded();
    assert_eq!(host.quota_level(Dimension::Tokens), Some(-5));
    let shared = host.share().unwrap();
    assert_eq!(shared.balance(TOKENS), Some(-5));
    shared.extend(TOKENS, SECOND);
    shared.adjust(TOKENS, 5);
    assert!(host.at_cost(Cost::input(1)).try_admit().is_err(), "the debt is paid first");
    shared.adjust(TOKENS, -2);
    drop(shared);
    assert_eq!(host.quota_level(Dimension::Tokens), Some(-2));
}

/// After the end of a lease its units belong to others.
#[test]
fn units_of_an_ended_lease_are_lost_at_leave() {
    let timer = ManualTimer::new();
    let host = host(&timer);
    let shared = host.share().unwrap();
    shared.adjust(TOKENS, 8);
    shared.extend(TOKENS, SECOND);
    timer.advance(SECOND);
    assert_eq!((shared.balance(TOKENS), host.quota_level(Dimension::Tokens)), (Some(8), Some(0)));
    drop(shared);
    assert_eq!(host.quota_level(Dimension::Tokens), Some(0));
}

/// The wait of a refusal under a lease is that of the whole rate.
#[test]
fn a_refusal_under_a_lease_guesses_a_wait() {
    let timer = ManualTimer::new();
    let host = host(&timer);
    let shared = host.share().unwrap();
    shared.extend(TOKENS, SECOND);
    shared.adjust(TOKENS, 1);
    let refusal = host.at_cost(Cost::input(4)).try_admit().unwrap_err();
    assert_eq!(refusal.retry_after(), Some(3 * SECOND));
    assert!(changed(&shared), "the owner of the lease knows");
    let refusal = host.at_cost(Cost::input(11)).try_admit().unwrap_err();
    assert_eq!(refusal.reason(), StopReason::TooLarge);
    assert!(!changed(&shared), "no grant would help");
}

/// The listener is told of a call after the call has joined the queue.
#[test]
fn the_signal_comes_with_the_waiting_call() {
    struct Listener(&'static Host, mpsc::Sender<u32>);
    impl std::task::Wake for Listener {
        fn wake(self: std::sync::Arc<Self>) {
            let _ = self.1.send(self.0.quota().unwrap().waiting());
        }
    }
    let host: &'static Host = Box::leak(Box::new(host(&ManualTimer::new())));
    let shared = host.share().unwrap();
    while changed(&shared) {}
    let (sender, seen) = mpsc::channel();
    let waker = Waker::from(std::sync::Arc::new(Listener(host, sender)));
    assert!(shared.poll_changed(&mut Context::from_waker(&waker)).is_pending());
    let mut call = spawn(host.at_cost(Cost::input(1)).admit(Never));
    assert!(call.poll().is_pending());
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [1]);
}

/// A waker is foreign code. It may use the quota, so no lock of the quota is held.
#[test]
fn the_listener_is_woken_without_a_lock() {
    struct Listener(&'static Host);
    impl std::task::Wake for Listener {
        fn wake(self: std::sync::Arc<Self>) {
            let mut call = spawn(self.0.at_cost(Cost::input(2)).admit(Never));
            let _ = call.poll();
        }
    }
    let host: &'static Host = Box::leak(Box::new(host(&ManualTimer::new())));
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let shared = host.share().unwrap();
        let mut call = spawn(host.at_cost(Cost::input(1)).admit(Never));
        assert!(call.poll().is_pending());
        shared.extend(TOKENS, SECOND);
        shared.set_low(TOKENS, 9);
        while changed(&shared) {}
        let waker = Waker::from(std::sync::Arc::new(Listener(host)));
        assert!(shared.poll_changed(&mut Context::from_waker(&waker)).is_pending());
        shared.adjust(TOKENS, 9);
        assert!(call.poll().is_ready(), "it takes the units in the queue");
        sender.send(shared.balance(TOKENS)).unwrap();
    });
    let balance = ended.recv_timeout(Duration::from_secs(20)).expect("a deadlock");
    assert_eq!(balance, Some(6), "both calls have their units");
}
