use std::time::Duration;

/// Notices that calls wait and nothing is granted, although the server answers. Pure: time is an
/// argument.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarm {
    /// The time since which calls lack units and got none.
    since: Option<Duration>,
    /// The time of the last look.
    looked_at: Duration,
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
/// The time between two looks from which on the process did not run between them. A task whose calls wait looks
/// about once a second at least.
const STOPPED: Duration = Duration::from_secs(2);

impl Alarm {
    /// Notes that units were granted.
    pub(crate) const fn granted(&mut self, now: Duration) {
        if self.since.is_some() {
            self.since = Some(now);
        }
    }

    /// Looks at the calls. `lacks` says that the first of them needs more units than the process
    /// has, and that the server answers. `pace` is the time in which the limit gives one process
    /// these units. A process that did not run has not asked, so before the alarm its time begins anew.
    pub(crate) fn look(&mut self, lacks: bool, pace: Duration, now: Duration) -> Option<Change> {
        let looked_at = std::mem::replace(&mut self.looked_at, now);
        let has_stopped = !self.is_on && now.saturating_sub(looked_at) > STOPPED;
        let Some(since) = self.since.filter(|_| !has_stopped) else {
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
        for second in 1..6 {
            assert_eq!(alarm.look(true, at(0), at(second * 1_000)), None);
        }
        assert_eq!(alarm.look(true, at(0), at(5_999)), None);
        assert_eq!(alarm.look(true, at(0), at(6_000)), Some(Change::Begins(at(5_000))));
        assert_eq!(alarm.look(true, at(0), at(9_000)), None);
        assert_eq!(alarm.lasts(at(9_000)), Some(at(8_000)));
        alarm.granted(at(9_100));
        assert_eq!(alarm.look(true, at(0), at(9_200)), Some(Change::Ends));
        assert_eq!(alarm.lasts(at(9_200)), None);
        for millis in [10_500, 12_000, 13_500] {
            assert_eq!(alarm.look(true, at(0), at(millis)), None);
        }
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
        for second in 0..100 {
            assert_eq!(alarm.look(true, Duration::MAX, at(second * 1_000)), None);
        }
    }

    /// It was stopped, as by a pause of its machine. So it has not asked the store meanwhile.
    #[test]
    fn the_time_in_which_the_process_did_not_run_does_not_count() {
        let mut alarm = Alarm::default();
        for millis in [0, 1_000, 2_000, 8_000, 8_010, 10_000, 12_000] {
            assert_eq!(alarm.look(true, at(0), at(millis)), None);
        }
        assert_eq!(alarm.look(true, at(0), at(13_000)), Some(Change::Begins(at(5_000))));
        assert_eq!(alarm.look(true, at(0), at(19_000)), None, "the alarm goes on");
        assert_eq!(alarm.lasts(at(19_000)), Some(at(11_000)));
        assert_eq!(alarm.look(false, at(0), at(19_100)), Some(Change::Ends));
    }
}
