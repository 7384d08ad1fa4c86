use std::time::Duration;

/// The number of members. Pure: time is an argument.
///
/// A server that lost its data counts the members anew, and each renews its presence about once a
/// second. So a smaller number counts only after some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Census {
    last: u32,
    known: u32,
    /// The begin of a time with fewer members, and the most of them in this time.
    fewer: Option<(Duration, u32)>,
}

/// The time after which a smaller number counts.
const DOUBT: Duration = Duration::from_secs(2);

impl Census {
    pub(super) const fn new() -> Self {
        Self { last: 1, known: 1, fewer: None }
    }

    /// Notes the number that the server counted.
    pub(super) fn count(&mut self, members: u32, now: Duration) {
        self.last = members.max(1);
        if self.last >= self.known {
            (self.known, self.fewer) = (self.last, None);
            return;
        }
        let (since, most) = self.fewer.unwrap_or((now, 1));
        let most = most.max(self.last);
        self.fewer = Some((since, most));
        if now.saturating_sub(since) >= DOUBT {
            (self.known, self.fewer) = (most, None);
        }
    }

    /// Notes that a member has left, after which the server counted `members`. Nobody doubts that.
    pub(super) fn left(&mut self, members: u32) {
        self.last = members.max(1);
        self.known = self.known.saturating_sub(1).max(self.last);
        if self.known == self.last {
            self.fewer = None;
        }
    }

    /// Returns the number that the server counted last.
    pub(super) const fn last(&self) -> u32 {
        self.last
    }

    /// Returns the number that limits are divided by.
    pub(super) const fn known(&self) -> u32 {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_server_that_counts_anew_makes_no_share_larger() {
        let mut census = Census::new();
        census.count(8, at(0));
        for (millis, members) in [(100, 1), (300, 4), (1_100, 7), (1_300, 8)] {
            census.count(members, at(millis));
            assert_eq!((census.last(), census.known()), (members, 8));
        }
    }

    #[test]
    fn members_that_left_are_forgotten() {
        let mut census = Census::new();
        census.count(8, at(0));
        for millis in [1_000, 2_000, 2_999] {
            census.count(5, at(millis));
            assert_eq!(census.known(), 8);
        }
        census.count(5, at(3_000));
        assert_eq!(census.known(), 5);
    }

    #[test]
    fn a_member_that_says_that_it_leaves_is_forgotten_at_once() {
        let mut census = Census::new();
        census.count(4, at(0));
        census.left(3);
        assert_eq!((census.last(), census.known()), (3, 3));
        census.count(3, at(100));
        census.left(0);
        assert_eq!((census.last(), census.known()), (1, 2), "one at a time");
        // Of those that the server has forgotten only one has said that it leaves.
        census.count(9, at(200));
        census.left(5);
        assert_eq!((census.last(), census.known()), (5, 8));
        census.count(5, at(300));
        census.count(5, at(2_300));
        assert_eq!(census.known(), 5);
    }

    proptest! {
        #[test]
        fn the_known_number_is_the_most_of_the_last_seconds(
            counts in prop::collection::vec((0_u64..500, 1_u32..10), 1..50),
        ) {
            let (mut census, mut now) = (Census::new(), 0);
            let mut seen = Vec::new();
            for (pause, members) in counts {
                now += pause;
                census.count(members, at(now));
                seen.push((now, members));
                let lately = seen.iter().filter(|(millis, _)| millis + 2_000 > now);
                let most = lately.map(|(_, members)| *members).max().unwrap_or(1);
                prop_assert!(census.known() >= most && census.known() >= census.last());
                let long = seen.iter().filter(|(millis, _)| millis + 5_000 > now);
                let most = long.map(|(_, members)| *members).max().unwrap_or(1);
                prop_assert!(census.known() <= most);
            }
        }
    }
}
