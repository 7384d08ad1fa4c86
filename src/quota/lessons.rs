use std::sync::atomic::Ordering;
use std::time::Duration;

use super::bucket::Bucket;
use super::finding::Findings;
use super::pace::Found;
use super::reserved::Reserved;
use super::{Cost, Dimension, Evidence, Finding, Learning, Limits, Quota, Rate};

/// The learning of a quota from reports and refusals.
impl Quota {
    /// Lowers the levels to the limits that the provider has reported, and compares these with the
    /// configured ones. Waiters that cannot begin in time at the lower levels are woken. Returns what is worth a line.
    #[cold]
    pub(crate) fn learn(
        &self,
        cost: &Cost<'_>,
        reserved: &mut Reserved,
        limits: &Limits,
        now: u64,
    ) -> Findings {
        let amounts = reserved.amounts(cost);
        let mut falls = false;
        let findings = Dimension::ALL.map(|dimension| {
            let limit = limits.get(dimension);
            // A limit that is used up explains a refusal, whether the quota has it or not.
            if limit.remaining == Some(0) {
                reserved.note_reported();
            }
            let bucket = self.buckets[dimension.index()].as_ref()?;
            if let Some(remaining) = limit.remaining {
                reserved.note_reported();
                bucket.pace().note_reported(&limit);
                let before = (self.line.len() > 0).then(|| bucket.level(now));
                self.lower(dimension, remaining, now);
                // An answer that only tells of its own cost is not worth a walk along the queue.
                let own = i64::from(amounts[dimension.index()]);
                falls |= before.is_some_and(|it| it.saturating_sub(bucket.level(now)) > own);
            }
            let found = bucket.pace().report(&bucket.limit(), &limit, self.learning, now)?;
            Some(self.finding(dimension, found))
        });
        if falls {
            self.wake_late(now);
        }
        findings
    }

    /// Empties a dimension after a refusal for the caller's own limit. After a report it stays as
    /// reported, and its limit is not the cause if the amount would still fit. A bare report says nothing of the
    /// refill, so the dimension refills after the hold, as without a report.
    pub(super) fn empty(
        &self,
        dimension: Dimension,
        amount: u32,
        is_reported: bool,
        resume: u64,
        now: u64,
    ) -> Option<Finding> {
        let bucket = self.buckets[dimension.index()].as_ref()?;
        if amount == 0 || is_reported && bucket.level(now) >= i64::from(amount) {
            if !is_reported {
                self.lower(dimension, 0, resume.max(now));
                bucket.note_emptied();
            }
            return None;
        }
        let (until, found) = if self.learning == Learning::Off {
            (resume.max(now), None)
        } else {
            let cost = bucket.rate().time_of(u64::from(amount));
            bucket.pace().refuse(bucket.rate(), cost, resume, now)
        };
        if !is_reported || bucket.pace().is_bare() {
            self.lower(dimension, 0, until);
        }
        bucket.note_emptied();
        Some(self.finding(dimension, found?))
    }

    /// Puts a share of the configured limit in words, or of the one that all processes have instead.
    fn finding(&self, dimension: Dimension, found: Found) -> Finding {
        let bucket = self.buckets[dimension.index()].as_ref();
        let configured = bucket.map_or(Rate::new(0, Duration::ZERO), Bucket::limit);
        Finding {
            dimension,
            configured,
            found: configured.scaled(found.share),
            reported: found.reported,
            has_window: found.has_window,
            by: found.by,
            is_used: found.is_used,
        }
    }

    /// Learns that a call waits at `now`, and whether calls have waited since the last time.
    pub(super) fn note_wait(&self, has_waited: bool, now: u64) {
        for (dimension, bucket) in Dimension::ALL.into_iter().zip(&self.buckets) {
            let Some(bucket) = bucket.as_ref().filter(|bucket| bucket.pace().is_on()) else {
                continue;
            };
            if bucket.pace().wait(bucket.rate(), has_waited, now).is_some() {
                self.accepted.fetch_or(1 << dimension.index(), Ordering::Relaxed);
            }
        }
    }

    /// Takes the findings that the configured limit is in use again.
    #[inline]
    pub(crate) fn accepted(&self) -> Option<Findings> {
        if self.accepted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let news = self.accepted.swap(0, Ordering::Relaxed);
        Some(Dimension::ALL.map(|dimension| {
            let share = self.buckets[dimension.index()].as_ref()?.pace().share();
            let found = Found::new(share, Evidence::Accepted);
            (news >> dimension.index() & 1 == 1).then(|| self.finding(dimension, found))
        }))
    }

    /// Returns the limit of a dimension that is in use: the learned share of the configured one, or of the one that
    /// all processes have instead.
    pub(crate) fn used_rate(&self, dimension: Dimension) -> Option<Rate> {
        let bucket = self.buckets[dimension.index()].as_ref()?;
        Some(bucket.limit().scaled(bucket.pace().share()))
    }
}
