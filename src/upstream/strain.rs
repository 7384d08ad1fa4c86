use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use super::surge::{PERIOD, QUIET};
use crate::sync::AtomicU64;

/// What a part does to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// It makes the attempt wait.
    Waits,
    /// It makes an attempt wait that is counted already.
    Again,
    Refused,
    /// It ends the wait of an attempt without an admission. The wait is counted already.
    Ends,
    /// It refuses the attempt because too many wait.
    Full,
}

impl Limited {
    /// Returns whether this is a wait or a refusal that is not counted yet.
    pub(super) fn counts(self) -> bool {
        self != Self::Again
    }

    #[cfg(feature = "fleet")]
    pub(super) const fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::Ends | Self::Full)
    }

    /// Returns whether the attempt comes new to the part.
    #[cfg(feature = "fleet")]
    pub(super) const fn is_new(self) -> bool {
        !matches!(self, Self::Again | Self::Ends)
    }
}

/// The strain on a part: since when it makes calls wait or refuses them, and how often.
///
/// A strain ends only after [`QUIET`] without a wait or a refusal. A part at its limit would
/// otherwise begin and end a strain with every few calls.
pub(super) struct Strain {
    /// The start in milliseconds plus 1, and below it the number of waits and refusals. 0 without a
    /// strain.
    word: AtomicU64,
    /// The time of the latest refusal, or of the start or the end of the latest wait, or the end of the
    /// latest hold, in milliseconds.
    last: AtomicU64,
    /// The refusals, and [`FULL`] after one that was told.
    refused: AtomicU64,
    /// The time of the latest report, in milliseconds. A line that comes early or twice is no harm, so it is
    /// not a subject of a model and always the standard library's.
    told: atomic::AtomicU64,
}

const FULL: u64 = 1 << 63;
const TIMES_BITS: u32 = 20;
const TIMES: u64 = (1 << TIMES_BITS) - 1;
/// The largest start: the times beside it are those of 557 years.
const LATEST: u64 = (1 << (u64::BITS - TIMES_BITS)) - 2;

/// A strain that has ended, or its numbers until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// The time from the first wait or refusal to the end of the last one.
    pub(super) lasted: Duration,
    /// The time from the end of the last wait or refusal until now.
    pub(super) ago: Duration,
    /// The number of waits and refusals.
    pub(super) times: u64,
    /// The number of refusals among them.
    pub(super) refused: u64,
    /// The number of holds of a cooldown.
    pub(super) holds: u64,
}

impl Ended {
    /// Creates the strain of these times in milliseconds.
    pub(super) const fn new(began: u64, last: u64, now: u64, times: u64) -> Self {
        let lasted = Duration::from_millis(last.saturating_sub(began));
        Self {
            lasted,
            ago: Duration::from_millis(now.saturating_sub(last)),
            times,
            refused: 0,
            holds: 0,
        }
    }
}

