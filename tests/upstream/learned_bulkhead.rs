//! A bulkhead that learns its limit: what counts as a signal, and what an attempt at the limit gets.
//! `lab/storm` has the figures on models of servers.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::call::Admission;
use resile::classify::Always;
use resile::observe::{Event, EventKind};
use resile::time::{ManualTimer, Timer};
use resile::{Bulkhead, Health, Never, RetryPolicy, Upstream, Verdict, retry};

const MS: Duration = Duration::from_millis(1);

type Manual = Upstream<ManualTimer>;

fn learned(most: u32) -> (Manual, ManualTimer) {
    let timer = ManualTimer::with_seed(1);
    let upstream = Upstream::new("server").with_bulkhead(Bulkhead::learned(most));
    (upstream.with_observer(&()).with_timer(timer.clone()), timer)
}

fn limit<M: Timer>(upstream: &Upstream<M>) -> u32 {
    upstream.bulkhead().unwrap().limit()
}

/// Asks for twice as many attempts as the limit. Returns those that were admitted.
fn fill(upstream: &Manual) -> Vec<Admission<&Manual>> {
    (0..2 * limit(upstream)).filter_map(|_| upstream.try_admit().ok()).collect()
}

/// Runs rounds of attempts of `takes` that fill the bulkhead.
fn answer(upstream: &Manual, timer: &ManualTimer, takes: Duration, rounds: u32) {
    for _ in 0..rounds {
        let attempts = fill(upstream);
        timer.advance(takes);
        attempts.into_iter().for_each(Admission::succeeded);
    }
}

#[test]
fn the_first_limit_is_twenty_or_the_most() {
    for (most, first) in [(0, 0), (1, 1), (19, 19), (20, 20), (500, 20), (u32::MAX, 20)] {
        let (upstream, _) = learned(most);
        let attempts = fill(&upstream);
        let bulkhead = upstream.bulkhead().unwrap();
        assert_eq!(
            (limit(&upstream), attempts.len(), bulkhead.queue()),
            (first, first as usize, first)
        );
        assert_eq!(bulkhead.in_flight(), first);
        drop(attempts);
        assert_eq!(bulkhead.in_flight(), 0);
    }
}

#[test]
fn refusals_of_attempts_that_began_before_a_cut_do_not_cut_again() {
    let (upstream, timer) = learned(100);
    let attempts = fill(&upstream);
    timer.advance(MS);
    for attempt in attempts {
        attempt.settle(&Verdict::throttled());
    }
    assert_eq!(limit(&upstream), 18);
    // These began after the cut, and before the next one.
    timer.advance(MS);
    let attempts = fill(&upstream);
    assert_eq!(attempts.len(), 18);
    timer.advance(MS);
    for attempt in attempts {
        attempt.settle(&Verdict::throttled());
    }
    assert_eq!(limit(&upstream), 16);
}

/// A hint is the wait of one call. It neither delays nor repeats a cut.
#[test]
fn a_hint_changes_no_cut() {
    let (upstream, timer) = learned(100);
    let hinted = Verdict::throttled().after(Duration::from_secs(1_800));
    for expected in [18, 16, 14, 12] {
        timer.advance(MS);
        let attempt = upstream.try_admit().unwrap();
        timer.advance(MS);
        attempt.settle(&hinted);
        assert_eq!(limit(&upstream), expected);
    }
}

#[test]
fn a_limit_never_falls_below_one_or_rises_above_the_most() {
    let (upstream, timer) = learned(30);
    answer(&upstream, &timer, MS, 200);
    assert!((27..=30).contains(&limit(&upstream)), "{}", limit(&upstream));
    for _ in 0..100 {
        timer.advance(MS);
        let attempt = upstream.try_admit().unwrap();
        timer.advance(MS);
        attempt.settle(&Verdict::throttled());
    }
    assert_eq!(limit(&upstream), 1);
    // Its last good limit is 1 too.
    answer(&upstream, &timer, MS, 10);
    assert_eq!(limit(&upstream), 4);
}

#[test]
fn a_limit_waits_below_the_one_that_was_refused() {
    let (upstream, timer) = learned(100);
    answer(&upstream, &timer, MS, 2);
    timer.advance(MS);
    let refused = limit(&upstream);
    let mut attempts = fill(&upstream);
    timer.advance(MS);
    attempts.pop().unwrap().settle(&Verdict::throttled());
    drop(attempts);
    let mut seen = Vec::new();
    for _ in 0..12 {
        seen.push(limit(&upstream));
        answer(&upstream, &timer, MS, 1);
    }
    let (cut, good) = (refused * 9 / 10, refused - 1);
    let climb = (cut..good).chain(std::iter::repeat_n(good, 8)).chain(refused..);
    assert_eq!(seen, climb.take(12).collect::<Vec<_>>());
}

