use std::fmt;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use super::surge::{Over, PERIOD, QUIET, Surge, Told};
use crate::observe::HeldBy;
use crate::sync::AtomicU64;

/// The strain on the parts of an upstream: which of them make calls wait or refuse them, since when
/// and how often. An observer gets an event for the start and one for the end of each strain.
///
/// A strain ends only after [`QUIET`] without a wait or a refusal. A part at its limit would
/// otherwise begin and end a strain with every few calls.
pub(crate) struct Strains {
    /// The number of strains and surges. Modulo 2^64, as an end may be counted before its start. Each report reads
    /// it as a hint, so it is not a subject of a model and is always the standard library's.
    active: atomic::AtomicU64,
    parts: [Strain; 5],
    /// The holds of the cooldown within its strain. A line has them, so they are not a subject of a model and
    /// always the standard library's.
    holds: atomic::AtomicU64,
    surge: Surge,
    /// The same for the retries on a healthy upstream.
    healthy: Surge,
}

/// What a part does to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// It makes the attempt wait.
    Waits,
    /// It makes an attempt wait that is counted already.
    Again,
    Refused,
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
        matches!(self, Self::Refused | Self::Full)
    }
}

struct Strain {
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
    const fn new(began: u64, last: u64, now: u64, times: u64) -> Self {
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
    const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            last: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            told: atomic::AtomicU64::new(0),
        }
    }

    /// Lets the last wait or refusal end at `until` at least. Returns its end before.
    fn reach(&self, until: u64) -> u64 {
        self.last.fetch_max(until, Ordering::AcqRel)
    }

    /// Counts `times` waits or refusals. Returns true for exactly one call of each strain, the one that begins
    /// it.
    fn note(&self, now: u64, times: u64) -> bool {
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
    fn goes_on(&self, now: u64, periods: u64) -> Option<Ended> {
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
    fn refuse(&self, limited: Limited) -> bool {
        let more = match limited {
            Limited::Waits | Limited::Again => return false,
            Limited::Refused => 0,
            Limited::Full => FULL,
        };
        let count = |word: u64| {
            let times = (word & !FULL).saturating_add(1).min(TIMES);
            Some(word & FULL | more | times)
        };
        let before = self.refused.fetch_update(Ordering::AcqRel, Ordering::Acquire, count);
        more != 0 && before.is_ok_and(|before| before & FULL == 0)
    }

    /// Adds the refusals to a strain that has ended. One that comes at this moment is of the next strain.
    fn count_refused(&self, ended: Ended) -> Ended {
        let refused = self.refused.swap(0, Ordering::AcqRel) & !FULL;
        Ended { refused: refused.min(ended.times), ..ended }
    }

    /// Ends the strain at once. Returns the strain up to `now` to exactly one caller.
    #[cfg(feature = "fleet")]
    fn cut(&self, now: u64) -> Option<Ended> {
        let word = self.word.swap(0, Ordering::AcqRel);
        let began = (word >> TIMES_BITS).checked_sub(1)?;
        let last = self.last.load(Ordering::Acquire).min(now);
        Some(Ended::new(began, last, now, word & TIMES))
    }

    /// Ends the strain after a quiet time. Returns it to exactly one caller.
    fn end(&self, now: u64) -> Option<Ended> {
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
            return goes_on.err().map(|_| Ended::new(last, last, now, word & TIMES));
        }
        let began = (word >> TIMES_BITS) - 1;
        Some(Ended::new(began, last, now, word & TIMES))
    }
}

impl Strains {
    pub(super) const fn new() -> Self {
        let parts = [const { Strain::new() }; 5];
        Self {
            active: atomic::AtomicU64::new(0),
            parts,
            holds: atomic::AtomicU64::new(0),
            surge: Surge::new(),
            healthy: Surge::new(),
        }
    }

