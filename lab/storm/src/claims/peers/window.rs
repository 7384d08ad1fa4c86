use std::collections::VecDeque;

/// Returns the sample below which this share of all lies.
pub(super) fn quantile(samples: &mut [f64], share: f64) -> f64 {
    let at = (share * (samples.len() - 1) as f64).round() as usize;
    *samples.select_nth_unstable_by(at, f64::total_cmp).1
}

/// A mean of the first values, which then becomes an exponential moving average.
pub(super) struct Smooth {
    weight: f64,
    first: u32,
    seen: u32,
    value: f64,
}

impl Smooth {
    /// Creates an average over about `age` values.
    pub(super) fn new(age: f64, first: u32) -> Self {
        Self { weight: 2.0 / (age + 1.0), first, seen: 0, value: 0.0 }
    }

    pub(super) fn add(&mut self, value: f64) -> f64 {
        self.seen = (self.seen + 1).min(self.first + 1);
        let weight = if self.seen <= self.first { 1.0 / f64::from(self.seen) } else { self.weight };
        self.value += (value - self.value) * weight;
        self.value
    }
}

/// The median of the latest values.
pub(super) struct Median(VecDeque<f64>);

impl Median {
    pub(super) fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Adds a value and returns the median of the latest five.
    pub(super) fn add(&mut self, value: f64) -> f64 {
        push(&mut self.0, value, 5);
        quantile(&mut self.0.iter().copied().collect::<Vec<_>>(), 0.5)
    }
}

/// Pairs of the latest values.
pub(super) struct Pairs(VecDeque<(f64, f64)>);

/// The moments of the latest pairs.
#[derive(Clone, Copy, Default)]
pub(super) struct Moments {
    pub(super) covariance: f64,
    pub(super) correlation: f64,
    /// The deviation of the second value as a share of its mean.
    pub(super) variation: f64,
}

/// The pairs of a window.
const PAIRS: usize = 50;
/// The pairs before which nothing is known.
const FEW: usize = 10;
/// A relative deviation below which nothing is known.
const STILL: f64 = 0.01;

impl Pairs {
    pub(super) fn new() -> Self {
        Self(VecDeque::new())
    }

    pub(super) fn add(&mut self, x: f64, y: f64) -> Moments {
        push(&mut self.0, (x, y), PAIRS);
        if self.0.len() < FEW {
            return Moments::default();
        }
        let count = self.0.len() as f64;
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| self.0.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (sum(&|pair| pair.0), sum(&|pair| pair.1));
        let covariance = sum(&|pair| (pair.0 - mean_x) * (pair.1 - mean_y));
        let spread_x = sum(&|pair| (pair.0 - mean_x).powi(2)).sqrt();
        let spread_y = sum(&|pair| (pair.1 - mean_y).powi(2)).sqrt();
        let variation = spread_y / mean_y;
        if spread_x / mean_x < STILL || variation < STILL {
            return Moments { variation, ..Moments::default() };
        }
        Moments { covariance, correlation: covariance / spread_x / spread_y, variation }
    }
}

fn push<T>(values: &mut VecDeque<T>, value: T, most: usize) {
    if values.len() == most {
        values.pop_front();
    }
    values.push_back(value);
}
