use super::window::{Median, Pairs, Smooth, quantile};
use super::{Ended, Peer};

/// The adaptive limiter of failsafe-go, with its defaults but a most of 1,000: a queue estimated from
/// latencies, and a guard by correlations.
pub(in super::super) struct Guard {
    limit: f64,
    median: Median,
    smooth: Smooth,
    base: Smooth,
    throughputs: Pairs,
    latencies: Pairs,
    next: f64,
    window: Window,
}

#[derive(Default)]
struct Window {
    samples: Vec<f64>,
    most_in_flight: u32,
}

const QUANTILE: f64 = 0.9;
const FEWEST: usize = 50;
/// The limit is at most this multiple of the attempts in flight.
const HEADROOM: f64 = 5.0;

impl Guard {
    pub(in super::super) fn new() -> Self {
        Self {
            limit: 20.0,
            median: Median::new(),
            smooth: Smooth::new(5.0, 10),
            base: Smooth::new(10.0, 10),
            throughputs: Pairs::new(),
            latencies: Pairs::new(),
            next: 0.0,
            window: Window::default(),
        }
    }

    fn update(&mut self, latency: f64, in_flight: f64, is_full: bool) {
        let base = self.base.add(latency);
        let queued = (self.limit * (1.0 - base / latency)).ceil();
        let throughput = self.throughputs.add(in_flight, in_flight / latency);
        let slower = self.latencies.add(in_flight, latency).correlation > 0.5;
        let step = self.limit.log10().floor().max(1.0);
        let drifts = throughput.correlation < 0.0
            || slower && (throughput.correlation < 0.3 || throughput.variation < 0.2);
        let next = match queued {
            _ if queued > 6.0 * step || is_full && drifts => self.limit - step,
            _ if queued < 3.0 * step => self.limit + step,
            _ => self.limit,
        };
        let next = if next > HEADROOM * in_flight { self.limit - step } else { next };
        self.limit = next.clamp(1.0, 1000.0);
    }
}

impl Peer for Guard {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, ended: Ended) {
        let Window { samples, most_in_flight } = &mut self.window;
        samples.push(ended.latency());
        *most_in_flight = (*most_in_flight).max(ended.at_begin);
        if ended.now <= self.next || samples.len() < FEWEST {
            return;
        }
        let least = samples.iter().copied().fold(f64::MAX, f64::min);
        let latency = self.median.add(quantile(samples, QUANTILE));
        let in_flight = f64::from(*most_in_flight);
        let latency = self.smooth.add(latency);
        self.update(latency, in_flight, f64::from(ended.at_end) >= self.limit.floor());
        self.window = Window::default();
        self.next = ended.now + (2.0 * least).clamp(1.0, 30.0);
    }
}
