/// The way in which a quota treats signs that a limit of the provider is not the configured one.
///
/// The signs are the limits in the headers of answers, and refusals for the caller's own limit.
///
/// # Examples
///
/// ```
/// use resile::Quota;
/// use resile::quota::{Learning, Rate};
///
/// let quota = Quota::new().with_requests(Rate::per_minute(500)).with_learning(Learning::Off);
/// assert_eq!(quota.learning(), Learning::Off);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Learning {
    /// Uses the configured limit. A reported limit that differs is only an event.
    Off,
    /// Uses a lower limit while the signs for it last, and never more than the configured one.
    #[default]
    Lower,
    /// Does as [`Lower`](Self::Lower), and uses a reported limit above the configured one too if its
    /// window is known, at most 16 times the configured one. No more units fit at once than the
    /// configured burst.
    Both,
}

impl Learning {
    /// Returns the word of a configuration: `off`, `lower`, `both`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Lower => "lower",
            Self::Both => "both",
        }
    }
}
