use std::time::Duration;

use resile::fleet::State;

/// What operators are told: a state that lasts. Pure: time is an argument.
///
/// A state of a moment is not told. Otherwise a server at the edge of its time would fill the log,
/// and a member whose first answer is a little late would speak of an outage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notices {
    told: State,
    /// Another state, and its beginning.
    next: Option<(State, Duration)>,
    /// The beginning of a failure of some parts only, and whether it was told.
    partial: Option<(Duration, bool)>,
    /// The number of members told last, or 0.
    members: u32,
    /// Another number, and its beginning.
    counted: Option<(u32, Duration)>,
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

impl Notices {
    pub(super) const fn new() -> Self {
        Self { told: State::Joining, next: None, partial: None, members: 0, counted: None }
    }

    /// Returns the state that operators were told last.
    pub(super) const fn told(&self) -> State {
        self.told
    }

    /// Returns the state to tell while the member is in `state`.
    pub(super) fn tell(&mut self, state: State, now: Duration) -> State {
        if state == self.told {
            self.next = None;
            return state;
        }
        let since = match self.next {
            Some((next, since)) if next == state => since,
            _ => now,
        };
        self.next = Some((state, since));
        let is_first = self.told == State::Joining && state == State::Shared;
        if is_first || now >= since + LASTING {
            (self.told, self.next) = (state, None);
        }
        self.told
    }

    /// Returns the number of members if it has lasted and another one was told last. Members that join
    /// one after another are told once.
    pub(super) fn count(&mut self, members: u32, now: Duration) -> Option<u32> {
        if self.told != State::Shared || members == self.members {
            self.counted = None;
            return None;
        }
        let since = match self.counted {
            Some((counted, since)) if counted == members => since,
            _ => now,
        };
        self.counted = Some((members, since));
        (now >= since + SETTLING).then(|| {
            self.told_members(members);
            members
        })
    }

    /// Notes that operators were told the number of members.
    pub(super) const fn told_members(&mut self, members: u32) {
        (self.members, self.counted) = (members, None);
    }

    /// Notes whether some parts fail while the limits work. Returns a change that lasts.
    pub(super) fn note_partial(&mut self, fails: bool, now: Duration) -> Option<Partial> {
        match (fails, self.partial) {
            (true, None) => self.partial = Some((now, false)),
            (true, Some((since, false))) if now >= since + LASTING => {
                self.partial = Some((since, true));
                return Some(Partial::Begins);
            }
            (false, Some((_, was_told))) => {
                self.partial = None;
                return was_told.then_some(Partial::Ends);
            }
            _ => {}
        }
        None
    }

    /// Returns the time at which a state has lasted.
    pub(super) fn changes_at(&self) -> Option<Duration> {
        let next = self.next.map(|(_, since)| since);
        let partial = self.partial.filter(|(_, was_told)| !was_told).map(|(since, _)| since);
        let lasting = next.into_iter().chain(partial).map(|since| since + LASTING);
        lasting.chain(self.counted.map(|(_, since)| since + SETTLING)).min()
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!((notices.count(1, at(0)), notices.changes_at()), (None, None), "not shared yet");
        notices.tell(State::Shared, at(0));
        for (members, millis) in [(1, 0), (2, 1_000), (3, 2_000), (4, 3_000), (4, 4_499)] {
            assert_eq!(notices.count(members, at(millis)), None);
        }
        assert_eq!(notices.changes_at(), Some(at(4_500)));
        assert_eq!(notices.count(4, at(4_500)), Some(4));
        assert_eq!((notices.count(4, at(9_000)), notices.changes_at()), (None, None));
        assert_eq!(notices.count(3, at(10_000)), None);
        assert_eq!(notices.count(4, at(11_000)), None, "one was counted late");
        assert_eq!(notices.count(3, at(12_000)), None);
        assert_eq!(notices.count(3, at(13_500)), Some(3));
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
}
