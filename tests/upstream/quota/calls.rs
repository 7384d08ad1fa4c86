//! Calls that wait for a quota: the order of the queue, the ends of a wait and the other parts.

use std::sync::Mutex;
use std::time::Duration;

use resile::classify::Always;
use resile::observe::{Event, EventKind, HeldBy};
use resile::quota::{Cost, Dimension, Rate};
use resile::upstream::AtCost;
use resile::{
    Backoff, Breaker, Budget, Bulkhead, Cooldown, Never, Quota, ResilienceExt, RetryPolicy,
    StopReason, Upstream, Verdict, retry,
};
use tokio::time::{Instant, advance, sleep};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// Sixty tokens at once, and one more each second.
const RATE: Rate = Rate::per_minute(60);

fn tokens() -> Upstream {
    Upstream::new("tokens").with_quota(Quota::new().with_tokens(RATE))
}

/// An upstream with an empty quota.
fn used_up() -> Upstream {
    let upstream = tokens();
    use_up(&upstream);
    upstream
}

fn use_up(upstream: &Upstream) {
    upstream.at_cost(Cost::input(60)).try_admit().unwrap().succeeded();
}

fn waiting(upstream: &Upstream) -> u32 {
    upstream.quota().unwrap().waiting()
}

/// The names of the calls in the order of their attempts, each with its second.
type Order = Mutex<Vec<(u32, u64)>>;

