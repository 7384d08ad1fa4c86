//! The line of a bulkhead: its order, its priorities, and what it refuses at once.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::call::{Admission, Admitting};
use resile::classify::Always;
use resile::quota::Rate;
use resile::time::ManualTimer;
use resile::upstream::AtCost;
use resile::{Bulkhead, Never, Quota, ResilienceExt, StopReason, Upstream};

const MS: Duration = Duration::from_millis(1);

type Manual = Upstream<ManualTimer>;
type At<'u> = AtCost<'static, &'u Manual>;
type Waiter<'u> = Pin<Box<Admitting<At<'u>>>>;
type Permit<'u> = Admission<At<'u>>;

fn limited(limit: u32, queue: u32) -> (Manual, ManualTimer) {
    let timer = ManualTimer::with_seed(1);
    let bulkhead = Bulkhead::new(limit).with_queue(queue);
    let upstream = Upstream::new("server").with_bulkhead(bulkhead).with_observer(&());
    (upstream.with_timer(timer.clone()), timer)
}

fn waiter(upstream: &Manual, priority: u8) -> Waiter<'_> {
    Box::pin(upstream.at_priority(priority).admit(Never))
}

/// Returns the permit of a waiter, or the reason of its refusal.
fn poll<'u>(waiter: &mut Waiter<'u>) -> Poll<Result<Permit<'u>, StopReason>> {
    let polled = waiter.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    polled.map(|admitted| admitted.map_err(|refused| refused.reason()))
}

fn seen(upstream: &Manual) -> (u32, u32) {
    let bulkhead = upstream.bulkhead().unwrap();
    (bulkhead.in_flight(), bulkhead.waiting())
}

