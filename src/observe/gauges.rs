use std::fmt;
use std::time::Duration;

use crate::breaker::State;
#[cfg(feature = "fleet")]
use crate::fleet::{State as FleetState, Status};
use crate::quota::{Levels, Scarce};

/// The state of an upstream's parts. A part that the upstream does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each one is a fact of its own")]
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
    /// True while such a hold ends later than the other process was told, because the upstream throttled an
    /// attempt of this one too.
    #[cfg(feature = "fleet")]
    pub(crate) is_throttled_too: bool,
    /// The limit of the quota that holds the call of the event.
    pub(crate) scarce: Option<Scarce>,
    /// True while the cooldown holds calls because the program asked for it by hand.
    pub(crate) is_hold_by_hand: bool,
    /// True while the breaker is open, and another process probes when its open time is over.
    pub(crate) is_probed: bool,
    /// True while the queue of the quota is full.
    pub(crate) is_quota_full: bool,
    /// True while the quota lacks units because a refusal of the upstream has emptied it.
    pub(crate) is_quota_emptied: bool,
    /// True in a surge of failures.
    pub(crate) is_surge: bool,
    /// True in a surge of calls that end at their first attempt.
    pub(crate) is_surge_of_ends: bool,
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

    /// Returns whether the upstream throttled an attempt of this process too, within the hold of another one.
    #[cfg_attr(not(feature = "fleet"), expect(clippy::unused_self, reason = "no other process"))]
    pub(super) const fn is_throttled_too(&self) -> bool {
        #[cfg(feature = "fleet")]
        return self.is_throttled_too;
        #[cfg(not(feature = "fleet"))]
        false
    }

    /// Writes what makes calls wait for the quota, as far as it is known: who uses its limit, the limit, and the output
    /// tokens of attempts in flight if they count for it. The provider may count less than these.
    pub(super) fn write_cause(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_limit(f)?;
        match self.quota.map_or(0, |levels| levels.reserved) {
            reserved if reserved > 0 && self.scarce.is_none_or(|scarce| scarce.has_output()) => {
                write!(f, "{reserved} output tokens are reserved by attempts in flight, ")
            }
            _ => Ok(()),
        }
    }

    /// Writes the limit that holds the call, and who shares it: "4 processes share the limit of requests (100 per 1s), ".
    /// In safe mode nobody shares, and each process has a part of the limit.
    fn write_limit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(scarce) = self.scarce else { return Ok(()) };
        #[cfg(feature = "fleet")]
        if let (Some(fleet), Scarce::Rate { dimension, rate, used }) = (self.fleet, scarce) {
            let is_safe = fleet.state == FleetState::Safe;
            if is_safe {
                f.write_str(
                    "exchanges with the store of the fleet fail, so this process uses its part of the whole",
                )?;
            } else if fleet.members > 1 {
                write!(f, "{} processes share the", fleet.members)?;
            }
            if is_safe || fleet.members > 1 {
                let (noun, count, period) = (dimension.noun(), rate.count(), rate.period());
                write!(f, " limit of {noun} ({count} per {period:?}")?;
                if used != count {
                    write!(f, ", now {used}")?;
                }
                return f.write_str("), ");
            }
        }
        write!(f, "{scarce}, ")
    }

    /// Returns whether the budget is spent in this process only.
    #[cfg_attr(not(feature = "fleet"), expect(clippy::unused_self, reason = "no other process"))]
    pub(super) const fn lacks_lease(&self) -> bool {
        #[cfg(feature = "fleet")]
        return self.lacks_lease;
        #[cfg(not(feature = "fleet"))]
        false
    }

    /// Returns the words for a breaker that refuses calls without a known end, if this process knows why.
    pub(super) fn open_in_words(&self) -> Option<&'static str> {
        self.breaker?.endless_in_words(self.is_probed)
    }

    /// Returns the condition of a retry that a part would refuse as the part is now, or no words.
    pub(super) const fn retry_in_words(&self) -> &'static str {
        match self.breaker {
            Some(State::Open | State::HalfOpen) => " if the circuit breaker admits it",
            _ if self.is_quota_full => " if the queue of the quota has room",
            _ => "",
        }
    }

    /// Returns whether the quota only watches.
    pub(super) fn is_shadowed(&self) -> bool {
        self.quota.is_some_and(|levels| levels.shadow.is_some())
    }

    /// Returns whether the breaker is open. A probe that fails leaves it half-open if others may follow.
    #[cfg(feature = "tracing")]
    pub(super) fn is_open(&self) -> bool {
        self.breaker == Some(State::Open)
    }

    #[cfg(any(feature = "tracing", feature = "metrics"))]
    /// Returns whether the cooldown holds all calls, and does not release them yet.
    pub(super) fn holds(&self) -> bool {
        self.cooldown.is_some_and(|rest| !rest.is_zero())
    }
}
