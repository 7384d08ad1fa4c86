use std::time::Duration;

/// A refusal by a breaker, before the call was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// In nanoseconds, or `UNKNOWN` while half-open, probed by another process or isolated. One word keeps
    /// the result of an admission small.
    retry_after: u64,
}

const UNKNOWN: u64 = u64::MAX;

impl Open {
    /// A refusal whose end nobody knows.
    pub(super) const UNKNOWN: Self = Self { retry_after: UNKNOWN };

    /// Creates the refusal at `now` of a breaker that refuses until `end`. The end is not known if it is not
    /// still to come.
    pub(super) const fn until(end: u64, now: u64) -> Self {
        let retry_after = match end.saturating_sub(now) {
            0 => UNKNOWN,
            UNKNOWN => UNKNOWN - 1,
            left => left,
        };
        Self { retry_after }
    }

    /// Returns the time from the refusal to the next chance of a probe: the end of the open time or of
    /// an advised pause. Returns `None` while this or another process probes, because nobody knows when the
    /// probes end, and while the breaker is isolated.
    pub(crate) const fn retry_after(self) -> Option<Duration> {
        match self.retry_after {
            UNKNOWN => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}
