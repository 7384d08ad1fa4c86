/// The pace of a line of waiters: pure, in nanoseconds. It is measured only while calls wait.
///
/// While calls wait all permits are in use, so the mean time that a permit is held is the time per turn
/// times the limit (Little 1961). Before as many turns as the limit this is the time since the line
/// began: permits that were taken at once are also released at once, so a first turn says little.
///
/// A line moves if its oldest waiter has waited for less than a permit is held. Otherwise the newest
/// waiter goes first: its caller still waits, and that of the oldest has often given up. "Controlling
/// Queue Delay" (Nichols and Jacobson 2012) also takes the wait of the oldest for the sign of a standing
/// queue, and the adaptive LIFO of "Fail at Scale" (Maurer 2015) turns the order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    began: u64,
    /// The latest time that is known.
    latest: u64,
    /// The waiters that got a permit since `began`.
    turns: u64,
}

impl Pace {
    pub(super) const fn new() -> Self {
        Self { began: 0, latest: 0, turns: 0 }
    }

    /// Begins at the first waiter.
    pub(super) fn begin(&mut self, now: u64) {
        *self = Self { began: now, latest: now, turns: 0 };
    }

    /// Notes the time of an event.
    pub(super) fn note(&mut self, now: u64) {
        self.latest = self.latest.max(now);
    }

    /// Counts a waiter that got a permit. From two turns for each permit on, the older half is forgotten.
    pub(super) fn turn(&mut self, now: u64, limit: u32) {
        self.note(now);
        self.turns += 1;
        if self.turns >= 2 * u64::from(limit.max(1)) {
            self.turns /= 2;
            self.began += (self.latest - self.began) / 2;
        }
    }

    /// Returns the time in which a call gets a permit that has `ahead` waiters before it.
    pub(super) fn wait(&self, ahead: u64, limit: u32) -> u64 {
        let lasted = u128::from(self.latest.saturating_sub(self.began));
        let turns = self.turns.max(u64::from(limit)).max(1);
        let wait = lasted * (u128::from(ahead) + 1) / u128::from(turns);
        u64::try_from(wait).unwrap_or(u64::MAX)
    }

    /// Returns whether a line moves whose oldest waiter joined at `joined`.
    pub(super) fn moves(&self, joined: u64, limit: u32) -> bool {
        let held = self.wait(u64::from(limit.saturating_sub(1)), limit);
        self.latest.saturating_sub(joined) <= held
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    proptest! {
        /// With a permit each `hold / limit` a waiter waits for its turn, and a line as long as the limit
        /// moves. One with twice as many waiters does not.
        #[test]
        fn the_pace_is_that_of_the_turns(limit in 1..200_u32, hold in 1..1_000_u64, turns in 1..5_u64) {
            let (limit64, hold) = (u64::from(limit), hold * MS);
            let mut pace = Pace::default();
            pace.begin(7);
            for turn in 1..=turns * limit64 {
                pace.turn(7 + turn * hold / limit64, limit);
            }
            let now = 7 + turns * hold;
            for ahead in [0, 1, limit64, 3 * limit64] {
                let expected = (ahead + 1) * hold / limit64;
                prop_assert!(pace.wait(ahead, limit).abs_diff(expected) <= expected / 50 + 1_000);
            }
            prop_assert!(pace.moves(now.saturating_sub(hold * 9 / 10), limit));
            prop_assert!(!pace.moves(now.saturating_sub(hold * 11 / 10).max(1) - 1, limit) || turns == 1);
        }

        /// Before the first turns no wait is overestimated: all permits may come back at once.
        #[test]
        fn a_burst_is_not_taken_for_a_slow_line(limit in 1..200_u32, age in 0..1_000_u64) {
            let mut pace = Pace::default();
            pace.begin(5);
            pace.note(5 + age);
            prop_assert_eq!(pace.wait(u64::from(limit) - 1, limit), age);
            prop_assert!(pace.moves(5, limit));
        }

        #[test]
        fn no_time_panics(times in prop::collection::vec(any::<(u64, bool)>(), 0..50), limit: u32, ahead: u64) {
            let mut pace = Pace::default();
            for (now, begins) in times {
                if begins { pace.begin(now) } else { pace.turn(now, limit) }
                pace.wait(ahead, limit);
                pace.moves(now, limit);
            }
        }
    }

    #[test]
    fn the_pace_follows_a_change_within_a_few_turns() {
        let mut pace = Pace::default();
        pace.begin(0);
        let mut now = 0;
        for (step, turns) in [(MS, 1_000), (100 * MS, 60)] {
            for _ in 0..turns {
                now += step;
                pace.turn(now, 10);
            }
            assert!(pace.wait(0, 10).abs_diff(step) <= step / 10, "{} {step}", pace.wait(0, 10));
        }
    }
}
