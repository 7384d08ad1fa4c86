use super::window::{Median, Pairs, Smooth, quantile};
use super::{Ended, Peer};

/// The auto-tuner of Uber's Cinnamon as far as it is published: Vegas on a smoothed quantile, whose
/// target is set again from time to time. If more in flight has gone with less throughput since then,
/// the limit falls instead. The sizes of steps and windows are not published. Here they are those of
/// failsafe-go.
pub(in super::super) struct Covariance {
    limit: f64,
    target: f64,
    median: Median,
    smooth: Smooth,
    throughputs: Pairs,
    windows: u32,
    began: f64,
    samples: Vec<f64>,
    in_flight: f64,
}

const QUANTILE: f64 = 0.9;
const FEWEST: usize = 50;
/// The windows after which the target is set again.
const RESETS: u32 = 50;
/// The limit is at most this multiple of the attempts in flight.
const HEADROOM: f64 = 10.0;

impl Covariance {
    pub(in super::super) fn new() -> Self {
        Self {
            limit: 20.0,
            target: 0.0,
            median: Median::new(),
            smooth: Smooth::new(5.0, 10),
            throughputs: Pairs::new(),
            windows: 0,
            began: 0.0,
            samples: Vec::new(),
            in_flight: 0.0,
        }
    }
}

impl Peer for Covariance {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, ended: Ended) {
        self.samples.push(ended.latency());
        self.in_flight += f64::from(ended.at_begin);
        let lasted = ended.now - self.began;
        if lasted < 1.0 || self.samples.len() < FEWEST {
            return;
        }
        let count = self.samples.len() as f64;
        let (in_flight, throughput) = (self.in_flight / count, count / lasted);
        let latency = self.smooth.add(self.median.add(quantile(&mut self.samples, QUANTILE)));
        let covariance = self.throughputs.add(in_flight, throughput).covariance;
        (self.began, self.in_flight) = (ended.now, 0.0);
        self.samples.clear();
        let step = self.limit.log10().floor().max(1.0);
        let resets = self.windows.is_multiple_of(RESETS);
        if resets && self.windows > 0 && covariance < 0.0 {
            self.limit *= 0.9;
        } else if resets {
            self.target = latency;
        }
        self.windows += 1;
        let queued = (self.limit * (1.0 - self.target / latency)).ceil();
        self.limit += match queued {
            _ if queued < 3.0 * step => step,
            _ if queued > 6.0 * step => -step,
            _ => 0.0,
        };
        self.limit = self.limit.min(HEADROOM * in_flight).clamp(1.0, 1000.0);
    }
}
