use std::time::Duration;

/// Notices that calls wait and nothing is granted, although the server answers. Pure: time is an
/// argument.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarm {
    /// The time since which calls lack units and got none.
    since: Option<Duration>,
    is_on: bool,
}

/// A change of an [`Alarm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing was granted for so long.
    Begins(Duration),
    /// Units are granted again, or no call waits.
    Ends,
}

/// The time without a grant after which the alarm begins.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

impl Alarm {
    /// Notes that units were granted.
    pub(crate) const fn granted(&mut self, now: Duration) {
        if self.since.is_some() {
            self.since = Some(now);
        }
    }

    /// Looks at the calls. `lacks` says that the first of them needs more units than the process
    /// has, and that the server answers. `pace` is the time in which the limit gives one process
    /// these units.
    pub(crate) fn look(&mut self, lacks: bool, pace: Duration, now: Duration) -> Option<Change> {
        let Some(since) = self.since else {
            self.since = lacks.then_some(now);
            return None;
        };
        let silence = now.saturating_sub(since);
        // A limit of a few units an hour does not cause an alarm.
        let is_long = silence >= PATIENCE.saturating_add(pace.saturating_mul(2));
        if !lacks {
            self.since = None;
        }
        match (self.is_on, lacks && is_long) {
            (false, true) => {
                self.is_on = true;
                Some(Change::Begins(silence))
            }
            (true, false) => {
                self.is_on = false;
                Some(Change::Ends)
            }
            _ => None,
        }
    }

    /// Returns the time without a grant while the alarm is on.
    pub(crate) fn lasts(&self, now: Duration) -> Option<Duration> {
        self.since.filter(|_| self.is_on).map(|since| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn an_episode_is_said_once_at_both_ends() {
        let mut alarm = Alarm::default();
        assert_eq!(alarm.look(true, at(0), at(1_000)), None);
        assert_eq!(alarm.look(true, at(0), at(5_999)), None);
        assert_eq!(alarm.look(true, at(0), at(6_000)), Some(Change::Begins(at(5_000))));
        assert_eq!(alarm.look(true, at(0), at(9_000)), None);
        assert_eq!(alarm.lasts(at(9_000)), Some(at(8_000)));
        alarm.granted(at(9_100));
        assert_eq!(alarm.look(true, at(0), at(9_200)), Some(Change::Ends));
        assert_eq!(alarm.lasts(at(9_200)), None);
        assert_eq!(alarm.look(true, at(0), at(14_100)), Some(Change::Begins(at(5_000))));
        assert_eq!(alarm.look(false, at(0), at(15_000)), Some(Change::Ends));
        assert_eq!(alarm.look(false, at(0), at(30_000)), None);
    }

    #[test]
    fn a_grant_or_a_call_that_ends_begins_anew() {
        let mut alarm = Alarm::default();
        for second in 0..20 {
            assert_eq!(alarm.look(true, at(0), at(second * 1_000)), None);
            alarm.granted(at(second * 1_000));
        }
        for second in 20..40 {
            assert_eq!(alarm.look(second % 4 != 0, at(0), at(second * 1_000)), None);
        }
    }

    #[test]
    fn a_slow_limit_has_more_time() {
        let mut alarm = Alarm::default();
        for second in 0..25 {
            assert_eq!(alarm.look(true, at(10_000), at(second * 1_000)), None);
        }
        assert!(alarm.look(true, at(10_000), at(25_000)).is_some());
        let mut alarm = Alarm::default();
        assert_eq!(alarm.look(true, Duration::MAX, at(0)), None);
        assert_eq!(alarm.look(true, Duration::MAX, at(1 << 40)), None);
    }
}
