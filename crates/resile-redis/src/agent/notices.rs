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
}

/// The time for which a state must last.
const LASTING: Duration = Duration::from_millis(500);

/// A change of a failure of some parts only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Partial {
    Begins,
    Ends,
}

impl Notices {
    pub(super) const fn new() -> Self {
        Self { told: State::Joining, next: None, partial: None }
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
        next.into_iter().chain(partial).min().map(|since| since + LASTING)
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
