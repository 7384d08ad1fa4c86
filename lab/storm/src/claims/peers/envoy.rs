use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::window::quantile;
use super::{Ended, Peer};

/// The gradient of Envoy's adaptive concurrency filter, with its defaults and a probe each minute, as
/// in its documentation.
pub(in super::super) struct Envoy {
    limit: f64,
    /// The limit before the probe.
    kept: f64,
    least: f64,
    /// The start of the current probe. `None` between two.
    probes: Option<f64>,
    next_probe: f64,
    window: (f64, Vec<f64>),
    /// The windows in a row that ended at the floor.
    at_floor: u32,
    rng: ChaCha8Rng,
}

/// The floor, which is also the limit of a probe.
const FLOOR: f64 = 3.0;
const PROBE_SAMPLES: usize = 50;
const PROBE_EACH: f64 = 60.0;
const WINDOW: f64 = 0.1;

impl Envoy {
    pub(in super::super) fn new(rng: ChaCha8Rng) -> Self {
        Self {
            limit: FLOOR,
            kept: FLOOR,
            least: 0.0,
            probes: Some(0.0),
            next_probe: f64::MAX,
            window: (0.0, Vec::new()),
            at_floor: 0,
            rng,
        }
    }

    fn end_probe(&mut self, now: f64) {
        self.least = quantile(&mut self.window.1, 0.5);
        self.window = (now, Vec::new());
        (self.limit, self.probes) = (self.kept, None);
        self.next_probe = now + PROBE_EACH * self.rng.random_range(1.0..1.15);
    }

    fn end_window(&mut self, now: f64) {
        let median = quantile(&mut self.window.1, 0.5);
        self.window = (now, Vec::new());
        let gradient = (1.25 * self.least / median).clamp(0.5, 2.0);
        let limit = self.limit * gradient;
        let next = (limit + limit.sqrt()).floor().clamp(FLOOR, 1000.0);
        let stays = self.limit <= FLOOR && next <= FLOOR;
        self.at_floor = if stays { self.at_floor + 1 } else { 0 };
        self.limit = next;
    }
}

impl Peer for Envoy {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, ended: Ended) {
        if let Some(since) = self.probes {
            if ended.began >= since {
                self.window.1.push(ended.latency());
                if self.window.1.len() >= PROBE_SAMPLES {
                    self.end_probe(ended.now);
                }
            }
            return;
        }
        self.window.1.push(ended.latency());
        if ended.now - self.window.0 >= WINDOW {
            self.end_window(ended.now);
        }
        if ended.now >= self.next_probe || self.at_floor >= 5 {
            self.at_floor = 0;
            (self.kept, self.limit) = (self.limit, FLOOR);
            self.probes = Some(ended.now);
            self.window.1.clear();
        }
    }
}
