//! The order of the waiters of a quota.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::{join, join_all};
use resile::quota::{Cost, Quota, Rate};
use resile::{ManualTimer, Never, RetryPolicy, Upstream, retry};
use tokio::time::Instant;
use tokio_test::task::{Spawn, spawn};

#[tokio::test(start_paused = true)]
async fn old_waiters_of_one_group_leave_the_others_their_share() {
    let quota = Quota::new().with_requests(Rate::per_second(1).with_burst(1));
    let upstream = Upstream::new("model").with_quota(quota);
    let (began, late) = (Instant::now(), Cell::new(0));
    let call = |group: u8| {
        let left = Duration::from_secs(1_200).saturating_sub(began.elapsed());
        let policy = RetryPolicy::new().with_total_timeout(left);
        let target = upstream.at_cost(Cost::new()).with_group(group);
        async move {
            let answer = retry(async |_| Ok::<_, std::io::Error>(()), policy, Never).on(target);
            answer.await.is_ok()
        }
    };
    let crowd = join_all((0..1_000).map(|_| call(1)));
    let other = join_all((0..5).map(async |_| {
        while call(2).await {
            if began.elapsed().as_secs() >= 620 {
                late.set(late.get() + 1);
            }
        }
    }));
    join(crowd, other).await;
    // 580 calls fit. Half of them are the share, and an eighth may go to old waiters first.
    assert!(late.get() >= 200, "{} of 580 calls", late.get());
}

/// Polls the tasks that were woken, until one of them is ready.
fn first_ready<F: Future>(tasks: &mut [Spawn<F>]) -> Option<usize> {
    for _ in 0..10 {
        for (index, task) in tasks.iter_mut().enumerate() {
            if task.is_woken() && task.poll().is_ready() {
                return Some(index);
            }
        }
    }
    None
}

/// An old waiter whose turn has come but whose cost does not fit is woken by the next release.
#[test]
fn an_old_waiter_that_could_not_go_is_woken_again() {
    let timer = ManualTimer::new();
    let quota = Quota::new().with_concurrency(1);
    let upstream = Upstream::new("model").with_quota(quota).with_timer(timer.clone());
    let inside = upstream.try_admit().unwrap();
    let wait = |priority| upstream.at_cost(Cost::new()).with_priority(priority).admit(Never);
    let mut waiters = vec![spawn(wait(0)), spawn(wait(1))];
    assert!(waiters.iter_mut().all(|waiter| waiter.poll().is_pending()));
    timer.advance(Duration::from_secs(600));
    waiters.push(spawn(wait(1)));
    assert!(waiters[2].poll().is_pending());
    assert_eq!(first_ready(&mut waiters), None);
    waiters.push(spawn(wait(1)));
    assert!(waiters[3].poll().is_pending());
    assert_eq!(first_ready(&mut waiters), None);
    inside.succeeded();
    assert_eq!(first_ready(&mut waiters), Some(0));
}

#[test]
fn a_call_that_leaves_the_queue_does_not_delay_its_group() {
    let timer = ManualTimer::new();
    let quota = Quota::new().with_requests(Rate::per_second(1));
    let upstream = Upstream::new("model").with_quota(quota).with_timer(timer.clone());
    upstream.try_admit().unwrap().succeeded();
    let wait = |group: u8| upstream.at_cost(Cost::new()).with_group(group).admit(Never);
    let mut waiters: Vec<_> = (0..5).map(|_| spawn(wait(1))).collect();
    assert!(waiters.iter_mut().all(|waiter| waiter.poll().is_pending()));
    for _ in 0..100 {
        let policy = RetryPolicy::new().with_total_timeout(Duration::from_millis(10));
        let call = retry(async |_| Ok::<_, std::io::Error>(()), policy, Never);
        let mut call = spawn(call.on(upstream.at_cost(Cost::new()).with_group(2_u8)));
        assert!(call.poll().is_ready(), "the deadline comes first");
    }
    waiters.push(spawn(wait(2)));
    assert!(waiters[5].poll().is_pending());
    let mut turns = Vec::new();
    for _ in 0..3 {
        timer.advance(Duration::from_secs(1));
        turns.push(first_ready(&mut waiters).unwrap());
    }
    assert!(turns.contains(&5), "{turns:?}");
}
