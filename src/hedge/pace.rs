use crate::engine::NO_LIMIT;

/// The schedule of the hedges. Times are readings of the timer in nanoseconds.
#[derive(Debug)]
pub(super) struct Pace {
    /// The start of the latest attempt.
    latest: u64,
    /// The start of the first attempt. `None` before its first pending poll.
    first: Option<u64>,
    /// The start of the current delay: `latest`, or the time of a later denial.
    from: u64,
    /// The number of hedges that may still start.
    left: u32,
}

impl Pace {
    pub(super) const fn new(hedges: u32) -> Self {
        Self { latest: 0, first: None, from: 0, left: hedges }
    }

    /// Notes that the first attempt is pending. `now` is its start.
    pub(super) const fn start(&mut self, now: u64) {
        (self.latest, self.from, self.first) = (now, now, Some(now));
    }

    /// Returns the start of the first attempt, or `None` before its first pending poll.
    pub(super) const fn first(&self) -> Option<u64> {
        self.first
    }

    /// Returns the time at which the next hedge is due, or `NO_LIMIT` for never.
    pub(super) const fn due(&self, delay: u64) -> u64 {
        if self.left == 0 { NO_LIMIT } else { self.from.saturating_add(delay) }
    }

    /// Takes a due hedge. Returns the time since the start of the latest attempt.
    pub(super) const fn take(&mut self, now: u64) -> u64 {
        self.left = self.left.saturating_sub(1);
        now.saturating_sub(self.latest)
    }

    /// Notes the start of a hedge.
    pub(super) const fn began(&mut self, now: u64) {
        (self.latest, self.from) = (now, now);
    }

    /// Notes that a hedge was denied. The hedge is lost, not postponed: one moment then decides
    /// whether the call is hedged at all.
    pub(super) const fn denied(&mut self, now: u64) {
        self.from = now;
    }

    /// Allows no more hedges, because the upstream asked for fewer requests.
    pub(super) const fn stop(&mut self) {
        self.left = 0;
    }
}
