use std::time::Duration;

/// One of the rates of a [`Quota`](super::Quota).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dimension {
    /// Requests.
    Requests,
    /// Input tokens.
    Input,
    /// Output tokens.
    Output,
    /// Input and output tokens together.
    Tokens,
}

impl Dimension {
    /// All dimensions, in the order in which a quota takes them.
    pub const ALL: [Self; 4] = [Self::Requests, Self::Input, Self::Output, Self::Tokens];

    /// Returns a stable word for logs and metrics: `requests`, `input`, `output`, `tokens`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Input => "input",
            Self::Output => "output",
            Self::Tokens => "tokens",
        }
    }

    /// Returns the unit of the dimension, in the plural.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Input => "input tokens",
            Self::Output => "output tokens",
            Self::Tokens => "tokens",
        }
    }

    #[inline]
    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

/// The state of one rate, as the provider reports it with an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// The limit: the number of units in a window.
    pub limit: Option<u64>,
    /// The number of units that remain.
    pub remaining: Option<u64>,
    /// The time until the limit is reset.
    pub reset: Option<Duration>,
    /// The length of the window that the limit counts. `None` if the provider does not say it.
    pub window: Option<Duration>,
}

impl Limit {
    /// Creates the state of a limit of so many units in a window, if its length is known.
    #[must_use]
    pub const fn of(units: u64, window: Option<Duration>) -> Self {
        Self { limit: Some(units), remaining: None, reset: None, window }
    }

    /// Creates the state with this number of units that remain.
    ///
    /// With a refusal, 0 of an unknown limit says nothing of the refill. So nothing refills until the hold of the
    /// refusal ends, as after a refusal without a report.
    #[must_use]
    pub const fn of_remaining(units: u64) -> Self {
        Self { limit: None, remaining: Some(units), reset: None, window: None }
    }

    /// Returns whether this says that nothing is left, and neither how much there is nor when it is reset.
    pub(super) fn is_bare(&self) -> bool {
        *self == Self::of_remaining(0)
    }
}

/// The limits that a provider reports with an answer, by dimension.
///
/// # Examples
///
/// ```
/// use resile::quota::{Dimension, Limit, Limits};
///
/// let limits = Limits::new().with(Dimension::Tokens, Limit::of_remaining(12_000));
/// assert_eq!(limits.get(Dimension::Tokens).remaining, Some(12_000));
/// assert_eq!(limits.get(Dimension::Requests), Limit::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "limits do nothing until a quota learns them"]
pub struct Limits {
    by_dimension: [Limit; 4],
}

impl Limits {
    /// Creates limits of which nothing is known.
    pub const fn new() -> Self {
        const NOTHING: Limit = Limit { limit: None, remaining: None, reset: None, window: None };
        Self { by_dimension: [NOTHING; 4] }
    }

    /// Sets the state of one rate.
    pub const fn with(mut self, dimension: Dimension, limit: Limit) -> Self {
        self.by_dimension[dimension.index()] = limit;
        self
    }

    /// Returns the state of one rate.
    #[must_use]
    pub const fn get(&self, dimension: Dimension) -> Limit {
        self.by_dimension[dimension.index()]
    }

    /// Returns whether no remaining number and no limit is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_dimension.iter().all(|it| it.remaining.is_none() && it.limit.is_none())
    }
}
