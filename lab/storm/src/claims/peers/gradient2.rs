use super::{Ended, Peer};

/// Gradient2 of Netflix's `concurrency-limits`, with its defaults but a most of 1,000.
pub(in super::super) struct Gradient2 {
    limit: f64,
    long: f64,
    window: (f64, u32, f64),
}

impl Gradient2 {
    pub(in super::super) fn new() -> Self {
        Self { limit: 20.0, long: 0.0, window: (0.0, 0, 0.0) }
    }
}

impl Peer for Gradient2 {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, ended: Ended) {
        let (began, samples, sum) = &mut self.window;
        *samples += 1;
        *sum += ended.latency();
        if ended.now - *began < 1.0 || *samples < 10 {
            return;
        }
        let short = *sum / f64::from(*samples);
        self.window = (ended.now, 0, 0.0);
        self.long += (short - self.long) * if self.long == 0.0 { 1.0 } else { 2.0 / 601.0 };
        if self.long > 2.0 * short {
            self.long *= 0.95;
        }
        if f64::from(ended.at_end) >= self.limit / 2.0 {
            let gradient = (1.5 * self.long / short).clamp(0.5, 1.0);
            let limit = self.limit * gradient + 4.0;
            self.limit = (0.8 * self.limit + 0.2 * limit).clamp(20.0, 1000.0);
        }
    }
}
