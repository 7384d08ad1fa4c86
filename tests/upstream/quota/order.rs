//! The order of the waiters of a quota.

use std::cell::Cell;
use std::iter::once;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{join, join_all};
use resile::classify::Always;
use resile::observe::{Event, EventKind};
use resile::quota::{Cost, Dimension, Learning, Limit, Limits, Rate, learn};
use resile::time::ManualTimer;
use resile::{Backoff, Cooldown, Jitter, Never, Quota, RetryPolicy, Upstream, Verdict, retry};
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

/// Polls the tasks that were woken, until one of them is ready. Returns its place.
fn first_ready<F: Future>(tasks: &mut [Spawn<F>]) -> Option<usize> {
    first_output(tasks).map(|(place, _)| place)
}

/// Polls the tasks that were woken, until one of them is ready. Returns its place and its output.
fn first_output<F: Future>(tasks: &mut [Spawn<F>]) -> Option<(usize, F::Output)> {
    for _ in 0..10 {
        for (place, task) in tasks.iter_mut().enumerate() {
            if task.is_woken() {
                if let Poll::Ready(output) = task.poll() {
                    return Some((place, output));
                }
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

#[test]
fn the_forecast_of_a_newcomer_counts_the_waiters_ahead() {
    let timer = ManualTimer::new();
    let quota = Quota::new().with_tokens(Rate::per_second(1).with_burst(10));
    let upstream = Upstream::new("model").with_quota(quota).with_timer(timer);
    upstream.at_cost(Cost::input(10)).try_admit().unwrap().succeeded();
    let target = |tokens, priority| upstream.at_cost(Cost::input(tokens)).with_priority(priority);
    let mut waiters = [(5, 2), (7, 1), (1, 2)].map(|(tokens, priority)| {
        let mut waiter = spawn(target(tokens, priority).admit(Never));
        assert!(waiter.poll().is_pending());
        waiter
    });
    for (priority, ahead) in [(3, 0), (2, 6), (1, 13), (0, 13)] {
        let policy = RetryPolicy::new().with_total_timeout(Duration::from_millis(10));
        let call = retry(async |_| Ok::<_, std::io::Error>(()), policy, Never);
        let Poll::Ready(Err(refused)) = spawn(call.on(target(3, priority))).poll() else {
            panic!("the deadline comes first")
        };
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(ahead + 3)), "{priority}");
    }
    assert!(waiters.iter_mut().all(|waiter| waiter.poll().is_pending()));
}

#[test]
fn groups_share_the_amounts_and_not_the_calls() {
    let timer = ManualTimer::new();
    let quota = Quota::new().with_tokens(Rate::per_second(1).with_burst(9));
    let upstream = Upstream::new("model").with_quota(quota).with_timer(timer.clone());
    upstream.at_cost(Cost::input(9)).try_admit().unwrap().succeeded();
    let served = Cell::new([0; 2]);
    let (target, served) = (&upstream, &served);
    let call = |group: u8, tokens: u64| async move {
        let target = target.at_cost(Cost::input(tokens)).with_group(group);
        target.admit(Never).await.unwrap().succeeded();
        let mut sums = served.get();
        sums[usize::from(group) - 1] += tokens;
        served.set(sums);
    };
    let large = (0..20).map(|_| spawn(call(1, 9)));
    let mut waiters: Vec<_> = large.chain((0..150).map(|_| spawn(call(2, 1)))).collect();
    assert!(waiters.iter_mut().all(|waiter| waiter.poll().is_pending()));
    for _ in 0..180 {
        timer.advance(Duration::from_secs(1));
        while let Some(served) = first_ready(&mut waiters) {
            drop(waiters.remove(served));
        }
        let [large, small] = served.get();
        assert!(small.abs_diff(large) <= 9, "{large} and {small} tokens");
    }
    assert!(served.get().iter().all(|tokens| *tokens >= 80), "{served:?}");
}

/// A waiter becomes old while another one sleeps until its cost fits. The other one must not take
/// its turn and must not leave it asleep.
#[test]
fn a_waiter_that_grows_old_is_not_left_asleep() {
    const STEP: Duration = Duration::from_secs(75);
    let timer = ManualTimer::new();
    let quota = Quota::new().with_requests(Rate::new(1, STEP));
    let upstream = Upstream::new("model").with_quota(quota).with_timer(timer.clone());
    upstream.try_admit().unwrap().succeeded();
    let target = &upstream;
    let call = |name: u32, priority: u8| async move {
        let target = target.at_cost(Cost::new()).with_priority(priority);
        target.admit(Never).await.unwrap().succeeded();
        name
    };
    let mut waiters = Vec::new();
    let join = |waiters: &mut Vec<_>, old: u32, others: Range<u32>| {
        let calls = once(call(old, 0)).chain(others.map(|name| call(name, 1)));
        let first = waiters.len();
        waiters.extend(calls.map(spawn));
        assert!(waiters[first..].iter_mut().all(|waiter| waiter.poll().is_pending()));
    };
    join(&mut waiters, 100, 1..9);
    let mut turns = Vec::new();
    for turn in 1..=17 {
        timer.advance(STEP / 2);
        if turn == 9 {
            // The waiter is old in the middle of the eighth turn after this one.
            join(&mut waiters, 200, 9..19);
        }
        timer.advance(STEP / 2);
        let (place, name) = first_output(&mut waiters).expect("each refill serves a waiter");
        drop(waiters.remove(place));
        turns.push(name);
    }
    assert_eq!((turns[8], turns[16]), (100, 200), "{turns:?}");
}

/// Returns an upstream that takes ten requests a minute.
fn ten_a_minute() -> Upstream {
    Upstream::new("model").with_quota(Quota::new().with_requests(Rate::per_minute(10)))
}

/// Thirty calls at once, at ten a minute and with 121 s each. The eleventh is refused at 6 s, after it was sent,
/// and comes back at 60 s. Returns the second and the success of each end, by call.
async fn ends_around_a_refusal(upstream: &Upstream) -> Vec<(u64, bool)> {
    let (began, sent) = (Instant::now(), Cell::new(0));
    let policy = RetryPolicy::new()
        .with_total_timeout(Duration::from_secs(121))
        .with_backoff(Backoff::fixed(Duration::from_secs(54)).with_jitter(Jitter::None))
        .with_classifier(|_: &&str| Verdict::throttled());
    let calls = (0..30).map(|_| {
        let ask = async |_| {
            sent.set(sent.get() + 1);
            if sent.get() == 11 { Err("throttled") } else { Ok(()) }
        };
        let call = retry(ask, policy, Never).on(upstream);
        async move {
            let is_answered = call.await.is_ok();
            (began.elapsed().as_secs(), is_answered)
        }
    });
    join_all(calls).await
}

/// A call whose attempt was refused goes in front of those that were never sent.
#[tokio::test(start_paused = true)]
async fn a_retry_goes_in_front_of_first_attempts() {
    let ends = ends_around_a_refusal(&ten_a_minute()).await;
    assert!(ends[..10].iter().all(|end| *end == (0, true)), "{ends:?}");
    // Nothing flows in for 3.75 s, and then one request each 6 s.
    let before = ends[11..19].iter().zip((15..).step_by(6));
    let behind = ends[19..28].iter().zip((69..).step_by(6));
    for (end, second) in before.chain([(&ends[10], 63)]).chain(behind) {
        assert_eq!(*end, (second, true), "{ends:?}");
    }
}

/// After the refusal the last call cannot go in time. The retry that joins in front of the others at 60 s takes
/// the time of one more.
#[tokio::test(start_paused = true)]
async fn waiters_that_become_late_end_at_once() {
    let ends = ends_around_a_refusal(&ten_a_minute()).await;
    assert_eq!(ends[28..], [(60, false), (6, false)], "{ends:?}");
}

/// The retries of a group count as its share.
#[tokio::test(start_paused = true)]
async fn retries_delay_the_later_calls_of_their_group() {
    let quota = Quota::new().with_requests(Rate::per_second(1).with_burst(1));
    let upstream = Upstream::new("model").with_quota(quota);
    let (began, sent) = (Instant::now(), Cell::new([0_u32; 2]));
    let crowd = |group: usize| {
        let (upstream, sent) = (&upstream, &sent);
        let backoff = Backoff::fixed(Duration::ZERO).with_jitter(Jitter::None);
        let policy =
            RetryPolicy::new().with_attempts(4).with_backoff(backoff).with_classifier(Always);
        async move {
            while began.elapsed().as_secs() < 400 {
                let ask = async |_| {
                    // At the start no retry was counted yet, and at the end no call follows.
                    if (100..400).contains(&began.elapsed().as_secs()) {
                        let mut both = sent.get();
                        both[group] += 1;
                        sent.set(both);
                    }
                    if group == 0 { Err("down") } else { Ok(()) }
                };
                let target = upstream.at_cost(Cost::new()).with_group(group);
                let _ = retry(ask, policy, Never).on(target).await;
            }
        }
    };
    let crowds = (0..40).map(|caller| crowd(caller % 2));
    join_all(crowds).await;
    let [failing, other] = sent.get();
    assert!(other * 10 >= failing * 9, "{failing} and {other} attempts");
}

/// The numbers of waits and of refusals of the strains that have ended.
#[derive(Clone, Default)]
struct Strains(Arc<Mutex<Vec<[u64; 2]>>>);

impl Strains {
    /// Returns an upstream with this quota.
    fn upstream(&self, quota: Quota) -> Upstream {
        let ended = self.0.clone();
        Upstream::new("model").with_quota(quota).with_shared_observer(move |event: &Event<'_>| {
            if let EventKind::Relieved { times, refused, .. } = event.kind {
                ended.lock().unwrap().push([times - refused, refused]);
            }
        })
    }

    /// Makes a call after a minute of rest, and returns the strains that have ended.
    async fn after_a_rest(&self, upstream: &Upstream) -> Vec<[u64; 2]> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let answer = retry(async |_| Ok::<_, &str>(()), RetryPolicy::new(), Never).on(upstream);
        answer.await.unwrap();
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Of the 21 waits two end without an attempt.
#[tokio::test(start_paused = true)]
async fn waiters_that_become_late_count_as_refused_too() {
    let strains = Strains::default();
    let upstream = strains.upstream(Quota::new().with_requests(Rate::per_minute(10)));
    ends_around_a_refusal(&upstream).await;
    assert_eq!(strains.after_a_rest(&upstream).await, [[21, 2]]);
}

/// A wait for concurrency has no forecast, so the second call ends at its deadline.
#[tokio::test(start_paused = true)]
async fn waiters_that_reach_their_deadline_count_as_refused_too() {
    let strains = Strains::default();
    let upstream = strains.upstream(Quota::new().with_concurrency(1));
    let call = |seconds| {
        let seconds = Duration::from_secs(seconds);
        let policy = RetryPolicy::none().with_total_timeout(seconds);
        let ask = move |_| async move {
            tokio::time::sleep(seconds.mul_f64(0.999)).await;
            Ok::<_, &str>(())
        };
        retry(ask, policy, Never).on(&upstream)
    };
    let (first, second, third) = tokio::join!(call(5), call(3), call(20));
    // The third begins at 5 s and is cut.
    assert_eq!([first.is_ok(), second.is_ok(), third.is_ok()], [true, false, false]);
    assert_eq!(strains.after_a_rest(&upstream).await, [[2, 1]]);
}

/// Returns the seconds of the ends and their successes of thirty calls at once, at ten a minute and with 160 s
/// each. The eleventh is refused at 6 s with a hold of 54 s, and its answer says that nothing is left.
async fn ends_around_a_report(learning: Learning) -> Vec<(u64, bool)> {
    let quota = Quota::new().with_requests(Rate::per_minute(10)).with_learning(learning);
    let cooldown = Cooldown::new().with_jitter(0.0);
    let upstream = Upstream::new("model").with_quota(quota).with_cooldown(cooldown);
    let (began, sent) = (Instant::now(), Cell::new(0));
    let hold = Duration::from_secs(54);
    let policy = RetryPolicy::none()
        .with_total_timeout(Duration::from_secs(160))
        .with_classifier(move |_: &&str| Verdict::throttled().after(hold));
    let calls = (0..30).map(|_| {
        let ask = async |_| {
            sent.set(sent.get() + 1);
            if sent.get() != 11 {
                return Ok(());
            }
            let mut requests = Limit::of(10, None);
            requests.remaining = Some(0);
            learn(Limits::new().with(Dimension::Requests, requests));
            Err("throttled")
        };
        let call = retry(ask, policy, Never).on(&upstream);
        async move {
            let is_answered = call.await.is_ok();
            (began.elapsed().as_secs(), is_answered)
        }
    });
    join_all(calls).await
}

/// Nothing refills beyond the small burst of then while the cooldown holds all calls.
#[tokio::test(start_paused = true)]
async fn waiters_that_a_reported_level_and_a_hold_make_late_end_at_once() {
    let ends = ends_around_a_report(Learning::Lower).await;
    let late = ends.iter().filter(|end| **end == (6, false)).count();
    // The first of them is the refused one.
    assert_eq!(late, 1 + 2, "{ends:?}");
    assert!(ends[11..28].iter().all(|end| end.1), "{ends:?}");
}

/// Without learning all of the burst refills during the hold, so each call has its turn in time.
#[tokio::test(start_paused = true)]
async fn a_burst_that_refills_during_a_hold_counts_for_the_waiters() {
    let ends = ends_around_a_report(Learning::Off).await;
    assert_eq!(ends.iter().filter(|end| !end.1).count(), 1, "{ends:?}");
}

/// Another program uses the same key: a good answer says that less is left than this one has counted.
#[tokio::test(start_paused = true)]
async fn waiters_that_a_good_answer_makes_late_end_at_once() {
    let upstream = Upstream::new("model")
        .with_quota(Quota::new().with_tokens(Rate::per_second(1).with_burst(100)));
    let began = Instant::now();
    let call = |tokens, seconds, remaining| {
        let policy = RetryPolicy::none().with_total_timeout(Duration::from_secs(seconds));
        let ask = move |_| async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            learn(Limits::new().with(Dimension::Tokens, Limit::of_remaining(remaining)));
            Ok::<_, &str>(())
        };
        let call = retry(ask, policy, Never).on(upstream.at_cost(Cost::input(tokens)));
        async move { (call.await.is_ok(), began.elapsed().as_secs()) }
    };
    // The second one would fit at 10 s, and with the reported level at 95 s.
    let ends = tokio::join!(call(20, 100, 0), call(90, 50, 0), call(10, 100, 90));
    assert_eq!(ends, ((true, 5), (false, 5), (true, 20)));
}
