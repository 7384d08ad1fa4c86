use std::time::Duration;

use resile::fleet::State;

/// Tells operators of states that last. Pure: time is an argument.
///
/// A state of a moment is not told. Otherwise a server at the edge of its time would fill the log,
/// and a member whose first answer is a little late would speak of an outage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notices {
    state: Lasting<State>,
    /// True while some parts only fail.
    partial: Lasting<bool>,
    /// The number of members, or 0 before the first one.
    members: Lasting<u32>,
}

/// A value of which operators are told when it has lasted.
#[derive(Clone, Copy, Debug)]
struct Lasting<T> {
    told: T,
    /// Another value, and its beginning.
    next: Option<(T, Duration)>,
}

/// The time for which a state must last.
const LASTING: Duration = Duration::from_millis(500);
/// The time for which a number of members must last. Each member renews its presence meanwhile.
const SETTLING: Duration = Duration::from_millis(1_500);

/// A change of a failure of some parts only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Partial {
    Begins,
    Ends,
}

impl<T: Copy + PartialEq> Lasting<T> {
    const fn new(told: T) -> Self {
        Self { told, next: None }
    }

    /// Returns whether to tell `value`: another one was told last, and this one has lasted for `least`.
    fn tells(&mut self, value: T, least: Duration, now: Duration) -> bool {
        if value == self.told {
            self.next = None;
            return false;
        }
        let since = match self.next {
            Some((next, since)) if next == value => since,
            _ => now,
        };
        self.next = Some((value, since));
        let lasts = now >= since + least;
        if lasts {
            *self = Self::new(value);
        }
        lasts
    }

    /// Returns the time at which the next value has lasted.
    fn lasts_at(&self, least: Duration) -> Option<Duration> {
        self.next.map(|(_, since)| since + least)
    }
}

impl Notices {
    pub(super) const fn new() -> Self {
        Self {
            state: Lasting::new(State::Joining),
            partial: Lasting::new(false),
            members: Lasting::new(0),
        }
    }

    /// Returns the state that operators were told last.
    pub(super) const fn told(&self) -> State {
        self.state.told
    }

    /// Returns the state to tell while the member is in `state`.
    pub(super) fn tell(&mut self, state: State, now: Duration) -> State {
        let is_first = self.told() == State::Joining && state == State::Shared;
        let least = if is_first { Duration::ZERO } else { LASTING };
        self.state.tells(state, least, now);
        self.told()
    }

    /// Returns the number of members that was told last, or 0, if another one has lasted. Members that
    /// join one after another are told once. `None` is a number that is not known.
    pub(super) fn count(&mut self, members: Option<u32>, now: Duration) -> Option<u32> {
        let Some(members) = members.filter(|_| self.told() == State::Shared) else {
            self.members.next = None;
            return None;
        };
        let before = self.members.told;
        self.members.tells(members, SETTLING, now).then_some(before)
    }

    /// Returns whether a number of members waits to be told.
    pub(super) const fn has_news(&self) -> bool {
        self.members.next.is_some()
    }

    /// Notes that operators were told the number of members. Returns the one that was told before, or 0.
    pub(super) const fn told_members(&mut self, members: u32) -> u32 {
        let before = self.members.told;
        self.members = Lasting::new(members);
        before
    }

    /// Notes whether some parts fail while the limits work. Returns a change that lasts.
    pub(super) fn note_partial(&mut self, fails: bool, now: Duration) -> Option<Partial> {
        let (least, change) =
            if fails { (LASTING, Partial::Begins) } else { (Duration::ZERO, Partial::Ends) };
        self.partial.tells(fails, least, now).then_some(change)
    }

