use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::observe::Kinds;

/// The failures of an upstream after which a retry is announced, and whether so many come that a line for
/// each would flood the log.
///
/// A surge begins with [`MANY`] failures within [`QUIET`], and ends after [`QUIET`] without one. All times are
/// in milliseconds.
// Each of these failures takes the lock. A call without a retry does at the end of a surge only.
pub(super) struct Surge {
    /// The time after which the surge is over, or [`NEVER`] without one.
    ends_at: AtomicU64,
    seen: Mutex<Seen>,
}

/// The failures that a surge counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SurgeOf {
    /// Retries after errors of a healthy upstream.
    Healthy,
    /// Failures after which a retry is announced.
    Failures,
    /// Calls that give up in an alternative of a fallback.
    Alternatives,
    /// Calls that end at their first attempt, in a row: no attempt between them shows a healthy upstream.
    Ends,
}

impl SurgeOf {
    pub(super) const ALL: [Self; 4] =
        [Self::Healthy, Self::Failures, Self::Alternatives, Self::Ends];
}

const NEVER: u64 = u64::MAX;

/// The failures and the types of their errors.
#[derive(Debug)]
struct Seen {
    course: Course,
    kinds: Kinds,
}

/// The number of failures that begins a surge.
pub(super) const MANY: u64 = 10;
/// The time in milliseconds after which a surge or a strain has ended: without a failure, or without a wait or a
/// refusal.
pub(super) const QUIET: u64 = 10_000;
/// The time in milliseconds between two reports of a surge or a strain that goes on.
pub(super) const PERIOD: u64 = 60_000;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) failures: u64,
    /// The time from the first of these failures to the last.
    pub(super) lasted: Duration,
    pub(super) begins: bool,
    pub(super) kinds: Kinds,
}

/// A surge that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) failures: u64,
    /// The time from the first failure to the last.
    pub(super) lasted: Duration,
    /// The time from the last failure until now.
    pub(super) ago: Duration,
    pub(super) kinds: Kinds,
}

impl Course {
    /// Returns the course after a failure at `now`, and whether a report is due.
    fn then(self, now: u64) -> (Self, bool) {
        let has_passed = !self.is_surge && now.saturating_sub(self.began) >= QUIET;
        let first = Self { began: now, ..Self::default() };
        let course = if has_passed || self.failures == 0 { first } else { self };
        let failures = course.failures.saturating_add(1);
        let last = course.last.max(now);
        let course = Self { failures, last, ..course };
        let begins = !course.is_surge && failures >= MANY;
        let is_due = course.is_surge && now.saturating_sub(course.told) >= PERIOD;
        if !begins && !is_due {
            return (course, false);
        }
        (Self { is_surge: true, told: now, ..course }, true)
    }

    /// Returns the time from the first failure to the last.
    const fn lasted(self) -> Duration {
        Duration::from_millis(self.last.saturating_sub(self.began))
    }

    /// Returns the time after which the surge is over.
    const fn ends_at(self) -> u64 {
        if self.is_surge { self.last.saturating_add(QUIET) } else { NEVER }
    }
}

impl Surge {
    pub(super) const fn new() -> Self {
        let course = Course { is_surge: false, failures: 0, began: 0, last: 0, told: 0 };
        let seen = Seen { course, kinds: Kinds::new() };
        Self { ends_at: AtomicU64::new(NEVER), seen: Mutex::new(seen) }
    }

    /// Counts a failure with an error of this type. Returns the report that is due, to one caller.
    pub(super) fn note(&self, now: u64, kind: Option<&str>) -> Option<Told> {
        let mut seen = self.lock();
        let (course, is_due) = seen.course.then(now);
        if course.failures == 1 {
            seen.kinds.clear();
        }
        seen.kinds.note(kind);
        let begins = !seen.course.is_surge;
        seen.course = course;
        self.ends_at.store(course.ends_at(), Ordering::Relaxed);
        is_due.then(|| {
            let (failures, lasted) = (course.failures, course.lasted());
            Told { failures, lasted, begins, kinds: seen.kinds.clone() }
        })
    }

    /// Forgets the failures that are no surge yet.
    pub(super) fn forget(&self) {
        let mut seen = self.lock();
        if !seen.course.is_surge {
            seen.course = Course::default();
        }
    }

    /// Ends the surge after a quiet time. Returns it to exactly one caller.
    pub(super) fn end(&self, now: u64) -> Option<Over> {
        // The report of each attempt asks, so it takes no lock in a surge that goes on.
        if !self.is_on() || now < self.ends_at.load(Ordering::Relaxed) {
            return None;
        }
        let mut seen = self.lock();
        let course = seen.course;
        if !course.is_surge || now < course.ends_at() {
            return None;
        }
        seen.course = Course::default();
        self.ends_at.store(NEVER, Ordering::Relaxed);
        Some(Over {
            failures: course.failures,
            lasted: course.lasted(),
            ago: Duration::from_millis(now.saturating_sub(course.last)),
            kinds: std::mem::take(&mut seen.kinds),
        })
    }

    /// Returns whether there is a surge.
    pub(super) fn is_on(&self) -> bool {
        self.ends_at.load(Ordering::Relaxed) != NEVER
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
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
        let kinds = |count| {
            let mut kinds = Kinds::new();
            (0..count).for_each(|_| kinds.note(Some("503")));
            kinds
        };
        let told: Vec<_> = (0..1_300).filter_map(|n| surge.note(n * 100, Some("503"))).collect();
        assert_eq!(
            told,
            [
                Told { failures: 10, lasted: ms(900), begins: true, kinds: kinds(10) },
                Told { failures: 610, lasted: ms(60_900), begins: false, kinds: kinds(610) },
                Told { failures: 1_210, lasted: ms(120_900), begins: false, kinds: kinds(1_210) },
            ]
        );
        let last = 129_900;
        assert!(surge.is_on() && surge.end(last + QUIET - 1).is_none());
        let over = Over { failures: 1_300, lasted: ms(last), ago: ms(QUIET), kinds: kinds(1_300) };
        assert_eq!(surge.end(last + QUIET), Some(over));
        assert!(!surge.is_on() && surge.end(u64::MAX).is_none());
    }

    #[test]
    fn rare_failures_are_no_surge() {
        let surge = Surge::new();
        assert!((0..1_000).all(|n| surge.note(n * QUIET / (MANY - 1), None).is_none()));
        assert!(!surge.is_on() && surge.end(u64::MAX).is_none());
    }

    #[test]
    fn what_is_forgotten_begins_no_surge_and_ends_none() {
        let surge = Surge::new();
        (0..MANY - 1).for_each(|now| assert_eq!(surge.note(now, None), None));
        surge.forget();
        let told: Vec<_> = (20..20 + MANY).filter_map(|now| surge.note(now, None)).collect();
        assert!(matches!(&told[..], [Told { failures: MANY, begins: true, .. }]), "{told:?}");
        surge.forget();
        assert!(surge.is_on() && surge.end(20 + MANY + QUIET).is_some());
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
                let told = surge.note(now, None);
                let is_told = told.is_some();
                if let Some(told) = told {
                    prop_assert_eq!(told.begins, !was_on);
                    prop_assert!(told.failures >= MANY);
                    prop_assert!(!told.begins || told.lasted < ms(QUIET));
                    since_told = now;
                }
                prop_assert_eq!(surge.is_on(), was_on || is_told);
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
