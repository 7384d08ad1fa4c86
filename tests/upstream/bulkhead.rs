//! `resile::Bulkhead`: a limit on calls in flight, with a bounded queue in the order of arrival.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::classify::Always;
use resile::{Bulkhead, Health, Never, ResilienceExt, StopReason, Upstream, Verdict};

use super::by_hand::{Acquire, Gate, Permit};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_free_bulkhead_allocates_nothing() {
    let bulkhead = Gate::of(Bulkhead::new(2));
    let counted = allocation_counter::measure(|| {
        let _other = bulkhead.try_acquire();
        let call = async { Ok::<_, &str>(bulkhead.in_flight()) };
        let call = pin!(call.through(bulkhead.upstream(), Always));
        assert_eq!(poll(call), Poll::Ready(Ok(2)));
        assert!(poll(pin!(bulkhead.upstream().admit(Never))).is_ready());
    });
    assert_eq!((counted.count_total, bulkhead.in_flight()), (0, 0));
}

#[test]
fn a_limit_of_zero_refuses_every_call() {
    let bulkhead = Gate::of(Bulkhead::new(0).with_queue(5));
    let Poll::Ready(Err(full)) = poll(pin!(bulkhead.acquire())) else {
        panic!("the call waits for ever")
    };
    assert_eq!((full.limit, full.waiting, bulkhead.queue()), (0, 0, 0));
}

#[test]
fn the_greatest_numbers_are_allowed() {
    let bulkhead = Gate::of(Bulkhead::new(u32::MAX).with_queue(u32::MAX));
    let permit = bulkhead.try_acquire();
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (1, 0));
    drop(permit);
    assert_eq!(bulkhead.in_flight(), 0);
}

#[test]
fn the_permit_is_released_when_the_future_is_done() {
    let bulkhead = Gate::of(Bulkhead::new(1));
    let mut call = pin!(async { Ok::<_, &str>(()) }.through(bulkhead.upstream(), Always));
    assert!(poll(call.as_mut()).is_ready());
    assert_eq!(bulkhead.in_flight(), 0);
}

/// The next caller may start as soon as the permit is free. The finished future must be dropped by
/// then.
#[test]
fn the_future_is_dropped_before_its_permit_is_released() {
    struct Op<'a> {
        bulkhead: &'a Bulkhead,
        seen: &'a Cell<u32>,
        ends: bool,
    }
    impl Future for Op<'_> {
        type Output = Result<(), &'static str>;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
            if self.ends { Poll::Ready(Ok(())) } else { Poll::Pending }
        }
    }
    impl Drop for Op<'_> {
        fn drop(&mut self) {
            self.seen.set(self.bulkhead.in_flight());
        }
    }
    for ends in [true, false] {
        let (bulkhead, seen) = (Gate::of(Bulkhead::new(1)), Cell::new(7));
        let op = Op { bulkhead: &bulkhead, seen: &seen, ends };
        let _ = poll(pin!(op.through(bulkhead.upstream(), Always)));
        assert_eq!((seen.get(), bulkhead.in_flight()), (1, 0));
    }
}

#[test]
fn a_new_caller_does_not_overtake_a_waiter() {
    let bulkhead = Gate::of(Bulkhead::new(1));
    let permit = bulkhead.try_acquire().unwrap();
    let mut waits = pin!(bulkhead.acquire());
    assert!(poll(waits.as_mut()).is_pending());
    drop(permit);
    assert!(bulkhead.try_acquire().is_err()); // the permit belongs to the waiter, although it was not polled yet
    assert!(poll(waits).is_ready());
}

