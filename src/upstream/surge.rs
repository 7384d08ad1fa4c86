use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The failures of an upstream after which a retry is announced, and whether so many come that a line for
/// each would flood the log.
///
/// A surge begins with [`MANY`] failures within [`QUIET`], and ends after [`QUIET`] without one. All times are
/// in milliseconds.
// Each of these failures takes the lock. A call without a retry never does.
pub(super) struct Surge(Mutex<Course>);

/// The number of failures that begins a surge.
const MANY: u64 = 10;
const QUIET: u64 = 10_000;
/// The time between two reports of a surge that goes on.
const PERIOD: u64 = 60_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Course {
    is_surge: bool,
    failures: u64,
    began: u64,
    /// The time of the latest failure.
    last: u64,
    /// The time of the latest report.
    told: u64,
}

/// The report of a surge that begins or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) failures: u64,
    /// The time from the first of these failures to the last.
    pub(super) lasted: Duration,
    pub(super) begins: bool,
}

/// A surge that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) failures: u64,
    /// The time from the first failure to the last.
    pub(super) lasted: Duration,
    /// The time from the last failure until now.
    pub(super) ago: Duration,
}

impl Course {
    /// Returns the course after a failure at `now`, and the report that is due.
    fn then(self, now: u64) -> (Self, Option<Told>) {
        let has_passed = !self.is_surge && now.saturating_sub(self.began) >= QUIET;
        let first = Self { began: now, ..Self::default() };
        let course = if has_passed || self.failures == 0 { first } else { self };
        let failures = course.failures.saturating_add(1);
        let last = course.last.max(now);
        let course = Self { failures, last, ..course };
        let begins = !course.is_surge && failures >= MANY;
        let is_due = course.is_surge && now.saturating_sub(course.told) >= PERIOD;
        if !begins && !is_due {
            return (course, None);
        }
        let lasted = Duration::from_millis(last.saturating_sub(course.began));
        (Self { is_surge: true, told: now, ..course }, Some(Told { failures, lasted, begins }))
    }

    /// Returns the surge if it is over at `now`.
    fn over(self, now: u64) -> Option<Over> {
        let Self { is_surge, failures, began, last, .. } = self;
        let is_over = is_surge && now.saturating_sub(last) >= QUIET;
        is_over.then(|| Over {
            failures,
            lasted: Duration::from_millis(last.saturating_sub(began)),
            ago: Duration::from_millis(now.saturating_sub(last)),
        })
    }
}

impl Surge {
    pub(super) const fn new() -> Self {
        let course = Course { is_surge: false, failures: 0, began: 0, last: 0, told: 0 };
        Self(Mutex::new(course))
    }

    /// Counts a failure. Returns the report that is due, to one caller.
    pub(super) fn note(&self, now: u64) -> Option<Told> {
        let mut course = self.lock();
        let (next, told) = course.then(now);
        *course = next;
        told
    }

    /// Ends the surge after a quiet time. Returns it to exactly one caller.
    pub(super) fn end(&self, now: u64) -> Option<Over> {
        let mut course = self.lock();
        let over = course.over(now)?;
        *course = Course::default();
        Some(over)
    }

    /// Returns whether there is a surge.
    pub(super) fn is_on(&self) -> bool {
        self.lock().is_surge
    }

    fn lock(&self) -> MutexGuard<'_, Course> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn many_failures_at_once_are_told_once_and_then_once_a_minute() {
        let surge = Surge::new();
        let told: Vec<_> = (0..1_300).filter_map(|n| surge.note(n * 100)).collect();
        assert_eq!(
            told,
            [
                Told { failures: 10, lasted: ms(900), begins: true },
                Told { failures: 610, lasted: ms(60_900), begins: false },
                Told { failures: 1_210, lasted: ms(120_900), begins: false },
            ]
        );
        let last = 129_900;
        assert!(surge.is_on() && surge.end(last + QUIET - 1).is_none());
        let over = Over { failures: 1_300, lasted: ms(last), ago: ms(QUIET) };
        assert_eq!(surge.end(last + QUIET), Some(over));
        assert!(!surge.is_on() && surge.end(u64::MAX).is_none());
    }

    #[test]
    fn rare_failures_are_no_surge() {
        let surge = Surge::new();
        assert!((0..1_000).all(|n| surge.note(n * QUIET / (MANY - 1)).is_none()));
        assert!(!surge.is_on() && surge.end(u64::MAX).is_none());
    }

    proptest! {
        /// A surge has one start, at least `MANY` failures and one end, and no failure is lost. The failures
        /// without a report in a minute are those of a surge, but for the first ones of each window.
        #[test]
        fn each_surge_begins_and_ends_once(steps in prop::collection::vec((0_u64..15_000, any::<bool>()), 0..400)) {
            let (surge, mut now, mut open, mut since_told) = (Surge::new(), 0, None, 0);
            for (step, is_success) in steps {
                now += step;
                if let Some(over) = surge.end(now) {
                    prop_assert_eq!(open.take(), Some(over.failures));
                    prop_assert!(over.ago >= ms(QUIET));
                }
                if is_success {
                    continue;
                }
                let was_on = surge.is_on();
                let told = surge.note(now);
                if let Some(told) = told {
                    prop_assert_eq!(told.begins, !was_on);
                    prop_assert!(told.failures >= MANY);
                    prop_assert!(!told.begins || told.lasted < ms(QUIET));
                    since_told = now;
                }
                prop_assert_eq!(surge.is_on(), was_on || told.is_some());
                if surge.is_on() {
                    prop_assert!(now - since_told < PERIOD);
                    let before = open.unwrap_or(MANY - 1);
                    open = Some(before + 1);
                }
            }
            if let Some(over) = surge.end(u64::MAX) {
                prop_assert_eq!(open, Some(over.failures));
            }
        }
    }
}
