//! A model of a provider: what it accepts, and what it reports.

use std::collections::VecDeque;
use std::time::Duration;

use resile::quota::{Dimension, Limit, Limits};

/// The way in which a provider counts requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Counts {
    /// A bucket that refills all the time, with the limit as its burst.
    Bucket,
    /// Windows that follow each other.
    Windows,
    /// The requests of the last period, one by one.
    Sliding,
}

/// What the provider reports with each answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reports {
    Nothing,
    /// The limit, the remaining number and the reset, without a window.
    Plain,
    /// The same for one second, whatever the period is.
    PerSecond,
}

#[derive(Debug)]
pub(super) struct Provider {
    counts: Counts,
    limit: u32,
    period: f64,
    level: f64,
    at: f64,
    window: f64,
    used: u32,
    times: VecDeque<f64>,
}

impl Provider {
    pub(super) fn new(counts: Counts, limit: u32, period: Duration) -> Self {
        let (period, level) = (period.as_secs_f64(), f64::from(limit));
        Self { counts, limit, period, level, at: 0.0, window: 0.0, used: 0, times: VecDeque::new() }
    }

    pub(super) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
        self.level = self.level.min(f64::from(limit));
    }

    /// Answers a request: the time to wait if it is refused.
    pub(super) fn ask(&mut self, now: Duration) -> Result<(), Duration> {
        let now = now.as_secs_f64();
        let most = f64::from(self.limit);
        let refill = most / self.period;
        self.level = (self.level + (now - self.at) * refill).min(most);
        self.at = now;
        let window = (now / self.period).floor();
        if window > self.window {
            (self.window, self.used) = (window, 0);
        }
        while self.times.front().is_some_and(|time| *time <= now - self.period) {
            self.times.pop_front();
        }
        let (has_room, left) = match self.counts {
            Counts::Bucket => (self.level >= 1.0, (1.0 - self.level) / refill),
            Counts::Windows => (self.used < self.limit, (window + 1.0) * self.period - now),
            Counts::Sliding => {
                let over = (self.times.len() + 1).saturating_sub(self.limit as usize);
                let first = over.checked_sub(1).and_then(|over| self.times.get(over));
                (over == 0, first.map_or(0.0, |first| first + self.period - now))
            }
        };
        if !has_room {
            return Err(Duration::from_secs_f64(left.max(0.001)));
        }
        self.level -= 1.0;
        self.used += 1;
        if self.counts == Counts::Sliding {
            self.times.push_back(now);
        }
        Ok(())
    }

    /// Returns what the answer says of the limit.
    pub(super) fn report(&self, reports: Reports) -> Option<Limits> {
        let most = f64::from(self.limit);
        let (remaining, reset) = match self.counts {
            Counts::Bucket => (self.level, (most - self.level) * self.period / most),
            Counts::Windows => {
                (f64::from(self.limit - self.used), (self.window + 1.0) * self.period - self.at)
            }
            Counts::Sliding => {
                let first = self.times.front().map_or(0.0, |first| first + self.period - self.at);
                (most - self.times.len() as f64, first)
            }
        };
        let mut limit = Limit::of_remaining(remaining.max(0.0) as u64);
        match reports {
            Reports::Nothing => return None,
            Reports::Plain => {
                limit.limit = Some(self.limit.into());
                limit.reset = Some(Duration::from_secs_f64(reset.max(0.0)));
            }
            Reports::PerSecond => {
                limit.limit = Some((most / self.period).round() as u64);
                limit.window = Some(Duration::from_secs(1));
            }
        }
        Some(Limits::new().with(Dimension::Requests, limit))
    }
}
