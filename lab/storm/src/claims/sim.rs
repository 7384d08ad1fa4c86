//! The core of every model: an agenda of events, and random numbers.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Memory};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use resile::time::{ManualTimer, Timer};

use super::Progress;

/// Events in order of time. Events of the same time keep the order of their creation.
pub struct Agenda<E> {
    now: Duration,
    made: u64,
    ahead: BinaryHeap<Reverse<Entry<E>>>,
}

struct Entry<E> {
    key: (Duration, u64),
    event: E,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Agenda<E> {
    pub fn new() -> Self {
        Self { now: Duration::ZERO, made: 0, ahead: BinaryHeap::new() }
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    pub fn after(&mut self, delay: Duration, event: E) {
        self.made += 1;
        self.ahead.push(Reverse(Entry { key: (self.now + delay, self.made), event }));
    }

    /// Returns the next event before `end` and advances the time to that event.
    pub fn next_before(&mut self, end: Duration) -> Option<E> {
        let Reverse(entry) = self.ahead.pop()?;
        self.now = entry.key.0;
        (self.now < end).then_some(entry.event)
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

pub fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Draws an exponential delay by the inverse of its distribution function.
pub fn exponential(mean: f64, rng: &mut ChaCha8Rng) -> Duration {
    seconds(-mean * (1.0 - rng.random::<f64>()).ln())
}

/// Runs jobs 0, 1, 2, … on all cores and reports the finished share to `progress`. The results are
/// in order.
pub fn on_all_cores<R: Send>(
    jobs: usize,
    progress: Progress<'_>,
    job: impl Fn(usize) -> R + Sync,
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut results = Vec::new();
        loop {
            let number = next.fetch_add(1, Memory::Relaxed);
            if number >= jobs {
                return results;
            }
            results.push((number, job(number)));
            progress((done.fetch_add(1, Memory::Relaxed) + 1) as f64 / jobs as f64);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..cores.min(jobs)).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            all.extend(other.join().expect("a model does not panic"));
        }
        all
    });
    all.sort_by_key(|&(number, _)| number);
    all.into_iter().map(|(_, result)| result).collect()
}

/// A count for each second.
#[derive(Clone, Debug)]
pub struct Series(Vec<u32>);

impl Series {
    pub fn new(seconds: u64) -> Self {
        Self(vec![0; seconds as usize])
    }

    pub fn count(&mut self, at: Duration) {
        self.add(at, 1);
    }

    pub fn add(&mut self, at: Duration, more: u32) {
        if let Some(count) = self.0.get_mut(at.as_secs() as usize) {
            *count += more;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub fn sum(&self) -> f64 {
        self.0.iter().copied().map(f64::from).sum()
    }

    pub fn mean(&self, over: Range<usize>) -> f64 {
        let length = over.len();
        f64::from(self.0[over].iter().sum::<u32>()) / length as f64
    }

    /// Returns the mean of several series for each second.
    pub fn average<'a>(all: impl IntoIterator<Item = &'a Self>) -> Vec<f64> {
        let (mut sums, mut count) = (Vec::new(), 0.0_f64);
        for series in all {
            sums.resize(series.0.len().max(sums.len()), 0.0);
            sums.iter_mut().zip(&series.0).for_each(|(sum, &value)| *sum += f64::from(value));
            count += 1.0;
        }
        sums.iter().map(|sum| sum / count).collect()
    }
}

pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (count, sum) =
        values.into_iter().fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    sum / count
}

/// Draws a standard normal variable by the method of Box and Muller.
pub fn standard_normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    let angle = std::f64::consts::TAU * rng.random::<f64>();
    radius * angle.cos()
}

/// Draws the absolute value of a normal variable.
pub fn normal(mean: f64, deviation: f64, rng: &mut ChaCha8Rng) -> Duration {
    seconds((mean + deviation * standard_normal(rng)).abs())
}

/// A flag that is set by a wake.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Memory::Relaxed);
    }
}

/// Polls all futures to their end, and advances the clock whenever all of them wait for it.
pub fn drive<F: Future>(timer: &ManualTimer, futures: impl IntoIterator<Item = F>) {
    let now = timer.now();
    drive_arrivals(timer, Duration::MAX, futures.into_iter().map(|future| (now, future)));
}

/// Polls futures from their arrival to their end. Each comes with the time of its arrival, in
/// order. The clock advances whenever all of them wait for it. At `end` the others are dropped.
pub fn drive_arrivals<F: Future>(
    timer: &ManualTimer,
    end: Duration,
    arrivals: impl IntoIterator<Item = (Duration, F)>,
) {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut all = FuturesUnordered::new();
    let mut arrivals = arrivals.into_iter().peekable();
    loop {
        let now = timer.now();
        while let Some((_, future)) = arrivals.next_if(|&(at, _)| at <= now) {
            all.push(future);
        }
        while let Poll::Ready(Some(_)) = all.poll_next_unpin(&mut cx) {}
        // After many polls the set yields although some futures are ready. It then wakes.
        if woken.0.swap(false, Memory::Relaxed) {
            continue;
        }
        let arrival = arrivals.peek().map(|&(at, _)| at.saturating_sub(now));
        let wait = match (arrival, timer.until_next()) {
            (Some(arrival), Some(sleep)) => arrival.min(sleep),
            (arrival, sleep) => match arrival.or(sleep) {
                Some(wait) => wait,
                None if all.is_empty() => return,
                None => unreachable!("every future that waits, waits for the clock"),
            },
        };
        if wait >= end.saturating_sub(now) {
            return;
        }
        timer.advance(wait);
    }
}