#[test]
fn what_shows_nothing_moves_nothing() {
    let (upstream, timer) = learned(100);
    let unknown = Verdict::transient().with_health(Health::Unknown);
    for way in 0..5 {
        for _ in 0..200 {
            let attempts = fill(&upstream);
            for attempt in attempts {
                match way {
                    0 => drop(attempt),
                    1 => attempt.settle(&unknown),
                    2 => attempt.withdraw(),
                    // At the instant of its start: the answer of a cache.
                    3 => attempt.succeeded(),
                    // A refused connection, in no time.
                    _ => attempt.settle(&Verdict::transient()),
                }
            }
            timer.advance(MS);
        }
        assert_eq!(limit(&upstream), 20, "{way}");
    }
}

#[test]
fn a_limit_that_is_not_reached_stays_while_it_is_low_and_falls_while_it_is_high() {
    let (upstream, timer) = learned(1_000);
    answer(&upstream, &timer, MS, 200);
    let high = limit(&upstream);
    assert!(high > 500, "{high}");
    // Ten at once are enough now.
    for _ in 0..20_000 {
        let attempts: Vec<_> = (0..10).map(|_| upstream.try_admit().unwrap()).collect();
        timer.advance(MS);
        attempts.into_iter().for_each(Admission::succeeded);
    }
    assert!((17..=30).contains(&limit(&upstream)), "{}", limit(&upstream));
    // Nothing at all changes nothing.
    let before = limit(&upstream);
    timer.advance(Duration::from_secs(86_400));
    assert_eq!(limit(&upstream), before);
}

/// Twice of what is used is room for a burst.
#[test]
fn a_limit_keeps_room_for_a_burst() {
    let (upstream, timer) = learned(1_000);
    answer(&upstream, &timer, MS, 200);
    for _ in 0..2_000 {
        let attempts: Vec<_> = (0..100).filter_map(|_| upstream.try_admit().ok()).collect();
        assert_eq!(attempts.len(), 100);
        timer.advance(MS);
        attempts.into_iter().for_each(Admission::succeeded);
    }
    assert!((180..=240).contains(&limit(&upstream)), "{}", limit(&upstream));
}