/// A server that holds each permit for `hold`, and the calls in its line.
struct Server<'u> {
    upstream: &'u Manual,
    timer: &'u ManualTimer,
    hold: Duration,
    inside: Vec<(Duration, Permit<'u>)>,
    /// The waiters with their numbers.
    line: Vec<(usize, Waiter<'u>)>,
    now: Duration,
    /// The numbers of the calls in the order of their permits.
    served: Vec<usize>,
    refused: Vec<(usize, StopReason)>,
}

impl<'u> Server<'u> {
    fn new(upstream: &'u Manual, timer: &'u ManualTimer, hold: Duration) -> Self {
        let now = Duration::ZERO;
        let (inside, line, served, refused) = Default::default();
        Self { upstream, timer, hold, inside, line, now, served, refused }
    }

    fn arrive(&mut self, number: usize, priority: u8) {
        self.line.push((number, waiter(self.upstream, priority)));
        self.settle();
    }

    /// Polls all waiters.
    fn settle(&mut self) {
        let now = self.now;
        self.line.retain_mut(|(number, waiter)| match poll(waiter) {
            Poll::Pending => true,
            Poll::Ready(Ok(permit)) => {
                self.inside.push((now + self.hold, permit));
                self.served.push(*number);
                false
            }
            Poll::Ready(Err(reason)) => {
                self.refused.push((*number, reason));
                false
            }
        });
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        self.timer.advance(by);
        self.inside.retain(|(ends, _)| *ends > self.now);
        self.settle();
    }
}

#[test]
fn a_line_that_moves_serves_the_oldest_and_another_one_the_newest() {
    let (upstream, timer) = limited(2, 100);
    // 2 permits of 100 ms, and a call each 50 ms after a first burst: the line moves.
    let mut server = Server::new(&upstream, &timer, MS * 100);
    for number in 0..40 {
        server.arrive(number, 0);
        if number > 3 {
            server.advance(MS * 50);
        }
    }
    assert!(server.served.is_sorted(), "{:?}", server.served);
    // A burst that takes seconds. The newest calls are served, and the rest after them.
    (100..140).for_each(|number| server.arrive(number, 0));
    (0..5).for_each(|_| server.advance(MS * 100));
    for number in 200..230 {
        server.arrive(number, 0);
        server.advance(MS * 50);
    }
    let late: Vec<_> = server.served.iter().filter(|number| **number >= 200).collect();
    assert!(late.len() > 26 && late.is_sorted(), "{late:?}");
    while seen(&upstream) != (0, 0) {
        server.advance(MS * 50);
    }
    assert_eq!((server.served.len(), server.refused.len()), (40 + 40 + 30, 0));
}

/// In an overload a full line with an order of arrival serves only calls that have waited long. Here most
/// served calls are new ones.
#[test]
fn an_overload_serves_fresh_calls() {
    let (upstream, timer) = limited(10, 50);
    let mut server = Server::new(&upstream, &timer, MS * 100);
    let mut arrived = Vec::new();
    let mut waits = Vec::new();
    for number in 0..4_000 {
        arrived.push(server.now);
        let before = server.served.len();
        server.arrive(number, 0);
        server.advance(MS * 5); // twice of what the permits can do
        for served in &server.served[before..] {
            waits.push(server.now.saturating_sub(arrived[*served]));
        }
    }
    waits.sort();
    let (median, all) = (waits[waits.len() / 2], waits.len());
    assert!(median <= MS * 25 && all >= 1_950, "{median:?} {all}");
    assert!(server.refused.iter().all(|(_, reason)| *reason == StopReason::Full));
}

/// Low priority comes at twelve times its rate. Calls of a high priority keep their permits.
#[test]
fn a_high_priority_keeps_its_calls() {
    let (upstream, timer) = limited(10, 10);
    let mut server = Server::new(&upstream, &timer, MS * 100);
    let is_high = |number: usize| number % 13 == 0;
    for number in 0..13_000 {
        server.arrive(number, if is_high(number) { 9 } else { 1 });
        server.advance(MS * 13 / 8); // high: 47 a second of 100
    }
    let lost = server.refused.iter().filter(|(number, _)| is_high(*number)).count();
    assert!(lost * 1_000 <= 1_000 * 6, "{lost} of 1,000");
    let low = server.served.iter().filter(|number| !is_high(**number)).count();
    assert!((800..1_400).contains(&low), "{low}");
}

#[test]
fn a_call_that_cannot_begin_in_time_is_refused_at_once() {
    let (upstream, timer) = limited(2, 100);
    let mut server = Server::new(&upstream, &timer, MS * 100);
    server.arrive(0, 0);
    server.advance(MS * 50);
    (1..4).for_each(|number| server.arrive(number, 0));
    for number in 4..20 {
        server.advance(MS * 50);
        server.arrive(number, 0);
    }
    // A call is served each 50 ms, and the line moves.
    assert_eq!((seen(&upstream), server.served.len()), ((2, 2), 18));
    assert!(server.served.is_sorted());
    let begin = |total: Duration| {
        let call = upstream.call(ready(Ok::<_, &str>(1)), Always).with_total_timeout(total);
        let mut call = Box::pin(call);
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => Some(ended.unwrap_err()),
            Poll::Pending => None,
        }
    };
    let refused = begin(MS * 100).expect("three turns take 150 ms");
    assert_eq!((refused.reason(), refused.attempts()), (StopReason::Deadline, 0));
    assert!(refused.retry_after().is_some_and(|wait| wait >= MS * 140 && wait <= MS * 160));
    assert!(begin(MS * 200).is_none());
    // A call of a higher priority is first.
    let call = ready(Ok::<_, &str>(1)).through(upstream.at_priority(1), Always);
    let mut call = Box::pin(call.with_total_timeout(MS * 80));
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(seen(&upstream), (2, 3));
}

