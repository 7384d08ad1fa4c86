use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::strain::{Ended, Limited, Strain};
use super::surge::{MANY, Over, Surge, SurgeOf, Told};
use crate::observe::HeldBy;

/// The strain on the parts of an upstream: which of them make calls wait or refuse them, since when
/// and how often. An observer gets an event for the start and one for the end of each strain.
pub(crate) struct Strains {
    /// The number of strains, of surges and of rows. Modulo 2^64, as an end may be counted before its start. Each
    /// report reads it as a hint, so it is not a subject of a model and is always the standard library's.
    active: AtomicU64,
    parts: [Strain; 5],
    /// The holds of the cooldown within its strain. A line has them, so they are not a subject of a model and
    /// always the standard library's.
    holds: AtomicU64,
    /// The length of the longest hold that was told within the strain of the cooldown, in milliseconds. A hint like
    /// the number of holds.
    told_hold: AtomicU64,
    /// The surges by [`SurgeOf`]. Each is made for its first failure.
    surges: [OnceLock<Box<Surge>>; SurgeOf::ALL.len()],
    /// The length of the row of [`SurgeOf::Ends`]. An attempt that shows a healthy upstream ends the row.
    row: AtomicU64,
}

/// The time by which a hold is longer than one that was told, at least, if it is told too. In milliseconds.
const LONGER: u64 = 1_000;

impl Strains {
    pub(super) const fn new() -> Self {
        let parts = [const { Strain::new() }; 5];
        Self {
            active: AtomicU64::new(0),
            parts,
            holds: AtomicU64::new(0),
            told_hold: AtomicU64::new(0),
            surges: [const { OnceLock::new() }; SurgeOf::ALL.len()],
            row: AtomicU64::new(0),
        }
    }

    /// Returns whether any part is under strain, or there is a surge or a row.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.active.load(Ordering::Relaxed) != 0
    }

    /// Returns whether any part is under strain, or there is a surge.
    #[cfg(feature = "fleet")]
    pub(super) fn goes_on_any(&self) -> bool {
        let rows = u64::from(self.row.load(Ordering::Relaxed) > 0);
        self.active.load(Ordering::Relaxed) != rows
    }

    /// Returns whether a part is under strain.
    pub(super) fn has(&self, by: HeldBy) -> bool {
        self.of(by).is_some_and(Strain::is_on)
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
            strain.refused_before(refused);
        }
    }

    /// Counts what [`note`](Self::note) has counted as a refusal, if it is one. Returns true for the first
    /// refusal of a strain that is [`Full`](Limited::Full).
    pub(super) fn refuse(&self, by: HeldBy, limited: Limited) -> bool {
        self.of(by).is_some_and(|strain| strain.refuse(limited))
    }

    /// Notes a hold of all calls for so many milliseconds. Returns whether it is clearly longer than the last one
    /// that was told in this strain, to one caller: more than twice as long, and by [`LONGER`] at least. The line of
    /// a strain that `begins` tells its own hold.
    pub(super) fn outgrows(&self, begins: bool, hold: u64) -> bool {
        if begins {
            self.told_hold.store(hold, Ordering::Relaxed);
            return false;
        }
        let told = self.told_hold.load(Ordering::Relaxed);
        let is_longer = hold > told.saturating_mul(2) && hold - told >= LONGER;
        is_longer && {
            let (set, seen) = (Ordering::Relaxed, Ordering::Relaxed);
            self.told_hold.compare_exchange(told, hold, set, seen).is_ok()
        }
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
        if let Some(strain) = self.of(by).filter(|strain| strain.is_on()) {
            self.count_hold(by, strain.reach(until), now, until);
        }
    }

    /// Counts a hold of the cooldown that begins after `last`, the end of the one before.
    fn count_hold(&self, by: HeldBy, last: u64, now: u64, until: u64) {
        if by == HeldBy::Cooldown && last <= now && now < until {
            self.holds.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that a strain has ended. Returns it with its holds.
    fn over(&self, by: HeldBy, ended: Ended) -> Ended {
        self.active.fetch_sub(1, Ordering::Relaxed);
        let is_held = by == HeldBy::Cooldown;
        let holds = if is_held { self.holds.swap(0, Ordering::Relaxed) } else { 0 };
        Ended { holds, ..ended }
    }

    pub(super) fn end(&self, by: HeldBy, now: u64) -> Option<Ended> {
        let ended = self.of(by)?.end(now)?;
        Some(self.over(by, ended))
    }

    #[cfg(feature = "fleet")]
    pub(super) fn cut(&self, by: HeldBy, now: u64) -> Option<Ended> {
        let ended = self.of(by)?.cut(now)?;
        Some(self.over(by, ended))
    }

    /// Counts a failure with an error of this type. Returns the report of a surge that is due.
    pub(super) fn note_failure(&self, of: SurgeOf, now: u64, kind: Option<&str>) -> Option<Told> {
        let surge = self.surges[of as usize].get_or_init(|| Box::new(Surge::new()));
        // A few errors between the answers of an upstream that works again do not prolong the surge.
        if of == SurgeOf::Ends && self.lengthen() < MANY && surge.is_on() {
            return None;
        }
        let told = surge.note(now, kind)?;
        if told.begins {
            self.active.fetch_add(1, Ordering::Relaxed);
        }
        Some(told)
    }

    /// Adds a call to the row. Returns its length.
    fn lengthen(&self) -> u64 {
        let before = self.row.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.active.fetch_add(1, Ordering::Relaxed);
        }
        before.saturating_add(1)
    }

    /// Ends the row, because an attempt shows a healthy upstream.
    pub(super) fn end_row(&self) {
        // Other attempts do not write to the word.
        if self.row.load(Ordering::Relaxed) == 0 || self.row.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        self.active.fetch_sub(1, Ordering::Relaxed);
        if let Some(surge) = self.surges[SurgeOf::Ends as usize].get() {
            surge.forget();
        }
    }

    pub(super) fn end_surge(&self, of: SurgeOf, now: u64) -> Option<Over> {
        let over = self.surges[of as usize].get()?.end(now)?;
        self.active.fetch_sub(1, Ordering::Relaxed);
        Some(over)
    }

    /// Returns whether there is a surge of these failures.
    pub(super) fn is_surge(&self, of: SurgeOf) -> bool {
        self.is_any() && self.surges[of as usize].get().is_some_and(|surge| surge.is_on())
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
    use std::time::Duration;

    use super::super::surge::QUIET;
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
    fn a_row_ends_with_an_answer_and_its_surge_after_a_quiet_time() {
        let (strains, of) = (Strains::new(), SurgeOf::Ends);
        let note = |now| strains.note_failure(of, now, Some("28P01")).map(|told| told.failures);
        for _ in 0..3 {
            assert!((1..MANY).all(|now| note(now).is_none()) && strains.is_any());
            strains.end_row();
            assert!(!strains.is_any());
        }
        let told: Vec<_> = (1..=MANY).filter_map(note).collect();
        assert_eq!((told, strains.is_surge(of)), (vec![MANY], true));
        strains.end_row();
        assert!((0..MANY - 1).all(|_| note(QUIET).is_none()), "no row of ten");
        strains.end_row();
        assert_eq!(strains.end_surge(of, MANY + QUIET).map(|over| over.failures), Some(MANY));
        assert!(!strains.is_any());
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