impl Strain {
    pub(super) const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            last: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            told: atomic::AtomicU64::new(0),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.word.load(Ordering::Acquire) != 0
    }

    /// Lets the last wait or refusal end at `until` at least. Returns its end before.
    pub(super) fn reach(&self, until: u64) -> u64 {
        self.last.fetch_max(until, Ordering::AcqRel)
    }

    /// Counts `times` waits or refusals. Returns true for exactly one call of each strain, the one that begins
    /// it.
    pub(super) fn note(&self, now: u64, times: u64) -> bool {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word == 0 {
                self.told.store(now, Ordering::Relaxed); // before others see the strain
            }
            let next = match word {
                0 => (now.min(LATEST) + 1) << TIMES_BITS | times.min(TIMES),
                _ => word & !TIMES | (word & TIMES).saturating_add(times).min(TIMES),
            };
            match self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return word == 0,
                Err(seen) => word = seen,
            }
        }
    }

    /// Returns the strain up to `now` if it goes on and its report is due, to one caller. `periods` is the
    /// number of periods between two reports.
    pub(super) fn goes_on(&self, now: u64, periods: u64) -> Option<Ended> {
        let word = self.word.load(Ordering::Acquire);
        let began = (word >> TIMES_BITS).checked_sub(1)?;
        let told = self.told.load(Ordering::Relaxed);
        if now < told.saturating_add(PERIOD.saturating_mul(periods)) {
            return None;
        }
        self.told.compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        let refused = self.refused.load(Ordering::Acquire) & !FULL;
        let strain = Ended::new(began, now, now, word & TIMES);
        Some(Ended { refused: refused.min(strain.times), ..strain })
    }

    /// Counts a refusal that is noted too. Returns true for the first one of the strain that is
    /// [`Full`](Limited::Full).
    pub(super) fn refuse(&self, limited: Limited) -> bool {
        let more = match limited {
            Limited::Waits | Limited::Again => return false,
            Limited::Refused | Limited::Ends => 0,
            Limited::Full => FULL,
        };
        let count = |word: u64| {
            let times = (word & !FULL).saturating_add(1).min(TIMES);
            Some(word & FULL | more | times)
        };
        let before = self.refused.fetch_update(Ordering::AcqRel, Ordering::Acquire, count);
        more != 0 && before.is_ok_and(|before| before & FULL == 0)
    }

    /// Counts refusals before the strain that belong to it.
    #[cfg(feature = "fleet")]
    pub(super) fn refused_before(&self, refused: u64) {
        self.refused.fetch_add(refused.min(TIMES), Ordering::AcqRel);
    }

    /// Adds the refusals to a strain that has ended. One that comes at this moment is of the next strain.
    fn with_refused(&self, ended: Ended) -> Ended {
        let refused = self.refused.swap(0, Ordering::AcqRel) & !FULL;
        Ended { refused: refused.min(ended.times), ..ended }
    }

    /// Ends the strain at once. Returns the strain up to `now` to exactly one caller.
    #[cfg(feature = "fleet")]
    pub(super) fn cut(&self, now: u64) -> Option<Ended> {
        let word = self.word.swap(0, Ordering::AcqRel);
        let began = (word >> TIMES_BITS).checked_sub(1)?;
        let last = self.last.load(Ordering::Acquire).min(now);
        Some(self.with_refused(Ended::new(began, last, now, word & TIMES)))
    }

    /// Ends the strain after a quiet time. Returns it to exactly one caller.
    pub(super) fn end(&self, now: u64) -> Option<Ended> {
        let word = self.word.load(Ordering::Acquire);
        let last = self.last.load(Ordering::Acquire);
        if word == 0 || now < last.saturating_add(QUIET) {
            return None;
        }
        self.word.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // A new hold that counts nothing leaves the word alone. Then the strain goes on, unless
        // another one has begun.
        if self.last.load(Ordering::Acquire) != last {
            let goes_on = self.word.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed);
            goes_on.err()?;
            return Some(self.with_refused(Ended::new(last, last, now, word & TIMES)));
        }
        let began = (word >> TIMES_BITS) - 1;
        Some(self.with_refused(Ended::new(began, last, now, word & TIMES)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Strain {
        fn reach_and_note(&self, now: u64, until: u64, times: u64) -> bool {
            self.reach(until);
            self.note(now, times)
        }
    }

    #[test]
    fn a_strain_that_goes_on_is_told_once_a_minute() {
        let strain = Strain::new();
        assert_eq!(strain.goes_on(1_000_000, 1), None);
        let told: Vec<_> = (0..1_300)
            .filter_map(|n| {
                let now = 7_000 + n * 100;
                strain.reach_and_note(now, now, 1);
                strain.refuse(if n % 10 == 0 { Limited::Refused } else { Limited::Waits });
                strain.goes_on(now, 1)
            })
            .collect();
        let until = |n: u64, refused| {
            let now = 7_000 + n * 100;
            Ended { refused, ..Ended::new(7_000, now, now, n + 1) }
        };
        assert_eq!(told, [until(600, 61), until(1_200, 121)]);
        let now = 7_000 + 1_200 * 100 + 2 * PERIOD;
        assert_eq!(strain.goes_on(now - 1, 2), None, "a fleet of two");
        assert!(strain.goes_on(now, 2).is_some());
        assert!(strain.end(u64::MAX).is_some() && strain.goes_on(u64::MAX, 1).is_none());
        assert!(strain.reach_and_note(now, now, 1) && strain.goes_on(now, 1).is_none());
    }

    #[test]
    fn numbers_saturate() {
        let strain = Strain::new();
        assert!(strain.reach_and_note(u64::MAX, u64::MAX, u64::MAX));
        assert!(!strain.reach_and_note(u64::MAX, u64::MAX, u64::MAX));
        let Ended { lasted, times, .. } = strain.end(u64::MAX).unwrap();
        assert_eq!((lasted > Duration::ZERO, times), (true, TIMES));
    }
}
