use std::fmt;
use std::time::Duration;

use crate::breaker::State;
#[cfg(feature = "fleet")]
use crate::fleet::Status;
#[cfg(feature = "fleet")]
use crate::quota::Dimension;
use crate::quota::Levels;

/// The state of an upstream's parts. A part that the upstream does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// The number of retries the budget can pay for.
    pub tokens: Option<u32>,
    /// The state of the breaker.
    pub breaker: Option<State>,
    /// The limit of the bulkhead. A learned one is that of now.
    pub limit: Option<u32>,
    /// The number of attempts in the bulkhead.
    pub in_flight: Option<u32>,
    /// The number of attempts in the bulkhead's queue.
    pub waiting: Option<u32>,
    /// The rest of the hold of the cooldown, and zero while it releases calls one by one. `None` if it
    /// holds none.
    pub cooldown: Option<Duration>,
    /// The state of the quota.
    pub quota: Option<Levels>,
    /// The chance of an attempt to be refused by the throttle, in percent. At most 90.
    pub throttled: Option<u32>,
    /// The status of an upstream that many processes share.
    #[cfg(feature = "fleet")]
    pub fleet: Option<Status>,
    /// True while the cooldown holds calls because another process of the fleet was asked to.
    #[cfg(feature = "fleet")]
    pub is_hold_joined: bool,
    /// True while this process has too few tokens for a retry, and the fleet may have some.
    #[cfg(feature = "fleet")]
    pub lacks_lease: bool,
    /// The limit of a shared quota of which the least is left, as far as it is used, and its period.
    #[cfg(feature = "fleet")]
    pub(crate) scarce: Option<(Dimension, u32, Duration)>,
    /// True while the cooldown holds calls because the program asked for it by hand.
    pub(crate) is_hold_by_hand: bool,
}

impl Gauges {
    /// Returns whether the hold of the cooldown is that of another process.
    #[cfg_attr(not(feature = "fleet"), expect(clippy::unused_self, reason = "no other process"))]
    pub(super) const fn is_joined(&self) -> bool {
        #[cfg(feature = "fleet")]
        return self.is_hold_joined;
        #[cfg(not(feature = "fleet"))]
        false
    }

    /// Writes the limit that the processes of a fleet share, if it is known: "4 processes share the limit of
    /// requests (100 per 1s), ".
    #[cfg_attr(
        not(feature = "fleet"),
        expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "no other process")
    )]
    pub(super) fn write_shared_limit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "fleet")]
        if let (Some(fleet), Some((dimension, count, period))) = (self.fleet, self.scarce) {
            if fleet.members > 1 {
                let members = fleet.members;
                write!(f, "{members} processes share the limit of {} ", dimension.noun())?;
                write!(f, "({count} per {period:?}), ")?;
            }
        }
        #[cfg(not(feature = "fleet"))]
        let _ = f;
        Ok(())
    }

    /// Returns whether the budget is spent in this process only.
    #[cfg_attr(not(feature = "fleet"), expect(clippy::unused_self, reason = "no other process"))]
    pub(super) const fn lacks_lease(&self) -> bool {
        #[cfg(feature = "fleet")]
        return self.lacks_lease;
        #[cfg(not(feature = "fleet"))]
        false
    }

    /// Returns whether the breaker is half-open.
    pub(super) fn is_half_open(&self) -> bool {
        self.breaker == Some(State::HalfOpen)
    }

    #[cfg(any(feature = "tracing", feature = "metrics"))]
    /// Returns whether the cooldown holds all calls, and does not release them yet.
    pub(super) fn holds(&self) -> bool {
        self.cooldown.is_some_and(|rest| !rest.is_zero())
    }
}
