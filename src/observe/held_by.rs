/// The part of an upstream for which an attempt waits, or that refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeldBy {
    /// The upstream's cooldown.
    Cooldown,
    /// The queue of the upstream's bulkhead.
    Bulkhead,
    /// The queue of the upstream's quota.
    Quota,
    /// The upstream's spent budget. No attempt waits for it.
    Budget,
    /// The upstream's throttle. No attempt waits for it.
    Throttle,
    /// The upstream's open breaker. No attempt waits for it.
    Breaker,
}

impl HeldBy {
    /// Returns a stable word for logs and metrics: `cooldown`, `bulkhead`, `quota`, `budget`,
    /// `throttle`, `breaker`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cooldown => "cooldown",
            Self::Bulkhead => "bulkhead",
            Self::Quota => "quota",
            Self::Budget => "budget",
            Self::Throttle => "throttle",
            Self::Breaker => "breaker",
        }
    }
}