async fn call(target: AtCost<'_, &Upstream>, name: u32, order: &Order, began: Instant) {
    let attempt = async {
        order.lock().unwrap().push((name, began.elapsed().as_secs()));
        Ok::<_, &str>(())
    };
    attempt.through(target, Always).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_costs_no_attempt_and_is_one_event() {
    let upstream = used_up();
    let held = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| {
        if let EventKind::Held { attempt, by, delay, .. } = event.kind {
            held.lock().unwrap().push((attempt, by, delay));
        }
    };
    let began = Instant::now();
    let target = upstream.at_cost(Cost::input(10));
    let outcome =
        retry(|_| async { Err::<(), _>("no") }, RetryPolicy::new().with_attempts(1), Never)
            .on(target.observed_by(&observer))
            .await;
    let gave_up = outcome.unwrap_err();
    assert_eq!((gave_up.attempts(), gave_up.reason()), (1, StopReason::Attempts));
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(*held.lock().unwrap(), [(1, HeldBy::Quota, Some(SECOND * 10))]);
}

/// The second call is large. The small ones behind it do not overtake it.
#[tokio::test(start_paused = true)]
async fn waiters_go_in_the_order_of_their_arrival() {
    let (upstream, order, began) = (used_up(), Order::default(), Instant::now());
    let costs = [5, 50, 1, 1, 3];
    let calls = (0..)
        .zip(costs)
        .map(|(name, cost)| call(upstream.at_cost(Cost::input(cost)), name, &order, began));
    futures_util::future::join_all(calls).await;
    assert_eq!(*order.lock().unwrap(), [(0, 5), (1, 55), (2, 56), (3, 57), (4, 60)]);
    assert_eq!(waiting(&upstream), 0);
}

#[tokio::test(start_paused = true)]
async fn a_higher_priority_goes_first() {
    let (upstream, order, began) = (used_up(), Order::default(), Instant::now());
    let calls = [0, 255, 7, 7, 1].into_iter().zip(0..).map(|(priority, name)| {
        let target = upstream.at_cost(Cost::input(10)).with_priority(priority);
        call(target, name, &order, began)
    });
    futures_util::future::join_all(calls).await;
    let names = order.lock().unwrap().iter().map(|(name, _)| *name).collect::<Vec<_>>();
    assert_eq!(names, [1, 2, 3, 4, 0]);
}

/// One of the first priority arrives each minute and takes all that refills.
#[tokio::test(start_paused = true)]
async fn a_waiter_of_ten_minutes_gets_one_of_the_next_eight_turns() {
    let (upstream, order, began) = (used_up(), Order::default(), Instant::now());
    let old = call(upstream.at_cost(Cost::input(60)), 100, &order, began);
    let busy = (0..20).map(|name| {
        let target = upstream.at_cost(Cost::input(60)).with_priority(9);
        let (order, began) = (&order, began);
        async move {
            sleep(SECOND * 55 * name).await;
            call(target, name, order, began).await;
        }
    });
    tokio::join!(old, futures_util::future::join_all(busy));
    let order = order.into_inner().unwrap();
    let (_, second) = order.iter().find(|(name, _)| *name == 100).unwrap();
    // A turn takes 60 s.
    assert!((600..=600 + 8 * 60).contains(second), "{order:?}");
}

/// The first group has twenty waiters before the second group has its first.
#[tokio::test(start_paused = true)]
async fn groups_share_the_quota() {
    let (upstream, order, began) = (used_up(), Order::default(), Instant::now());
    let groups = [("busy", 0..20), ("calm", 100..105)];
    let calls = groups.into_iter().flat_map(|(group, names)| {
        let (upstream, order) = (&upstream, &order);
        names.map(move |name| {
            let target = upstream.at_cost(Cost::input(2)).with_group(group);
            call(target, name, order, began)
        })
    });
    futures_util::future::join_all(calls).await;
    let order = order.into_inner().unwrap();
    let calm = order.iter().rposition(|(name, _)| *name >= 100).unwrap();
    assert!((8..=10).contains(&calm), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cost_that_cannot_fit_before_the_deadline_ends_at_once() {
    let upstream = used_up();
    let policy = RetryPolicy::new().with_total_timeout(SECOND * 30);
    let try_for = async |cost| {
        let target = upstream.at_cost(Cost::input(cost));
        retry(|_| async { Ok::<_, &str>(()) }, policy, Never).on(target).await
    };
    let began = Instant::now();
    let gave_up = try_for(40).await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Deadline, 0));
    assert_eq!(gave_up.retry_after(), Some(SECOND * 40));
    assert_eq!(waiting(&upstream), 0);
    // The costs of the waiters ahead count.
    let (first, second) = tokio::join!(try_for(20), try_for(20));
    first.unwrap();
    assert_eq!(second.unwrap_err().retry_after(), Some(SECOND * 40));
}

#[tokio::test(start_paused = true)]
async fn a_cost_above_the_burst_names_both_numbers() {
    let upstream = tokens();
    let lines = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| lines.lock().unwrap().push(event.to_string());
    let target = upstream.at_cost(Cost::input(61));
    let call = retry(|_| async { Ok::<_, std::io::Error>(()) }, RetryPolicy::new(), Never);
    let gave_up = call.on(target.observed_by(&observer)).await.unwrap_err();
    assert_eq!(gave_up.reason(), StopReason::TooLarge);
    let too_large = gave_up.too_large().unwrap();
    assert_eq!((too_large.dimension, too_large.cost, too_large.limit), (Dimension::Tokens, 61, 60));
    let words = "the cost of 61 tokens is above the quota's burst of 60 (`with_burst`)";
    assert!(gave_up.to_string().contains(words), "{gave_up}");
    assert!(lines.lock().unwrap().iter().any(|line| line.contains(words)), "{lines:?}");
    assert_eq!(upstream.quota_level(Dimension::Tokens), Some(60));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_the_next_call() {
    for most in [0, 1, 3] {
        let quota = Quota::new().with_tokens(RATE).with_queue(most);
        let upstream = Upstream::new("queue").with_quota(quota);
        use_up(&upstream);
        let mut waiters: Vec<_> = (0..most)
            .map(|_| tokio_test::task::spawn(upstream.at_cost(Cost::input(1)).admit(Never)))
            .collect();
        assert!(waiters.iter_mut().all(|waiter| waiter.poll().is_pending()));
        let refused = upstream.at_cost(Cost::input(1)).admit(Never).await.unwrap_err();
        assert_eq!(refused.reason(), StopReason::Full);
        assert_eq!(waiting(&upstream), most);
        drop(waiters);
        assert_eq!(waiting(&upstream), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_leaves_and_the_next_goes() {
    let (upstream, token, began) = (used_up(), CancellationToken::new(), Instant::now());
    let first = async {
        let gave_up = upstream.at_cost(Cost::input(50)).admit(&token).await.unwrap_err();
        assert_eq!(gave_up.reason(), StopReason::Cancelled);
    };
    let second = async {
        upstream.at_cost(Cost::input(9)).admit(Never).await.unwrap().succeeded();
        began.elapsed().as_secs()
    };
    let cancels = async {
        sleep(SECOND * 3).await;
        token.cancel();
    };
    let ((), second, ()) = tokio::join!(first, second, cancels);
    assert_eq!((second, waiting(&upstream)), (9, 0));
}

/// A refusal with a hint arrives while two calls wait. They keep their places.
#[tokio::test(start_paused = true)]
async fn a_cooldown_holds_the_waiters_in_their_places() {
    let cooldown = Cooldown::new().with_jitter(0.0);
    let (upstream, order, began) =
        (tokens().with_cooldown(cooldown), Order::default(), Instant::now());
    let last = upstream.at_cost(Cost::input(60)).try_admit().unwrap();
    let calls = (0..3).map(|name| call(upstream.at_cost(Cost::input(5)), name, &order, began));
    let refuses = async {
        sleep(SECOND).await;
        last.settle(&Verdict::throttled().after(SECOND * 30));
        sleep(SECOND * 29).await;
        assert_eq!(waiting(&upstream), 3);
    };
    tokio::join!(futures_util::future::join_all(calls), refuses);
    // Nothing refills during the hold: the provider has refused everything.
    assert_eq!(*order.lock().unwrap(), [(0, 36), (1, 41), (2, 46)]);
}

/// An attempt that waits for the quota holds its permit, and gives it back if it is dropped.
#[tokio::test(start_paused = true)]
async fn a_waiter_holds_one_permit() {
    let upstream = used_up().with_bulkhead(Bulkhead::new(1).with_queue(1));
    let mut first = tokio_test::task::spawn(upstream.at_cost(Cost::input(5)).admit(Never));
    let mut second = tokio_test::task::spawn(upstream.at_cost(Cost::input(1)).admit(Never));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    let bulkhead = upstream.bulkhead().unwrap();
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting(), waiting(&upstream)), (1, 1, 1));
    drop(first);
    assert!(second.is_woken());
    assert!(second.poll().is_pending());
    advance(SECOND * 2).await;
    assert!(second.is_woken());
    // The sleep has ended, and the call yields before it asks again.
    let admitted = loop {
        if let std::task::Poll::Ready(admitted) = second.poll() {
            break admitted;
        }
    };
    admitted.unwrap().succeeded();
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting(), waiting(&upstream)), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_takes_nothing_and_lets_nobody_queue() {
    let breaker = Breaker::new().with_consecutive(1).without_failure_rate();
    let upstream = tokens().with_breaker(breaker);
    upstream.try_admit().unwrap().settle(&Verdict::transient());
    let refused = upstream.at_cost(Cost::input(20)).admit(Never).await.unwrap_err();
    assert_eq!(refused.reason(), StopReason::Open);
    assert_eq!(upstream.quota_level(Dimension::Tokens), Some(60));
    let breaker = Breaker::new().with_consecutive(1).without_failure_rate();
    let upstream = tokens().with_breaker(breaker);
    upstream.at_cost(Cost::input(60)).try_admit().unwrap().settle(&Verdict::transient());
    let refused = upstream.at_cost(Cost::input(20)).admit(Never).await.unwrap_err();
    assert_eq!((refused.reason(), waiting(&upstream)), (StopReason::Open, 0));
}

/// The first waiter opens the breaker. The waiter behind it is refused at its turn.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_refused_by_a_breaker_that_opened_meanwhile() {
    let breaker = Breaker::new().with_consecutive(1).without_failure_rate();
    let upstream = used_up().with_breaker(breaker);
    let first = async {
        let admitted = upstream.at_cost(Cost::input(1)).admit(Never).await.unwrap();
        admitted.settle(&Verdict::transient());
    };
    let second = upstream.at_cost(Cost::input(1)).admit(Never);
    let ((), second) = tokio::join!(first, second);
    assert_eq!(second.unwrap_err().reason(), StopReason::Open);
    sleep(SECOND * 60).await;
    assert_eq!(upstream.quota_level(Dimension::Tokens), Some(60));
}

/// The retry waits for the quota and is paid for once. Its token returns if the call is dropped.
#[tokio::test(start_paused = true)]
async fn a_waiting_retry_is_paid_for_once() {
    for drops in [true, false] {
        let upstream = tokens().with_budget(Budget::new().with_capacity(10).with_deposit(0.0));
        let available = || upstream.budget().unwrap().available();
        let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(Always);
        let call = retry(
            |attempt| async move { if attempt.is_first() { Err("no") } else { Ok(()) } },
            policy,
            Never,
        );
        let call = call.on(upstream.at_cost(Cost::input(40)));
        let outcome = tokio::time::timeout(SECOND * if drops { 5 } else { 50 }, call).await;
        assert_eq!((outcome.is_err(), waiting(&upstream)), (drops, 0));
        assert_eq!(available(), if drops { 10 } else { 9 });
        assert_eq!(upstream.quota_level(Dimension::Tokens), Some(if drops { 25 } else { 0 }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_concurrency_admits_in_order() {
    let upstream = Upstream::new("two").with_quota(Quota::new().with_concurrency(2));
    let (began, order) = (Instant::now(), Order::default());
    let calls = (0..5).map(|name| {
        let (upstream, order) = (&upstream, &order);
        async move {
            let attempt = async {
                assert!(upstream.quota().unwrap().in_flight() <= Some(2));
                sleep(SECOND).await;
                order.lock().unwrap().push((name, began.elapsed().as_secs()));
                Ok::<_, &str>(())
            };
            upstream.call(attempt, Always).await.unwrap();
        }
    });
    futures_util::future::join_all(calls).await;
    assert_eq!(*order.lock().unwrap(), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)]);
    assert_eq!(upstream.quota().unwrap().in_flight(), Some(0));
}

/// A waiting call is dropped after any number of polls. Nothing is held, and the next waiter goes.
#[tokio::test(start_paused = true)]
async fn a_waiter_may_be_dropped_at_any_poll() {
    for polls in 1..8 {
        let upstream = used_up();
        let mut first = tokio_test::task::spawn(upstream.at_cost(Cost::input(30)).admit(Never));
        let mut second = tokio_test::task::spawn(upstream.at_cost(Cost::input(4)).admit(Never));
        for poll in 0..polls {
            assert!(first.poll().is_pending());
            assert!(poll > 0 || second.poll().is_pending());
            advance(SECOND / 2).await;
        }
        drop(first);
        assert!(second.is_woken());
        assert_eq!(waiting(&upstream), 1);
        second.await.unwrap().withdraw();
        assert_eq!((waiting(&upstream), upstream.quota().unwrap().reserved()), (0, 0));
    }
}
