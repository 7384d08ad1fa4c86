use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::{Ended, Peer};

/// Vegas of Netflix's `concurrency-limits`, with its defaults.
pub(in super::super) struct Vegas {
    limit: f64,
    least: f64,
    until_probe: f64,
    rng: ChaCha8Rng,
}

impl Vegas {
    pub(in super::super) fn new(rng: ChaCha8Rng) -> Self {
        Self { limit: 20.0, least: f64::MAX, until_probe: 600.0, rng }
    }
}

impl Peer for Vegas {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, ended: Ended) {
        let latency = ended.latency();
        self.until_probe -= 1.0;
        if self.until_probe <= 0.0 {
            self.until_probe = 30.0 * self.limit * self.rng.random_range(0.5..1.0);
            self.least = latency;
            return;
        }
        self.least = self.least.min(latency);
        if f64::from(ended.at_end) * 2.0 < self.limit {
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
