//! The algorithms by which other libraries learn a limit, from their sources, in a few lines each.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

/// An algorithm that learns a limit from latencies in seconds.
pub(super) trait Peer {
    fn limit(&self) -> f64;

    /// Takes an attempt that ended `now`. `in_flight` includes it.
    fn ended(&mut self, now: f64, latency: f64, in_flight: u32);
}

/// Gradient2 of Netflix's `concurrency-limits`, with its defaults but a most of 1,000.
pub(super) struct Gradient2 {
    limit: f64,
    long: f64,
    window: (f64, u32, f64),
}

impl Gradient2 {
    pub(super) fn new() -> Self {
        Self { limit: 20.0, long: 0.0, window: (0.0, 0, 0.0) }
    }
}

impl Peer for Gradient2 {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, now: f64, latency: f64, in_flight: u32) {
        let (began, samples, sum) = &mut self.window;
        *samples += 1;
        *sum += latency;
        if now - *began < 1.0 || *samples < 10 {
            return;
        }
        let short = *sum / f64::from(*samples);
        self.window = (now, 0, 0.0);
        self.long += (short - self.long) * if self.long == 0.0 { 1.0 } else { 2.0 / 601.0 };
        if self.long > 2.0 * short {
            self.long *= 0.95;
        }
        if f64::from(in_flight) >= self.limit / 2.0 {
            let gradient = (1.5 * self.long / short).clamp(0.5, 1.0);
            let limit = self.limit * gradient + 4.0;
            self.limit = (0.8 * self.limit + 0.2 * limit).clamp(20.0, 1000.0);
        }
    }
}

/// Vegas of the same library.
pub(super) struct Vegas {
    limit: f64,
    least: f64,
    until_probe: f64,
    rng: ChaCha8Rng,
}

impl Vegas {
    pub(super) fn new(rng: ChaCha8Rng) -> Self {
        Self { limit: 20.0, least: f64::MAX, until_probe: 600.0, rng }
    }
}

impl Peer for Vegas {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, _: f64, latency: f64, in_flight: u32) {
        self.until_probe -= 1.0;
        if self.until_probe <= 0.0 {
            self.until_probe = 30.0 * self.limit * self.rng.random_range(0.5..1.0);
            self.least = latency;
            return;
        }
        self.least = self.least.min(latency);
        if f64::from(in_flight) * 2.0 < self.limit {
            return;
        }
        let step = self.limit.log10().max(1.0);
        let queued = (self.limit * (1.0 - self.least / latency)).ceil();
        self.limit += match queued {
            _ if queued <= step => 6.0 * step,
            _ if queued < 3.0 * step => step,
            _ if queued > 6.0 * step => -step,
            _ => 0.0,
        };
        self.limit = self.limit.clamp(1.0, 1000.0);
    }
}
