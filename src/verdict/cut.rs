use std::fmt;
use std::time::Duration;

use crate::time::Limit;

/// The cause that ended an attempt before it returned an error of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cut {
    /// The attempt did not finish within its attempt timeout of this length.
    AttemptTimeout(Duration),
    /// The total timeout of the call ran out during the attempt.
    Deadline,
    /// The stream ended without its last item.
    Stream,
}

impl Cut {
    /// Returns a stable word for logs and metrics: `timeout`, or `truncated` for a stream.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::AttemptTimeout(_) | Self::Deadline => "timeout",
            Self::Stream => "truncated",
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AttemptTimeout(limit) => write!(f, "did not finish within {}", Limit(*limit)),
            Self::Deadline => f.write_str("did not finish before the deadline of the call"),
            Self::Stream => f.write_str("the stream ended before its last item"),
        }
    }
}