#[test]
fn only_the_next_waiter_is_woken() {
    let bulkhead = Gate::of(Bulkhead::new(1).with_queue(2));
    let woken = [Arc::new(Woken::default()), Arc::new(Woken::default())];
    let permit = bulkhead.try_acquire().unwrap();
    let mut waiters = [bulkhead.acquire(), bulkhead.acquire()];
    for (waiter, woken) in waiters.iter_mut().zip(&woken) {
        let waker = Waker::from(Arc::clone(woken));
        assert!(Pin::new(&mut *waiter).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(Pin::new(waiter).poll(&mut Context::from_waker(&waker)).is_pending()); // the last waker counts
    }
    drop(permit);
    assert_eq!(woken.each_ref().map(|it| it.0.load(Ordering::Relaxed)), [1, 0]);
    let [first, second] = waiters;
    drop(first); // it was woken, and is dropped before its poll
    assert_eq!(woken.each_ref().map(|it| it.0.load(Ordering::Relaxed)), [1, 1]);
    drop(second);
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
}

/// No lock is held while a waker runs, so the waker may use the bulkhead.
#[test]
fn a_waker_may_use_the_bulkhead() {
    static BULKHEAD: LazyLock<Gate> = LazyLock::new(|| Gate::of(Bulkhead::new(1).with_queue(1)));
    struct Enters;
    impl Wake for Enters {
        fn wake(self: Arc<Self>) {
            let _ = poll(pin!(BULKHEAD.acquire()));
        }
    }
    impl Drop for Enters {
        fn drop(&mut self) {
            let _ = poll(pin!(BULKHEAD.acquire()));
        }
    }
    let permit = BULKHEAD.try_acquire().unwrap();
    let mut waits = pin!(BULKHEAD.acquire());
    assert!(
        waits.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Enters)))).is_pending()
    );
    assert!(poll(waits.as_mut()).is_pending()); // drops that waker
    assert!(
        waits.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Enters)))).is_pending()
    );
    drop(permit);
    assert!(poll(waits).is_ready());
}

#[test]
fn a_panic_releases_the_permit() {
    let bulkhead = Gate::of(Bulkhead::new(1));
    let call = async {
        if bulkhead.in_flight() == 1 { panic!("in the operation") } else { Ok::<(), &str>(()) }
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        poll(pin!(call.through(bulkhead.upstream(), Always)))
    }));
    assert!(outcome.is_err());
    assert_eq!(bulkhead.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_tasks_never_exceed_the_limit() {
    static HOST: Upstream =
        Upstream::new("host").with_bulkhead(Bulkhead::new(3).with_queue(97)).with_observer(&());
    static IN: AtomicU32 = AtomicU32::new(0);
    async fn work() -> Result<(), &'static str> {
        assert!(IN.fetch_add(1, Ordering::Relaxed) < 3);
        tokio::time::sleep(Duration::from_secs(1)).await;
        IN.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
    let began = tokio::time::Instant::now();
    let tasks: Vec<_> = (0..120).map(|_| tokio::spawn(work().through(&HOST, Always))).collect();
    let mut refused = 0;
    for task in tasks {
        if let Err(error) = task.await.unwrap() {
            assert!(
                error.to_string().ends_with("bulkhead full: 3 in flight, 97 queued"),
                "{error}"
            );
            let not_asked = Verdict::transient().with_health(Health::Unknown).not_sent();
            assert_eq!((error.reason(), error.verdict()), (StopReason::Full, Some(not_asked)));
            refused += 1;
        }
    }
    assert_eq!((refused, began.elapsed().as_secs()), (20, 34));
    let bulkhead = HOST.bulkhead().unwrap();
    assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
}

/// A call that is dropped at any await leaves neither a permit nor a place in the queue behind.
#[test]
fn a_call_dropped_at_any_await_leaves_nothing_behind() {
    for polls in 0..5 {
        let bulkhead = Gate::of(Bulkhead::new(1));
        let mut held = bulkhead.try_acquire().ok();
        let mut behind = bulkhead.acquire();
        {
            let op = async {
                tokio::task::yield_now().await;
                Ok::<_, &str>(())
            };
            let mut call = pin!(op.through(bulkhead.upstream(), Always));
            for n in 0..polls {
                if n == 1 {
                    held = None; // the permit goes to the call
                }
                if poll(call.as_mut()).is_ready() {
                    break;
                }
            }
            if polls == 1 {
                held = None; // woken, and dropped before its next poll
            }
        }
        drop(held);
        assert!(poll(Pin::new(&mut behind)).is_ready(), "after {polls} polls");
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0), "after {polls} polls");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire,
    Try,
    Release(prop::sample::Index),
    Poll(prop::sample::Index),
    GiveUp(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Acquire),
        1 => Just(Step::Try),
        3 => any::<prop::sample::Index>().prop_map(Step::Release),
        2 => any::<prop::sample::Index>().prop_map(Step::Poll),
        2 => any::<prop::sample::Index>().prop_map(Step::GiveUp),
    ]
}

