//! The core of every model: an agenda of events, and what is drawn at random.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::Range;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Events in order of time, and of their making where times are equal.
pub(crate) struct Agenda<E> {
    now: Duration,
    made: u64,
    ahead: BinaryHeap<Reverse<Entry<E>>>,
}

struct Entry<E> {
    key: (Duration, u64),
    event: E,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { now: Duration::ZERO, made: 0, ahead: BinaryHeap::new() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    pub(crate) fn after(&mut self, delay: Duration, event: E) {
        self.made += 1;
        self.ahead.push(Reverse(Entry { key: (self.now + delay, self.made), event }));
    }

    /// The next event before `end`; the time is then its time.
    pub(crate) fn next_before(&mut self, end: Duration) -> Option<E> {
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

pub(crate) fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Exponential, by the inverse of its distribution.
pub(crate) fn exponential(mean: f64, rng: &mut ChaCha8Rng) -> Duration {
    seconds(-mean * (1.0 - rng.random::<f64>()).ln())
}

/// Things per second.
pub(crate) struct Series(Vec<u32>);

impl Series {
    pub(crate) fn new(seconds: u64) -> Self {
        Self(vec![0; seconds as usize])
    }

    pub(crate) fn count(&mut self, at: Duration) {
        if let Some(count) = self.0.get_mut(at.as_secs() as usize) {
            *count += 1;
        }
    }

    pub(crate) fn mean(&self, over: Range<usize>) -> f64 {
        let length = over.len();
        f64::from(self.0[over].iter().sum::<u32>()) / length as f64
    }
}

pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (count, sum) = values.into_iter().fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    sum / count
}

/// The absolute value of a normal draw, by Box and Muller.
pub(crate) fn normal(mean: f64, deviation: f64, rng: &mut ChaCha8Rng) -> Duration {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    let angle = std::f64::consts::TAU * rng.random::<f64>();
    seconds((mean + deviation * radius * angle.cos()).abs())
}
