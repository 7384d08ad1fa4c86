use std::time::Duration;

use resile::cooldown::Hold;

/// The holds that the fleet knows already. Pure: time is an argument.
///
/// A hold that came from the fleet must not go back to it: each copy would end a little later.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// The latest end of a hold that the fleet knows.
    known_until: Duration,
    /// The time at which the fleet was last known to know a hold.
    known_at: Duration,
    /// The time of the last question.
    asked_at: Duration,
    published_at: Option<Duration>,
    /// The latest end of a hold.
    held_until: Option<Duration>,
    /// The member that set the end of the hold that the fleet knows.
    by: Option<String>,
}

/// The difference of two ends below which they count as one. On a busy machine so much time may pass
/// between two readings of the clock.
const SAME: Duration = Duration::from_millis(20);
/// The shortest time between two publications.
const INTERVAL: Duration = Duration::from_millis(100);

/// The difference of two ends that no exchange explains, because it takes a second at most.
const LOST: Duration = Duration::from_secs(1);

/// The time without a hold after which the next one is another strain, as in the core.
const QUIET: Duration = Duration::from_secs(10);

impl Holds {
    /// Notes a hold that ends after `remaining`. Returns whether one has ended lately or goes on.
    pub(super) fn is_of_strain(&mut self, remaining: Duration, now: Duration) -> bool {
        let until = now.saturating_add(remaining);
        let before = self.held_until.replace(self.held_until.map_or(until, |at| at.max(until)));
        before.is_some_and(|before| now < before.saturating_add(QUIET))
    }

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
        self.known_at = now;
    }

    /// Notes which member set the end of the hold that the fleet knows.
    pub(super) fn set_by(&mut self, id: Option<&str>) {
        if self.by.as_deref() != id {
            self.by = id.map(ToOwned::to_owned);
        }
    }

    /// Returns the member that set the end of this hold: this one with the id `own`, if the hold is
    /// news for the fleet.
    pub(super) fn by<'a>(&'a self, hold: &Hold, own: &'a str, now: Duration) -> Option<&'a str> {
        if self.is_news(hold, now) { Some(own) } else { self.by.as_deref() }
    }

    pub(super) const fn asks(&mut self, now: Duration) {
        self.asked_at = now;
    }

    /// Notes the hold of the store as the answer to the last question. `None` if it has none.
    ///
    /// A hold never becomes shorter, so a store with a shorter one has lost its data. Then the hold
    /// of this member is news.
    pub(super) fn stored(&mut self, remaining: Option<Duration>, now: Duration) {
        let until = now.saturating_add(remaining.unwrap_or_default());
        let is_shorter = remaining.is_none() || until + LOST < self.known_until;
        // What came meanwhile is later than the answer.
        if is_shorter && self.known_at < self.asked_at {
            self.known_until = until;
        }
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

    #[test]
    fn a_hold_is_of_the_member_that_set_its_end() {
        let mut holds = Holds::default();
        assert_eq!(holds.by(&hold(SECOND), "own", SECOND), Some("own"));
        holds.knows(SECOND, SECOND);
        assert_eq!(holds.by(&hold(SECOND), "own", SECOND), None);
        holds.set_by(Some("other"));
        assert_eq!(holds.by(&hold(SECOND), "own", SECOND), Some("other"));
        assert_eq!(holds.by(&hold(2 * SECOND), "own", SECOND), Some("own"), "it is longer");
    }

    #[test]
    fn holds_without_a_quiet_time_between_them_are_one_strain() {
        let mut holds = Holds::default();
        assert!(!holds.is_of_strain(6 * SECOND, SECOND));
        assert!(holds.is_of_strain(SECOND, 3 * SECOND), "it goes on");
        assert!(holds.is_of_strain(SECOND, 16 * SECOND), "the first one ended at 7 s");
        assert!(!holds.is_of_strain(SECOND, 27 * SECOND));
        assert!(holds.is_of_strain(SECOND, 28 * SECOND));
    }

    #[test]
    fn a_hold_that_the_store_has_lost_is_news_again() {
        let mut holds = Holds::default();
        holds.knows(9 * SECOND, SECOND);
        holds.asks(2 * SECOND);
        holds.stored(Some(7 * SECOND), 2 * SECOND);
        assert!(!holds.is_news(&hold(8 * SECOND), 2 * SECOND), "a late answer loses nothing");
        holds.stored(Some(6 * SECOND), 2 * SECOND);
        assert!(holds.is_news(&hold(8 * SECOND), 2 * SECOND));
        holds.knows(SECOND, 3 * SECOND);
        assert!(!holds.is_news(&hold(SECOND), 3 * SECOND));
        holds.asks(3 * SECOND + SECOND / 2);
        holds.stored(None, 3 * SECOND + SECOND / 2);
        assert!(holds.is_news(&hold(SECOND / 2), 3 * SECOND + SECOND / 2));
    }

    #[test]
    fn a_message_is_later_than_an_answer_that_was_on_its_way() {
        let mut holds = Holds::default();
        holds.asks(SECOND);
        holds.knows(9 * SECOND, 2 * SECOND);
        holds.stored(None, 3 * SECOND);
        assert!(!holds.is_news(&hold(8 * SECOND), 3 * SECOND));
    }
}