#[test]
fn a_rise_admits_waiters_and_a_cut_admits_none() {
    let (upstream, timer) = learned(100);
    let mut attempts = fill(&upstream);
    let mut waiters: Vec<_> = (0..20).map(|_| Box::pin(upstream.admit(Never))).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let mut admitted = |waiters: &mut Vec<Pin<Box<_>>>| {
        let mut some = Vec::new();
        waiters.retain_mut(|waiter: &mut Pin<Box<resile::call::Admitting<&Manual>>>| {
            match waiter.as_mut().poll(&mut cx) {
                Poll::Ready(admission) => some.push(admission.unwrap()),
                Poll::Pending => return true,
            }
            false
        });
        some
    };
    assert!(admitted(&mut waiters).is_empty());
    timer.advance(MS);
    attempts.pop().unwrap().settle(&Verdict::throttled());
    attempts.pop().unwrap().settle(&Verdict::throttled());
    // Two permits are back, and two are above the limit of 18.
    assert!(admitted(&mut waiters).is_empty());
    let bulkhead = upstream.bulkhead().unwrap();
    assert_eq!((bulkhead.limit(), bulkhead.in_flight(), bulkhead.waiting()), (18, 18, 20));
    attempts.pop().unwrap().succeeded();
    assert_eq!(admitted(&mut waiters).len(), 1);
    for attempt in attempts {
        attempt.succeeded();
    }
    // The round of 18 answers has raised the limit by one, so each of the other waiters has a permit.
    let late = admitted(&mut waiters);
    assert_eq!((late.len(), bulkhead.limit(), bulkhead.in_flight()), (19, 19, 19));
    drop((late, waiters));
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_on_a_learned_bulkhead_teaches_it() {
    static SERVER: Upstream =
        Upstream::new("server").with_bulkhead(Bulkhead::learned(64)).with_observer(&());
    let call = || async {
        let ask = async {
            tokio::time::sleep(MS).await;
            Ok::<_, std::io::Error>(())
        };
        SERVER.call(ask, Always).await.unwrap();
    };
    for _ in 0..20 {
        futures_util::future::join_all((0..40).map(|_| call())).await;
    }
    assert!(limit(&SERVER) >= 40, "{}", limit(&SERVER));
    assert_eq!(SERVER.bulkhead().unwrap().in_flight(), 0);
}

const ONCE: RetryPolicy = RetryPolicy::none().with_attempt_timeout(Duration::from_secs(1));

/// Makes twice as many calls as the limit at once, on a server that answers in 10 ms or hangs.
async fn fill_with_calls(server: &Upstream, hangs: bool) {
    let ask = async |_| {
        if hangs {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(10 * MS).await;
        Ok::<_, std::io::Error>(())
    };
    let calls = (0..2 * limit(server)).map(|_| retry(ask, ONCE, Never).on(server));
    futures_util::future::join_all(calls).await;
}

/// If an attempt that its call cuts taught nothing, a limit at which each attempt is cut would stay for
/// ever.
#[tokio::test(start_paused = true)]
async fn a_limit_falls_to_the_first_one_while_attempts_are_cut() {
    let server = Upstream::new("server").with_bulkhead(Bulkhead::learned(500)).with_observer(&());
    for _ in 0..100 {
        fill_with_calls(&server, false).await;
    }
    let before = limit(&server);
    assert!(before > 300, "{before}");
    for _ in 0..10 {
        fill_with_calls(&server, true).await;
    }
    let soon = limit(&server);
    assert!(soon < before * 9 / 10 && soon > before / 5, "{soon} of {before}");
    for _ in 0..100 {
        fill_with_calls(&server, true).await;
    }
    // A limit alternates by 12 %.
    assert!((17..=23).contains(&limit(&server)), "{}", limit(&server));
    for _ in 0..100 {
        fill_with_calls(&server, false).await;
    }
    assert!(limit(&server) > 100, "{}", limit(&server));
}

/// The slope needs hundreds of attempts for a step, and a low limit has few.
#[tokio::test(start_paused = true)]
async fn a_limit_that_was_refused_rises_by_rounds_also_after_cut_attempts() {
    let server = Upstream::new("server").with_bulkhead(Bulkhead::learned(500)).with_observer(&());
    fill_with_calls(&server, false).await;
    while limit(&server) > 1 {
        tokio::time::advance(MS).await;
        let attempt = server.try_admit().unwrap();
        tokio::time::advance(MS).await;
        attempt.settle(&Verdict::throttled());
    }
    for _ in 0..3 {
        fill_with_calls(&server, true).await;
    }
    assert_eq!(limit(&server), 1);
    for _ in 0..40 {
        fill_with_calls(&server, false).await;
    }
    assert!(limit(&server) > 20, "{}", limit(&server));
}

#[test]
fn an_attempt_allocates_nothing() {
    let (upstream, timer) = learned(100);
    drop(upstream.try_admit());
    let counted = allocation_counter::measure(|| {
        for _ in 0..10 {
            let attempt = upstream.try_admit().unwrap();
            timer.advance(MS);
            attempt.succeeded();
        }
    });
    assert_eq!(counted.count_total, 0);
}

proptest! {
    /// No step admits above the limit, and all permits come back.
    #[test]
    fn no_attempt_is_admitted_above_the_limit(most in 1..60_u32, steps in prop::collection::vec((0..6_u8, 0..1_000_usize), 1..600)) {
        let (upstream, timer) = learned(most);
        let bulkhead = upstream.bulkhead().unwrap();
        let mut attempts = Vec::new();
        for (step, at) in steps {
            if step < 3 {
                let before = (bulkhead.in_flight(), bulkhead.limit());
                match upstream.try_admit() {
                    Ok(attempt) => {
                        prop_assert!(before.0 < before.1);
                        attempts.push(attempt);
                    }
                    Err(_) => prop_assert!(before.0 >= before.1),
                }
            } else if !attempts.is_empty() {
                let attempt = attempts.swap_remove(at % attempts.len());
                timer.advance(MS * u32::try_from(at % 7).unwrap());
                match step {
                    3 => attempt.succeeded(),
                    4 => attempt.settle(&Verdict::throttled()),
                    _ => drop(attempt),
                }
            }
            prop_assert_eq!(bulkhead.in_flight() as usize, attempts.len());
            prop_assert!((1..=most).contains(&bulkhead.limit()));
        }
        drop(attempts);
        prop_assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    }
}

/// Each cut is one event, with the limits before and after. A second refusal of the same epoch is none.
#[test]
fn a_cut_is_one_event() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let observer = move |event: &Event<'_>| {
        if let EventKind::Lowered { before, after, .. } = event.kind {
            assert_eq!((event.gauges.limit, event.call.is_none()), (Some(after), true));
            sink.lock().unwrap().push((before, after, event.to_string()));
        }
    };
    let timer = ManualTimer::with_seed(1);
    let upstream = Upstream::new("server").with_bulkhead(Bulkhead::learned(100));
    let upstream = upstream.with_shared_observer(observer).with_timer(timer.clone());
    for _ in 0..40 {
        let attempts = fill(&upstream);
        timer.advance(MS);
        for attempt in attempts {
            attempt.settle(&Verdict::throttled());
        }
        timer.advance(MS);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(
        seen[0].2,
        "server: bulkhead limit lowered from 20 to 18: the upstream refused an attempt"
    );
    // From 20 down to 1, and at 1 there is nothing to lower.
    assert!(seen.windows(2).all(|pair| pair[0].1 == pair[1].0) && seen.last().unwrap().1 == 1);
    assert!(seen.len() < 20);
}
