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
    pub(super) const fn new(retry_after: Option<u64>) -> Self {
        let retry_after = match retry_after {
            Some(nanos) if nanos < UNKNOWN => nanos,
            Some(_) => UNKNOWN - 1,
            None => UNKNOWN,
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