/// The model: the queue of names, and the names that own a permit but were not polled yet.
#[derive(Default)]
struct Model {
    held: usize,
    queued: VecDeque<u32>,
    granted: Vec<u32>,
}

impl Model {
    fn leave(&mut self) {
        match self.queued.pop_front() {
            Some(name) => self.granted.push(name),
            None => self.held -= 1,
        }
    }
}

proptest! {
    #[test]
    fn the_queue_is_bounded_and_first_come_first_served(limit in 0..4_u32, queue in 0..4_u32, steps in prop::collection::vec(step(), 1..80)) {
        let bulkhead = Gate::of(Bulkhead::new(limit).with_queue(queue));
        let (limit, queue) = (limit as usize, bulkhead.queue() as usize);
        let mut model = Model::default(); // `held` includes the granted permits
        let (mut permits, mut waiters) = (Vec::<Permit<'_>>::new(), Vec::<(u32, Acquire<'_>)>::new());
        let mut name = 0;
        for step in steps {
            match step {
                Step::Acquire => {
                    name += 1;
                    let mut acquire = bulkhead.acquire();
                    match poll(Pin::new(&mut acquire)) {
                        Poll::Ready(Ok(permit)) => {
                            prop_assert!(model.held < limit);
                            model.held += 1;
                            permits.push(permit);
                        }
                        Poll::Ready(Err(full)) => {
                            prop_assert!(model.held == limit && model.queued.len() == queue);
                            prop_assert_eq!((full.limit as usize, full.waiting as usize), (limit, queue));
                        }
                        Poll::Pending => {
                            prop_assert!(model.held == limit && model.queued.len() < queue);
                            model.queued.push_back(name);
                            waiters.push((name, acquire));
                        }
                    }
                }
                Step::Try => match bulkhead.try_acquire() {
                    Ok(permit) => {
                        prop_assert!(model.held < limit);
                        model.held += 1;
                        permits.push(permit);
                    }
                    Err(_) => prop_assert!(model.held == limit),
                },
                Step::Release(at) if !permits.is_empty() => {
                    drop(permits.swap_remove(at.index(permits.len())));
                    model.leave();
                }
                Step::Poll(at) if !waiters.is_empty() => {
                    let at = at.index(waiters.len());
                    let (name, acquire) = &mut waiters[at];
                    let granted = model.granted.iter().position(|it| it == name);
                    match poll(Pin::new(acquire)) {
                        Poll::Ready(permit) => {
                            prop_assert!(granted.is_some());
                            model.granted.remove(granted.unwrap());
                            permits.push(permit.unwrap());
                            drop(waiters.remove(at));
                        }
                        Poll::Pending => prop_assert!(granted.is_none()),
                    }
                }
                Step::GiveUp(at) if !waiters.is_empty() => {
                    let (name, acquire) = waiters.remove(at.index(waiters.len()));
                    drop(acquire);
                    if let Some(at) = model.granted.iter().position(|it| *it == name) {
                        model.granted.remove(at);
                        model.leave();
                    } else {
                        model.queued.retain(|it| *it != name);
                    }
                }
                _ => {}
            }
            prop_assert_eq!(bulkhead.in_flight() as usize, model.held);
            prop_assert_eq!(bulkhead.waiting() as usize, model.queued.len());
        }
        drop((permits, waiters));
        prop_assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0));
    }
}
