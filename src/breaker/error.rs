use std::time::Duration;

/// A breaker refused a call: nothing was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// In nanoseconds; `UNKNOWN` while isolated. One word, so that a refusal costs admission nothing.
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

    /// Returns when the breaker lets probes through, or when the next probe must be done, counted from the refusal.
    /// `None` while it is isolated.
    pub(crate) const fn retry_after(self) -> Option<Duration> {
        match self.retry_after {
            UNKNOWN => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}
