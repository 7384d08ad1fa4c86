use super::limits::Dimension;
use super::rate::Rate;

/// A limit of the provider that differs from the configured one, as a quota has found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The dimension.
    pub dimension: Dimension,
    /// The configured limit.
    pub configured: Rate,
    /// The limit that was found, in the period of the configured one. A limit that is reported without its
    /// window keeps its number and is not used.
    pub found: Rate,
    /// The limit and its window as the provider has reported them.
    pub(crate) reported: Option<Rate>,
    /// False for a limit that the provider reports without its window. The found limit then assumes the
    /// configured period.
    pub(crate) has_window: bool,
    /// The evidence.
    pub by: Evidence,
    /// True if the quota uses the limit that was found.
    pub is_used: bool,
}

/// The evidence for a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Evidence {
    /// The answers of the provider report another limit.
    Reported,
    /// The provider refuses calls although the quota has units for them.
    Refused,
    /// The provider accepts the configured limit again.
    Accepted,
}

impl Evidence {
    /// Returns a stable word for logs: `reported`, `refused`, `accepted`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Refused => "refused",
            Self::Accepted => "accepted",
        }
    }
}

impl Finding {
    /// Returns whether the limit that was found is below the configured one.
    #[must_use]
    pub fn is_lower(&self) -> bool {
        self.found.count() < self.configured.count()
    }
}

/// The findings of one call of a quota, by dimension.
pub(crate) type Findings = [Option<Finding>; 4];
