use std::time::Duration;

use serde::de::{Error, MapAccess};
use serde::{Deserialize, Deserializer};

use super::duration::text;
use super::place::Place;
use super::settings::{Found, Settings, read, settings};
use super::visit::{DurationVisitor, IntegerVisitor, NumberVisitor};
use crate::adaptive::AdaptiveTimeout;
use crate::budget::Budget;
use crate::bulkhead::Bulkhead;
use crate::cooldown::Cooldown;
use crate::throttle::Throttle;

settings! {
    /// Reads `capacity` and `deposit`. A missing setting keeps its value from [`Budget::new`].
    Budget, "a budget", Budget::new(), {
        "capacity": IntegerVisitor::from_0
            => |budget, tokens| budget.with_capacity(tokens),
        "deposit": NumberVisitor::tokens
            => |budget, tokens| budget.with_deposit(tokens),
    }

    /// Reads `jitter` and `cap`. A missing setting keeps its value from [`Cooldown::new`].
    Cooldown, "a cooldown", Cooldown::new(), {
        "jitter": NumberVisitor::share
            => |cooldown, share| cooldown.with_jitter(share),
        "cap": DurationVisitor::required
            => |cooldown, cap| cooldown.with_cap(cap.unwrap_or_default()),
    }

    /// Reads an empty map: there is nothing to set.
    Throttle, "a throttle", Throttle::new(), {}

    /// Reads `quantile` and `ceiling`. A missing setting keeps its value from
    /// [`AdaptiveTimeout::new`].
    AdaptiveTimeout, "an adaptive timeout", AdaptiveTimeout::new(), {
        "quantile": NumberVisitor::share
            => |adaptive, share| adaptive.with_quantile(share),
        "ceiling": DurationVisitor::required
            => |adaptive, ceiling| adaptive.with_ceiling(ceiling.unwrap_or_default()),
    }
}

/// Reads `limit` or `learned`, and optionally `queue` and `max_wait`. `limit` is that of
/// [`Bulkhead::new`], and `learned` is the most of [`Bulkhead::learned`]: both together are an error. A
/// `max_wait` for a `queue` of 0 is an error, and so is a `max_wait` of zero for a longer queue.
impl<'de> Deserialize<'de> for Bulkhead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read::<BulkheadSettings, D>(deserializer)
    }
}

#[derive(Default)]
pub(super) struct BulkheadSettings {
    limit: Option<u32>,
    learned: Option<u32>,
    queue: Option<u32>,
    max_wait: Option<Duration>,
}

impl Settings for BulkheadSettings {
    type Made = Bulkhead;
    const WHAT: &'static str = "a bulkhead";
    const NAMES: &'static [&'static str] = &["limit", "learned", "queue", "max_wait"];

    fn start() -> Self {
        Self::default()
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, at: Place<'_>, map: &mut A) -> Result<(), A::Error> {
        match at.name {
            "limit" => self.limit = Some(map.next_value_seed(IntegerVisitor::from_0(at))?),
            "learned" => self.learned = Some(map.next_value_seed(IntegerVisitor::from_0(at))?),
            "queue" => self.queue = Some(map.next_value_seed(IntegerVisitor::from_0(at))?),
            _ => self.max_wait = map.next_value_seed(DurationVisitor::optional(at))?,
        }
        Ok(())
    }

    fn finish<E: Error>(self, found: &Found<'_>) -> Result<Bulkhead, E> {
        if let (Some(limit), Some(most)) = (self.limit, self.learned) {
            return Err(found.contradiction(
                ("limit", &limit.to_string()),
                ("learned", &most.to_string()),
                "only one of them: a limit is fixed or learned",
            ));
        }
        let (limit, bulkhead) = if let Some(most) = self.learned {
            (most, Bulkhead::learned(most))
        } else {
            let limit = found.required("limit", self.limit)?;
            (limit, Bulkhead::new(limit))
        };
        if let (1.., Some(queue), Some(wait)) = (limit, self.queue, self.max_wait) {
            if (queue == 0) != wait.is_zero() {
                return Err(found.contradiction(
                    ("queue", &queue.to_string()),
                    ("max_wait", &text(wait)),
                    "both to be above 0 if calls may wait, or only one of them to be set",
                ));
            }
        }
        let bulkhead = match self.queue {
            Some(queue) => bulkhead.with_queue(queue),
            None => bulkhead,
        };
        Ok(bulkhead.with_max_wait(self.max_wait.unwrap_or(Duration::MAX)))
    }
}