/// The estimate is that of the current line. Without waiters no call is refused for its deadline.
#[test]
fn a_slow_hour_does_not_refuse_calls_of_the_next() {
    let (upstream, timer) = limited(1, 10);
    let mut server = Server::new(&upstream, &timer, Duration::from_secs(600));
    (0..6).for_each(|number| server.arrive(number, 0));
    (0..6).for_each(|_| server.advance(Duration::from_secs(600)));
    assert_eq!(seen(&upstream), (0, 0));
    let permit = upstream.try_admit().unwrap();
    let call = upstream.call(ready(Ok::<_, &str>(1)), Always).with_total_timeout(MS);
    let mut call = Box::pin(call);
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(permit);
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// A call within an attempt has the priority of the attempt, on another upstream too.
#[test]
fn a_call_within_an_attempt_has_its_priority() {
    let (outer, _) = limited(10, 0);
    for (own, around, is_first) in [(0, 0, false), (0, 5, true), (1, 5, false), (7, 0, true)] {
        let (inner, _) = limited(1, 10);
        let permit = inner.try_admit().unwrap();
        let mut other = waiter(&inner, 4);
        assert!(poll(&mut other).is_pending());
        let call = async {
            let call = ready(Ok::<_, &str>(1)).through(inner.at_priority(own), Always);
            call.await.map_err(|_| "refused")
        };
        let mut call = Box::pin(call.through(outer.at_priority(around), Always));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut cx).is_pending());
        drop(permit);
        assert_eq!(call.as_mut().poll(&mut cx).is_ready(), is_first, "{own} {around}");
        drop(call);
        assert!(poll(&mut other).is_ready());
    }
}

/// The quota has the same word for the same thing, and inherits it too.
#[test]
fn the_quota_takes_the_inherited_priority() {
    let (outer, _) = limited(10, 0);
    let timer = ManualTimer::with_seed(1);
    let inner = Upstream::new("model").with_quota(Quota::new().with_requests(Rate::per_second(1)));
    let inner = inner.with_observer(&()).with_timer(timer.clone());
    inner.try_admit().unwrap().succeeded();
    let mut other = waiter(&inner, 4);
    assert!(poll(&mut other).is_pending());
    let call =
        async { ready(Ok::<_, &str>(1)).through(&inner, Always).await.map_err(|_| "refused") };
    let mut call = Box::pin(call.through(outer.at_priority(5), Always));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_pending());
    timer.advance(Duration::from_secs(1));
    assert!(poll(&mut other).is_pending());
    assert!(call.as_mut().poll(&mut cx).is_ready());
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(u8),
    Poll(prop::sample::Index),
    Leave(prop::sample::Index),
    Release(prop::sample::Index),
    Advance(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_u8).prop_map(Step::Arrive),
        4 => any::<prop::sample::Index>().prop_map(Step::Poll),
        1 => any::<prop::sample::Index>().prop_map(Step::Leave),
        3 => any::<prop::sample::Index>().prop_map(Step::Release),
        3 => (0..500_u16).prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Whatever joins, loses its place, leaves and is released: no permit is lost, none is given twice,
    /// no permit is idle while a call waits, and the line is never longer than its limit.
    #[test]
    fn no_permit_is_lost(limit in 1..4_u32, queue in 0..5_u32, steps in steps()) {
        let (upstream, timer) = limited(limit, queue);
        let (mut line, mut inside) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Arrive(priority) => {
                    let mut new = waiter(&upstream, priority);
                    match poll(&mut new) {
                        Poll::Pending => line.push(new),
                        Poll::Ready(Ok(permit)) => inside.push(permit),
                        Poll::Ready(Err(_)) => prop_assert_eq!(seen(&upstream), (limit, queue)),
                    }
                }
                Step::Poll(index) if !line.is_empty() => {
                    let index = index.index(line.len());
                    match poll(&mut line[index]) {
                        Poll::Pending => {}
                        Poll::Ready(admitted) => {
                            drop(line.remove(index));
                            inside.extend(admitted.ok());
                        }
                    }
                }
                Step::Leave(index) if !line.is_empty() => drop(line.remove(index.index(line.len()))),
                Step::Release(index) if !inside.is_empty() => {
                    drop(inside.remove(index.index(inside.len())));
                }
                Step::Advance(ms) => timer.advance(MS * u32::from(ms)),
                _ => {}
            }
            let (in_flight, waiting) = seen(&upstream);
            prop_assert!(in_flight <= limit && waiting <= queue);
            prop_assert!(inside.len() <= in_flight as usize && waiting as usize <= line.len());
            prop_assert!(waiting == 0 || in_flight == limit);
        }
        drop((line, inside));
        prop_assert_eq!(seen(&upstream), (0, 0));
    }
}
