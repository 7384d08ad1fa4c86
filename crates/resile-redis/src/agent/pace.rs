use std::time::Duration;

/// The time that an exchange may take. Pure: times are arguments.
///
/// It follows the round trips seen, so a server far away does not count as dead. A server that does not
/// answer gets twice as long with each round.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    fixed: Option<Duration>,
    /// The last round trips, in a ring.
    trips: [Duration; TRIPS],
    seen: usize,
    /// The rounds without an answer.
    late: u32,
}

/// The round trips that count.
const TRIPS: usize = 32;
/// The factor above the round trip that one of ten exceeds.
const FACTOR: u32 = 3;
/// The shortest time, which is also the first one.
pub(super) const SHORTEST: Duration = Duration::from_millis(50);
/// The longest time.
const LONGEST: Duration = Duration::from_secs(1);

impl Pace {
    /// Creates a pace. A fixed time follows nothing.
    pub(super) const fn new(fixed: Option<Duration>) -> Self {
        Self { fixed, trips: [Duration::ZERO; TRIPS], seen: 0, late: 0 }
    }

    /// Returns the time that an exchange may take now.
    pub(super) fn limit(&self) -> Duration {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let mut trips = self.trips;
        let trips = &mut trips[..self.seen.min(TRIPS)];
        trips.sort_unstable();
        let slow = trips.get(trips.len() * 9 / 10).copied().unwrap_or_default();
        let usual = (slow * FACTOR).max(SHORTEST);
        usual.saturating_mul(1 << self.late.min(8)).min(LONGEST)
    }

    /// Notes a round trip.
    pub(super) const fn answered(&mut self, trip: Duration) {
        self.trips[self.seen % TRIPS] = trip;
        self.seen += 1;
        self.late = 0;
    }

    /// Notes a round without an answer in time.
    pub(super) const fn missed(&mut self) {
        self.late = self.late.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_near_server_has_50_ms_and_one_slow_answer_changes_nothing() {
        let mut pace = Pace::new(None);
        assert_eq!(pace.limit(), millis(50));
        for _ in 0..40 {
            pace.answered(millis(1));
        }
        pace.answered(millis(700));
        assert_eq!(pace.limit(), millis(50));
    }

    #[test]
    fn a_server_far_away_has_the_time_that_it_needs() {
        let mut pace = Pace::new(None);
        pace.missed();
        assert_eq!(pace.limit(), millis(100));
        pace.answered(millis(80));
        assert_eq!(pace.limit(), millis(240));
        for _ in 0..40 {
            pace.answered(millis(2));
        }
        assert_eq!(pace.limit(), millis(50));
    }

    #[test]
    fn a_dead_server_has_a_second_at_most() {
        let mut pace = Pace::new(None);
        let mut limits = Vec::new();
        for _ in 0..7 {
            limits.push(pace.limit().as_millis());
            pace.missed();
        }
        assert_eq!(limits, [50, 100, 200, 400, 800, 1_000, 1_000]);
        let mut fixed = Pace::new(Some(millis(30)));
        fixed.missed();
        fixed.answered(millis(500));
        assert_eq!(fixed.limit(), millis(30));
    }
}