    /// Returns whether any part is under strain, or there is a surge.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.active.load(Ordering::Relaxed) != 0
    }

    /// Returns whether a part is under strain.
    pub(super) fn has(&self, by: HeldBy) -> bool {
        self.of(by).is_some_and(|strain| strain.word.load(Ordering::Relaxed) != 0)
    }

    /// Counts `times` waits or refusals by a part. `until` is the time at which the last of them ends.
    /// Returns true for exactly one call of each strain, the one that begins it.
    pub(super) fn note(&self, by: HeldBy, now: u64, until: u64, times: u64) -> bool {
        let Some(strain) = self.of(by) else { return false };
        // Before the word: an end that sees the old word sees the new time, or its exchange fails.
        self.count_hold(by, strain.reach(until), now, until);
        let begins = strain.note(now, times);
        if begins {
            self.active.fetch_add(1, Ordering::Relaxed);
        }
        begins
    }

    /// Counts refusals before a strain that belong to it.
    #[cfg(feature = "fleet")]
    pub(super) fn refused_before(&self, by: HeldBy, refused: u64) {
        if let Some(strain) = self.of(by).filter(|_| refused > 0) {
            strain.refused.fetch_add(refused.min(TIMES), Ordering::AcqRel);
        }
    }

    /// Counts what [`note`](Self::note) has counted as a refusal, if it is one. Returns true for the first
    /// refusal of a strain that is [`Full`](Limited::Full).
    pub(super) fn refuse(&self, by: HeldBy, limited: Limited) -> bool {
        self.of(by).is_some_and(|strain| strain.refuse(limited))
    }

    /// Returns a strain that goes on at `now` after so many minutes without a report, to one caller.
    pub(super) fn goes_on(&self, by: HeldBy, now: u64, minutes: u64) -> Option<Ended> {
        let strain = self.of(by)?.goes_on(now, minutes)?;
        let is_held = by == HeldBy::Cooldown;
        let holds = if is_held { self.holds.load(Ordering::Relaxed) } else { 0 };
        Some(Ended { holds, ..strain })
    }

    /// Lets a strain last until `until` at least, because a wait ends or another member holds all calls.
    pub(super) fn prolong(&self, by: HeldBy, now: u64, until: u64) {
        let strain = self.of(by).filter(|strain| strain.word.load(Ordering::Acquire) != 0);
        if let Some(strain) = strain {
            self.count_hold(by, strain.reach(until), now, until);
        }
    }

    /// Counts a hold of the cooldown that begins after `last`, the end of the one before.
    fn count_hold(&self, by: HeldBy, last: u64, now: u64, until: u64) {
        if by == HeldBy::Cooldown && last <= now && now < until {
            self.holds.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds the refusals and the holds to a strain that has ended.
    fn counted(&self, by: HeldBy, strain: &Strain, ended: Ended) -> Ended {
        let is_held = by == HeldBy::Cooldown;
        let holds = if is_held { self.holds.swap(0, Ordering::Relaxed) } else { 0 };
        Ended { holds, ..strain.count_refused(ended) }
    }

    pub(super) fn end(&self, by: HeldBy, now: u64) -> Option<Ended> {
        let strain = self.of(by)?;
        let ended = strain.end(now)?;
        self.active.fetch_sub(1, Ordering::Relaxed);
        Some(self.counted(by, strain, ended))
    }

    #[cfg(feature = "fleet")]
    pub(super) fn cut(&self, by: HeldBy, now: u64) -> Option<Ended> {
        let strain = self.of(by)?;
        let ended = strain.cut(now)?;
        self.active.fetch_sub(1, Ordering::Relaxed);
        Some(self.counted(by, strain, ended))
    }

    /// Counts an error of this type after which a retry is announced: a failure, or an error of a healthy
    /// upstream. Returns the report of a surge that is due.
    pub(super) fn note_failure(
        &self,
        is_healthy: bool,
        now: u64,
        kind: Option<&str>,
    ) -> Option<Told> {
        let told = self.surge_of(is_healthy).note(now, kind)?;
        if told.begins {
            self.active.fetch_add(1, Ordering::Relaxed);
        }
        Some(told)
    }

    pub(super) fn end_surge(&self, is_healthy: bool, now: u64) -> Option<Over> {
        let over = self.surge_of(is_healthy).end(now)?;
        self.active.fetch_sub(1, Ordering::Relaxed);
        Some(over)
    }

    const fn surge_of(&self, is_healthy: bool) -> &Surge {
        if is_healthy { &self.healthy } else { &self.surge }
    }

    /// Returns whether there is a surge of failures.
    pub(super) fn is_surge(&self) -> bool {
        self.is_any() && self.surge.is_on()
    }

    /// Returns the strain of a part. The breaker has its own events.
    fn of(&self, by: HeldBy) -> Option<&Strain> {
        let index = match by {
            HeldBy::Budget => 0,
            HeldBy::Bulkhead => 1,
            HeldBy::Quota => 2,
            HeldBy::Cooldown => 3,
            HeldBy::Throttle => 4,
            HeldBy::Breaker => return None,
        };
        self.parts.get(index)
    }
}

impl fmt::Debug for Strains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Strains").field("is_any", &self.is_any()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: HeldBy = HeldBy::Quota;

    #[test]
    fn a_hold_counts_if_it_begins_after_the_one_before() {
        let (strains, by) = (Strains::new(), HeldBy::Cooldown);
        assert!(strains.note(by, 1_000, 4_000, 0));
        strains.note(by, 2_000, 4_000, 1); // a call that waits
        strains.note(by, 3_000, 5_000, 0); // it becomes longer
        strains.prolong(by, 5_500, 5_500); // the call is admitted
        strains.note(by, 6_000, 7_000, 0);
        strains.prolong(by, 9_000, 10_000); // another member was asked
        assert_eq!(strains.end(by, 20_000).map(|ended| ended.holds), Some(3));
        strains.note(by, 30_000, 31_000, 0);
        assert_eq!(strains.end(by, 41_000).map(|ended| ended.holds), Some(1));
        assert!(strains.note(BY, 0, 5_000, 1));
        assert_eq!(strains.end(BY, 41_000).map(|ended| ended.holds), Some(0), "a quota has none");
    }

    #[test]
    fn a_strain_begins_once_and_ends_once_after_a_quiet_time() {
        let strains = Strains::new();
        assert!(!strains.is_any());
        assert_eq!(strains.end(BY, 0), None);
        assert!(strains.note(BY, 0, 0, 1));
        assert!(strains.is_any());
        for now in 1..150 {
            assert!(!strains.note(BY, now, now, 1));
        }
        assert_eq!(strains.end(BY, 149 + QUIET - 1), None);
        assert_eq!(strains.end(BY, 149 + QUIET), Some(Ended::new(0, 149, 149 + QUIET, 150)));
        assert_eq!((strains.end(BY, 149 + QUIET), strains.is_any()), (None, false));
        assert!(strains.note(BY, 20_000, 20_000, 1));
    }

    #[test]
    fn the_end_of_a_wait_prolongs_a_strain_and_begins_none() {
        let strains = Strains::new();
        strains.prolong(BY, 500, 500);
        assert!(!strains.is_any() && strains.note(BY, 600, 600, 1));
        strains.prolong(BY, 900, 900);
        strains.prolong(BY, 700, 700);
        assert_eq!(strains.end(BY, 900 + QUIET - 1), None);
        let ended = strains.end(BY, 900 + QUIET + 7).unwrap();
        let (lasted, ago) = (Duration::from_millis(300), Duration::from_millis(QUIET + 7));
        assert_eq!(ended, Ended { lasted, ago, times: 1, refused: 0, holds: 0 });
    }

    #[test]
    fn refusals_are_counted_apart_and_a_full_queue_is_told_once_for_each_strain() {
        let strains = Strains::new();
        for strain in 0..3 {
            let now = strain * 2 * QUIET;
            let all = [Limited::Waits, Limited::Again, Limited::Refused, Limited::Full];
            let told = all.into_iter().cycle().take(12).filter(|limited| {
                strains.note(BY, now, now, u64::from(*limited != Limited::Again));
                strains.refuse(BY, *limited)
            });
            assert_eq!(told.collect::<Vec<_>>(), [Limited::Full]);
            let ended = strains.end(BY, now + QUIET).unwrap();
            assert_eq!((ended.times, ended.refused), (9, 6));
        }
    }

    #[test]
    #[cfg(feature = "fleet")]
    fn a_strain_that_is_cut_has_the_time_until_then() {
        let (strains, by) = (Strains::new(), HeldBy::Cooldown);
        assert_eq!(strains.cut(by, 0), None);
        assert!(strains.note(by, 100, 400, 2));
        let ended = Some(Ended { holds: 1, ..Ended::new(100, 300, 300, 2) });
        assert_eq!(strains.cut(by, 300), ended, "a hold goes on");
        assert_eq!((strains.cut(by, 300), strains.end(by, u64::MAX)), (None, None));
        assert!(!strains.is_any() && strains.note(by, 500, 500, 1));
    }

    #[test]
    fn a_strain_that_goes_on_is_told_once_a_minute() {
        let strains = Strains::new();
        assert_eq!(strains.goes_on(BY, 1_000_000, 1), None);
        let told: Vec<_> = (0..1_300)
            .filter_map(|n| {
                let now = 7_000 + n * 100;
                strains.note(BY, now, now, 1);
                strains.refuse(BY, if n % 10 == 0 { Limited::Refused } else { Limited::Waits });
                strains.goes_on(BY, now, 1)
            })
            .collect();
        let until = |n: u64, refused| {
            let now = 7_000 + n * 100;
            Ended { refused, ..Ended::new(7_000, now, now, n + 1) }
        };
        assert_eq!(told, [until(600, 61), until(1_200, 121)]);
        let now = 7_000 + 1_200 * 100 + 2 * PERIOD;
        assert_eq!(strains.goes_on(BY, now - 1, 2), None, "a fleet of two");
        assert!(strains.goes_on(BY, now, 2).is_some());
        assert!(strains.end(BY, u64::MAX).is_some() && strains.goes_on(BY, u64::MAX, 1).is_none());
        assert!(strains.note(BY, now, now, 1) && strains.goes_on(BY, now, 1).is_none());
    }

    #[test]
    fn numbers_saturate() {
        let strains = Strains::new();
        assert!(strains.note(BY, u64::MAX, u64::MAX, u64::MAX));
        assert!(!strains.note(BY, u64::MAX, u64::MAX, u64::MAX));
        let Ended { lasted, times, .. } = strains.end(BY, u64::MAX).unwrap();
        assert_eq!((lasted > Duration::ZERO, times), (true, TIMES));
    }

    /// Each strain has one start and one end, in turn, with any number of threads.
    #[test]
    fn no_start_and_no_end_is_lost_or_doubled() {
        let strains = Strains::new();
        let count = |threads: u64| {
            let ends = std::sync::Mutex::new(Vec::new());
            let begun = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let (strains, ends, begun) = (&strains, &ends, &begun);
                    scope.spawn(move || {
                        for step in 0..2_000 {
                            let now = (step * threads + thread) * QUIET;
                            if strains.note(BY, now, 0, 1) {
                                begun.fetch_add(1, Ordering::Relaxed);
                            }
                            if let Some(ended) = strains.end(BY, u64::MAX) {
                                ends.lock().unwrap().push(ended.times);
                            }
                        }
                    });
                }
            });
            ends.lock().unwrap().extend(strains.end(BY, u64::MAX).map(|it| it.times));
            let ends = ends.into_inner().unwrap();
            assert_eq!(ends.len() as u64, begun.into_inner());
            assert_eq!(ends.iter().sum::<u64>(), threads * 2_000);
            assert!(!strains.is_any());
        };
        count(1);
        count(4);
    }
}
