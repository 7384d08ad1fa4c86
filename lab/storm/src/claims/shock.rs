//! A server with slots and a bounded queue, and the shocks that it suffers.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;

use super::slots::Service;

pub(super) const SLOTS: usize = 10;
const QUEUE: usize = 200;
pub(super) const TAKES: f64 = 0.1;
/// The seconds of the shock.
pub(super) const SHOCK: Range<usize> = 20..30;

/// A shock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shock {
    Standstill,
    Slow,
}

pub(super) const SHOCKS: [Shock; 2] = [Shock::Standstill, Shock::Slow];

/// A server with slots and a bounded queue. It knows only the times at which its slots get free.
pub(super) struct Server {
    shock: Shock,
    /// The time at which each slot is free, for the requests that it has taken.
    free: Vec<Duration>,
    /// The starts of the requests that wait.
    starts: VecDeque<Duration>,
}

impl Server {
    pub(super) fn new(shock: Shock) -> Self {
        Self { shock, free: vec![Duration::ZERO; SLOTS], starts: VecDeque::new() }
    }

    /// Takes a request. Returns the time until its answer. `None` if the queue is full.
    pub(super) fn take(&mut self, now: Duration, rng: &mut ChaCha8Rng) -> Option<Duration> {
        while self.starts.front().is_some_and(|&start| start <= now) {
            self.starts.pop_front();
        }
        if self.starts.len() >= QUEUE {
            return None;
        }
        let slot = self.free.iter_mut().min().expect("a server has slots");
        let start = now.max(*slot);
        let shocked = SHOCK.contains(&(start.as_secs() as usize));
        let start = if shocked && self.shock == Shock::Standstill {
            Duration::from_secs(SHOCK.end as u64)
        } else {
            start
        };
        let takes = if shocked && self.shock == Shock::Slow { 10.0 * TAKES } else { TAKES };
        let end = start + Service::Exponential.draw(takes, rng);
        *slot = end;
        if start > now {
            self.starts.push_back(start);
        }
        Some(end.saturating_sub(now))
    }
}
