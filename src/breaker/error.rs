use std::fmt;
use std::time::Duration;

/// A breaker refused the call: nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Open {
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

    /// When it is worth asking again, counted from the refusal: when the breaker lets probes through, or the next
    /// probe must be done. `None` while it is isolated.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.retry_after {
            UNKNOWN => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused by an open circuit breaker")?;
        match self.retry_after() {
            Some(after) => write!(f, ", ask again in {after:.1?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Open {}
