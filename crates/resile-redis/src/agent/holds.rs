use std::time::Duration;

use resile::cooldown::Hold;

/// The holds that the fleet knows already. Pure: time is an argument.
///
/// A hold that came from the fleet must not go back to it: each copy would end a little later.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// The latest end of a hold that the fleet knows.
    known_until: Duration,
    published_at: Option<Duration>,
}

/// The difference of two ends below which they count as one. On a busy machine so much time may pass
/// between two readings of the clock.
const SAME: Duration = Duration::from_millis(20);
/// The shortest time between two publications.
const INTERVAL: Duration = Duration::from_millis(100);

impl Holds {
    /// Returns whether the fleet must learn this hold.
    pub(super) fn is_news(&self, hold: &Hold, now: Duration) -> bool {
        now.saturating_add(hold.remaining) > self.known_until + SAME
    }

    /// Returns the time at which news may be published.
    pub(super) fn publish_at(&self) -> Duration {
        self.published_at.map_or(Duration::ZERO, |at| at + INTERVAL)
    }

    pub(super) const fn publishes(&mut self, now: Duration) {
        self.published_at = Some(now);
    }

    /// Notes that the fleet knows a hold that ends after `remaining`.
    pub(super) fn knows(&mut self, remaining: Duration, now: Duration) {
        self.known_until = self.known_until.max(now.saturating_add(remaining));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn hold(remaining: Duration) -> Hold {
        Hold { remaining, ..Hold::default() }
    }

    #[test]
    fn only_a_hold_that_ends_later_is_news() {
        let mut holds = Holds::default();
        assert!(holds.is_news(&hold(SECOND), SECOND));
        holds.knows(SECOND, SECOND);
        assert!(!holds.is_news(&hold(SECOND), SECOND));
        assert!(!holds.is_news(&hold(SECOND / 2), SECOND));
        assert!(holds.is_news(&hold(2 * SECOND), SECOND));
    }
}