    /// Returns the time at which a state has lasted.
    pub(super) fn changes_at(&self) -> Option<Duration> {
        let Self { state, partial, members } = self;
        let times =
            [state.lasts_at(LASTING), partial.lasts_at(LASTING), members.lasts_at(SETTLING)];
        times.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::census::Census;
    use super::super::step::{MEMBER_TTL, RENEWAL};
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_state_that_lasts_is_told_once_and_a_flapping_one_never() {
        let mut notices = Notices::new();
        assert_eq!(notices.tell(State::Shared, at(0)), State::Shared);
        for round in 0..20 {
            assert_eq!(notices.tell(State::Coasting, at(round * 300)), State::Shared);
            assert_eq!(notices.tell(State::Safe, at(round * 300 + 100)), State::Shared);
            assert_eq!(notices.tell(State::Shared, at(round * 300 + 200)), State::Shared);
        }
        assert_eq!(notices.tell(State::Safe, at(10_000)), State::Shared);
        assert_eq!(notices.changes_at(), Some(at(10_500)));
        assert_eq!(notices.tell(State::Safe, at(10_500)), State::Safe);
        assert_eq!(notices.changes_at(), None);
    }

    /// Many upstreams that join at once answer each other late.
    #[test]
    fn a_late_first_answer_is_no_outage() {
        let mut notices = Notices::new();
        assert_eq!(notices.tell(State::Safe, at(250)), State::Joining);
        assert_eq!(notices.tell(State::Learning, at(600)), State::Joining);
        assert_eq!(notices.tell(State::Learning, at(1_100)), State::Learning);
    }

    #[test]
    fn members_that_join_one_after_another_are_told_once() {
        let mut notices = Notices::new();
        assert_eq!(
            (notices.count(Some(1), at(0)), notices.changes_at()),
            (None, None),
            "not shared yet"
        );
        notices.tell(State::Shared, at(0));
        for (members, millis) in [(1, 0), (2, 1_000), (3, 2_000), (4, 3_000), (4, 4_499)] {
            assert_eq!(notices.count(Some(members), at(millis)), None);
        }
        assert_eq!(notices.changes_at(), Some(at(4_500)));
        assert_eq!(notices.count(Some(4), at(4_500)), Some(0));
        assert_eq!((notices.count(Some(4), at(9_000)), notices.changes_at()), (None, None));
        assert_eq!(notices.count(Some(3), at(10_000)), None);
        assert_eq!(notices.count(Some(4), at(11_000)), None, "one was counted late");
        assert_eq!(notices.count(Some(3), at(12_000)), None);
        assert_eq!(notices.count(Some(3), at(13_500)), Some(4));
        assert_eq!(notices.count(Some(4), at(14_000)), None);
        assert_eq!((notices.count(None, at(15_600)), notices.changes_at()), (None, None));
        assert_eq!(notices.count(Some(4), at(15_700)), None, "it begins anew");
    }

    #[test]
    fn a_partial_failure_is_told_at_its_begin_and_its_end() {
        let mut notices = Notices::new();
        assert_eq!(notices.note_partial(true, at(0)), None);
        assert_eq!(notices.note_partial(false, at(400)), None);
        assert_eq!(notices.note_partial(true, at(1_000)), None);
        assert_eq!(notices.note_partial(true, at(1_500)), Some(Partial::Begins));
        assert_eq!(notices.note_partial(true, at(9_000)), None);
        assert_eq!(notices.note_partial(false, at(9_100)), Some(Partial::Ends));
        assert_eq!(notices.note_partial(false, at(9_200)), None);
    }

    /// Returns the times after a death at which another member counts fewer, uses the smaller number and tells
    /// it. All members renew in intervals of so many thousandths of a second. The dead one has lived for a part
    /// of its last interval, and the other one is as far in its own when the server forgets the dead one.
    fn after_a_death(last: u64, lived: f64, others: &[u64], passed: f64) -> [Duration; 3] {
        let (mut census, mut notices) = (Census::new(), Notices::new());
        notices.tell(State::Shared, at(0));
        notices.told_members(2);
        census.count(2, at(0));
        let interval = |thousandths| RENEWAL * u32::try_from(thousandths).unwrap() / 1_000;
        let forgotten = MEMBER_TTL.saturating_sub(interval(last).mul_f64(lived));
        let mut now = forgotten + interval(others[0]).mul_f64(1.0 - passed);
        let counted = now;
        census.count(1, now);
        for other in &others[1..] {
            if census.known() == 1 {
                break;
            }
            now += interval(*other);
            census.count(1, now);
        }
        assert_eq!((census.last(), census.known()), (1, 1));
        assert_eq!(notices.count(Some(census.known()), now), None);
        let told = notices.changes_at().unwrap();
        assert_eq!(notices.count(Some(census.known()), told), Some(2));
        [counted, now, told]
    }

    const EARLIEST: [u64; 3] = [1_800, 3_800, 5_300];
    const LATEST: [u64; 3] = [4_200, 7_400, 8_900];

    #[test]
    fn the_earliest_and_the_latest_time_of_a_death_are_those_of_the_guide() {
        assert_eq!(after_a_death(1_200, 1.0, &[1_000; 4], 1.0), EARLIEST.map(at));
        let latest = after_a_death(1_000, 0.0, &[1_200, 800, 1_199, 1_200], 0.0);
        assert_eq!(latest, [4_200, 7_399, 8_899].map(at));
    }

    proptest! {
        #[test]
        fn a_death_is_told_in_the_time_that_the_guide_names(
            last in 800_u64..=1_200,
            others in [800_u64..=1_200, 800..=1_200, 800..=1_200, 800..=1_200],
            parts in [0.0..=1.0, 0.0..=1.0],
        ) {
            let times = after_a_death(last, parts[0], &others, parts[1]);
            for (time, (earliest, latest)) in times.into_iter().zip(EARLIEST.into_iter().zip(LATEST)) {
                prop_assert!((at(earliest)..=at(latest)).contains(&time), "{times:?}");
            }
        }
    }
}
