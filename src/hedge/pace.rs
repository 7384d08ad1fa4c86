use crate::call::NO_LIMIT;

/// When the next hedge is due. Times are readings of the timer in nanoseconds.
#[derive(Debug)]
pub(super) struct Pace {
    /// When the attempt was begun that was begun last (the first: when it had to be waited for).
    latest: u64,
    /// When the first attempt was begun, if it had to be waited for.
    first: Option<u64>,
    /// From when the delay before the next hedge counts: `latest`, or when a hedge was denied since.
    from: u64,
    /// How many hedges may still start.
    left: u32,
}

impl Pace {
    pub(super) const fn new(hedges: u32) -> Self {
        Self { latest: 0, first: None, from: 0, left: hedges }
    }

    /// The first attempt, which was begun at `now`, has to be waited for.
    pub(super) const fn start(&mut self, now: u64) {
        (self.latest, self.from, self.first) = (now, now, Some(now));
    }

    /// Returns when the first attempt was begun, if it had to be waited for.
    pub(super) const fn first(&self) -> Option<u64> {
        self.first
    }

    /// Returns when the next hedge is due, or `NO_LIMIT`.
    pub(super) const fn due(&self, delay: u64) -> u64 {
        if self.left == 0 { NO_LIMIT } else { self.from.saturating_add(delay) }
    }

    /// A hedge is due at `now`. Returns how long ago the latest attempt was begun.
    pub(super) const fn take(&mut self, now: u64) -> u64 {
        self.left = self.left.saturating_sub(1);
        now.saturating_sub(self.latest)
    }

    /// The hedge began.
    pub(super) const fn began(&mut self, now: u64) {
        (self.latest, self.from) = (now, now);
    }

    /// The hedge was denied. Forgone rather than put off: whether the call is hedged at all is then decided at one moment.
    pub(super) const fn denied(&mut self, now: u64) {
        self.from = now;
    }

    /// No more hedges: the upstream asks for fewer requests.
    pub(super) const fn stop(&mut self) {
        self.left = 0;
    }
}
