use std::time::Duration;

use resile::fleet::State;

/// The state of one exchange with the store. Pure: time is an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    state: State,
    /// The time of the first failure since the last answer.
    failing_since: Option<Duration>,
    failures: u32,
    /// The time of the last failure.
    failed_at: Duration,
    learns_until: Duration,
}

/// The time without an answer after which a member uses its share.
pub(crate) const GRACE: Duration = Duration::from_millis(200);

/// The pause after the first failure. It doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Mode {
    pub(crate) const fn new() -> Self {
        Self {
            state: State::Joining,
            failing_since: None,
            failures: 0,
            failed_at: Duration::ZERO,
            learns_until: Duration::ZERO,
        }
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// Returns whether the member uses its share of the limits.
    pub(crate) const fn is_safe(&self) -> bool {
        matches!(self.state, State::Safe)
    }

    /// Returns the time of the last failure.
    pub(crate) const fn failed_at(&self) -> Duration {
        self.failed_at
    }

    /// Returns the earliest time of the next try. `None` if the last try had an answer.
    pub(crate) fn retry_at(&self) -> Option<Duration> {
        self.failing_since?;
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.saturating_sub(1).min(10));
        Some(self.failed_at + pause.min(LONGEST_PAUSE))
    }

    /// Notes an answer. After a long silence or a loss of data the member learns for `ttl`.
    pub(crate) fn answered(&mut self, now: Duration, has_lost_data: bool, ttl: Duration) {
        self.failing_since = None;
        self.failures = 0;
        self.state = match self.state {
            State::Safe => self.learn(now, ttl),
            _ if has_lost_data => self.learn(now, ttl),
            State::Learning if now < self.learns_until => State::Learning,
            _ => State::Shared,
        };
    }

    const fn learn(&mut self, now: Duration, ttl: Duration) -> State {
        self.learns_until = now.saturating_add(ttl);
        State::Learning
    }

    /// Notes a failure, for which the member has waited so long. The pause counts from before.
    pub(crate) fn failed(&mut self, now: Duration, waited: Duration) {
        self.failing_since.get_or_insert(now);
        self.failures = self.failures.saturating_add(1);
        self.failed_at = now.saturating_sub(waited);
        if matches!(self.state, State::Shared | State::Learning) {
            self.state = State::Coasting;
        }
    }

    /// Notes that the server did not answer something else. The next try is soon.
    pub(crate) fn doubt(&mut self, now: Duration) {
        if self.failing_since.is_none() {
            self.failed(now, Duration::ZERO);
        }
    }

    /// Lets time pass.
    pub(crate) fn tick(&mut self, now: Duration) {
        match (self.state, self.failing_since) {
            (State::Coasting | State::Joining, Some(since)) if now >= since + GRACE => {
                self.state = State::Safe;
            }
            (State::Learning, None) if now >= self.learns_until => self.state = State::Shared,
            _ => {}
        }
    }

    /// Returns the time at which [`tick`](Self::tick) changes the state.
    pub(crate) fn changes_at(&self) -> Option<Duration> {
        match (self.state, self.failing_since) {
            (State::Coasting | State::Joining, Some(since)) => Some(since + GRACE),
            (State::Learning, None) => Some(self.learns_until),
            _ => None,
        }
    }

    /// Orders states from good to bad.
    pub(crate) const fn badness(state: State) -> u8 {
        match state {
            State::Shared => 0,
            State::Learning => 1,
            State::Coasting => 3,
            State::Safe => 4,
            _ => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(2);

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_silent_store_leads_from_shared_over_coasting_to_safe_and_back_by_learning() {
        let mut mode = Mode::new();
        assert_eq!(mode.state(), State::Joining);
        mode.answered(at(0), false, TTL);
        assert_eq!(mode.state(), State::Shared);
        mode.failed(at(100), Duration::ZERO);
        mode.tick(at(299));
        assert_eq!((mode.state(), mode.changes_at()), (State::Coasting, Some(at(300))));
        mode.tick(at(300));
        assert_eq!(mode.state(), State::Safe);
        mode.answered(at(500), false, TTL);
        mode.tick(at(2_499));
        assert_eq!(mode.state(), State::Learning);
        mode.tick(at(2_500));
        assert_eq!(mode.state(), State::Shared);
    }

    #[test]
    fn one_lost_answer_is_no_reason_to_learn() {
        let mut mode = Mode::new();
        mode.answered(at(0), false, TTL);
        mode.failed(at(100), Duration::ZERO);
        mode.answered(at(250), false, TTL);
        assert_eq!(mode.state(), State::Shared);
        mode.answered(at(300), true, TTL);
        assert_eq!(mode.state(), State::Learning);
    }

    #[test]
    fn a_store_that_never_answered_leads_to_safe() {
        let mut mode = Mode::new();
        mode.failed(at(50), Duration::ZERO);
        mode.tick(at(250));
        assert!(mode.is_safe());
    }

    #[test]
    fn the_pauses_between_tries_double_up_to_a_second() {
        let mut mode = Mode::new();
        let pauses: Vec<_> = (0..6)
            .map(|_| {
                mode.failed(at(0), Duration::ZERO);
                mode.retry_at().unwrap().as_millis()
            })
            .collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1_000, 1_000]);
    }
}
