use std::time::Duration;

/// The units that a process lately needed. Pure: time is an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// The sum of all spent units at the last observation, and its time.
    seen: Option<(i64, Duration)>,
    /// The spent units per second, as a moving average.
    per_second: f64,
    /// The most units spent at once, as a slowly falling maximum.
    at_once: f64,
}

/// The time in which an old rate loses most of its weight, in seconds.
const RATE_MEMORY: f64 = 0.5;
/// The time in which an old maximum loses most of its weight, in seconds.
const MAXIMUM_MEMORY: f64 = 30.0;

impl Demand {
    pub(crate) const NEW: Self = Self { seen: None, per_second: 0.0, at_once: 0.0 };

    /// Counts the units spent since the last observation. `spent` is the sum of all spent units.
    #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    pub(crate) fn observe(&mut self, spent: i64, now: Duration) {
        let Some((before, at)) = self.seen else {
            self.seen = Some((spent, now));
            return;
        };
        let elapsed = now.saturating_sub(at).as_secs_f64();
        if elapsed < 0.001 {
            return; // too short for a rate: the units count in the next observation
        }
        self.seen = Some((spent, now));
        let units = spent.saturating_sub(before).max(0) as f64;
        let kept = (-elapsed / RATE_MEMORY).exp();
        self.per_second = self.per_second * kept + units / elapsed * (1.0 - kept);
        // Over a long time many calls add up.
        let at_once = units * (0.01 / elapsed).min(1.0);
        self.at_once = (self.at_once * (-elapsed / MAXIMUM_MEMORY).exp()).max(at_once);
    }

    /// Counts the cost of a call that waits.
    #[expect(clippy::cast_precision_loss, reason = "a maximum is an estimate")]
    pub(crate) const fn wants(&mut self, units: i64) {
        self.at_once = self.at_once.max(units as f64);
    }

    pub(crate) const fn per_second(&self) -> f64 {
        self.per_second
    }

    pub(crate) const fn at_once(&self) -> f64 {
        self.at_once
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_demand_is_found_and_forgotten() {
        let mut demand = Demand::NEW;
        for tick in 0..100_u32 {
            demand.observe(i64::from(tick) * 10, Duration::from_millis(100) * tick);
        }
        assert!((demand.per_second() - 100.0).abs() < 1.0, "{demand:?}");
        demand.observe(990, Duration::from_secs(20));
        assert!(demand.per_second() < 0.01, "{demand:?}");
    }
}
