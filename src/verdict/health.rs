use std::fmt;

/// The health of an upstream as far as one attempt shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Health {
    /// The upstream answered as it should, and the refusal of a bad request is such an answer.
    Healthy,
    /// The upstream works and asks for fewer requests.
    Throttling,
    /// The upstream did not answer or could not do its work.
    Failing,
    /// The attempt shows nothing: the error is local or was not classified.
    Unknown,
}

impl Health {
    /// Returns a stable word for logs and metrics: `healthy`, `throttling`, `failing`, `unknown`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Throttling => "throttling",
            Self::Failing => "failing",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
