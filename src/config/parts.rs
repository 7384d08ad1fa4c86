use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Error, MapAccess};
use serde::{Deserialize, Deserializer};

use super::settings::{Reader, Settings, read, settings};
use super::visit::{DurationVisitor, IntegerVisitor, NumberVisitor, OptionalVisitor};
use crate::adaptive::AdaptiveTimeout;
use crate::backoff::Backoff;
use crate::breaker::Breaker;
use crate::budget::Budget;
use crate::bulkhead::Bulkhead;
use crate::cooldown::Cooldown;

const fn share(right: &'static str) -> NumberVisitor {
    NumberVisitor { right, least: 0.0, most: 1.0 }
}

settings! {
    /// Reads `capacity`, `deposit`, `cost`, `throttled_cost` and `refund_on_success`. A missing
    /// setting keeps its value from [`Budget::new`].
    Budget, "a budget", Budget::new(), {
        "capacity": IntegerVisitor::of("`capacity`", 0)
            => |budget, tokens| budget.with_capacity(tokens),
        "deposit": NumberVisitor { right: "`deposit` to be a number from 0 to 4294967295", least: 0.0, most: 4_294_967_295.0 }
            => |budget, tokens| budget.with_deposit(tokens),
        "cost": IntegerVisitor::of("`cost`", 0) => |budget, tokens| {
            let (_, throttled) = budget.costs();
            budget.with_costs(tokens, throttled)
        },
        "throttled_cost": IntegerVisitor::of("`throttled_cost`", 0) => |budget, tokens| {
            let (failed, _) = budget.costs();
            budget.with_costs(failed, tokens)
        },
        "refund_on_success": PhantomData::<bool> => |budget, refunds| if refunds {
            budget.with_refund_on_success()
        } else {
            budget
        },
    }

    /// Reads a breaker. A missing setting keeps its value from [`Breaker::new`].
    ///
    /// * `consecutive`: a number, or `"none"`.
    /// * `failure_rate`: a map of `share` and `of`, or `"none"`.
    /// * `slow_rate`: a map of `share`, `of` and `limit`, or `"none"`.
    /// * `probes`: a map of `share` and `of`. `open_time`: a [`Backoff`].
    /// * `window`, `hint_cap`, `lease`: durations.
    Breaker, "a breaker", Breaker::new(), {
        "consecutive": OptionalVisitor(IntegerVisitor::of("`consecutive`", 1))
            => |breaker, failures| match failures {
            Some(failures) => breaker.with_consecutive(failures),
            None => breaker.without_consecutive(),
        },
        "failure_rate": OptionalVisitor(Reader::<Rate<false>>::NEW) => |breaker, rate| match rate {
            Some((share, of, _)) => breaker.with_failure_rate(share, of),
            None => breaker.without_failure_rate(),
        },
        "slow_rate": OptionalVisitor(Reader::<Rate<true>>::NEW) => |breaker, rate| match rate {
            Some((share, of, Some(limit))) => breaker.with_slow_rate(limit, share, of),
            Some((.., None)) => return Err(A::Error::missing_field("limit")),
            None => breaker.without_slow_rate(),
        },
        "window": DurationVisitor::required("window")
            => |breaker, window| breaker.with_window(window.unwrap_or_default()),
        "open_time": PhantomData::<Backoff> => |breaker, open| breaker.with_open_time(open),
        "hint_cap": DurationVisitor::required("hint_cap")
            => |breaker, cap| breaker.with_hint_cap(cap.unwrap_or_default()),
        "probes": Reader::<Rate<false>>::NEW => |breaker, rate| {
            let (share, of, _) = rate;
            breaker.with_probes(share, of)
        },
        "lease": DurationVisitor::required("lease")
            => |breaker, lease| breaker.with_lease(lease.unwrap_or_default()),
    }

    /// Reads `jitter`, `least_spread`, `cap` and `default_hold`. A missing setting keeps its value
    /// from [`Cooldown::new`].
    Cooldown, "a cooldown", Cooldown::new(), {
        "jitter": share("`jitter` to be a number from 0 to 1")
            => |cooldown, share| cooldown.with_jitter(share),
        "least_spread": DurationVisitor::required("least_spread")
            => |cooldown, spread| cooldown.with_least_spread(spread.unwrap_or_default()),
        "cap": DurationVisitor::required("cap")
            => |cooldown, cap| cooldown.with_cap(cap.unwrap_or_default()),
        "default_hold": DurationVisitor::required("default_hold")
            => |cooldown, hold| cooldown.with_default_hold(hold.unwrap_or_default()),
    }

    /// Reads `quantile`, `factor`, `floor`, `ceiling`, `window` and `samples`. A missing setting
    /// keeps its value from [`AdaptiveTimeout::new`].
    AdaptiveTimeout, "an adaptive timeout", AdaptiveTimeout::new(), {
        "quantile": share("`quantile` to be a number from 0 to 1")
            => |adaptive, share| adaptive.with_quantile(share),
        "factor": NumberVisitor::FACTOR => |adaptive, factor| adaptive.with_factor(factor),
        "floor": DurationVisitor::required("floor")
            => |adaptive, floor| adaptive.with_floor(floor.unwrap_or_default()),
        "ceiling": DurationVisitor::required("ceiling")
            => |adaptive, ceiling| adaptive.with_ceiling(ceiling.unwrap_or_default()),
        "window": DurationVisitor::required("window")
            => |adaptive, window| adaptive.with_window(window.unwrap_or_default()),
        "samples": IntegerVisitor::of("`samples`", 1)
            => |adaptive, samples| adaptive.with_samples(samples),
    }
}

/// A share of at least `of` calls. For a slow rate, a call over `limit` is slow.
#[derive(Default)]
struct Rate<const SLOW: bool> {
    share: Option<f64>,
    of: Option<u32>,
    limit: Option<Duration>,
}

impl<const SLOW: bool> Settings for Rate<SLOW> {
    type Made = (f64, u32, Option<Duration>);
    const WHAT: &'static str = "a rate";
    const NAMES: &'static [&'static str] =
        if SLOW { &["share", "of", "limit"] } else { &["share", "of"] };

    fn start() -> Self {
        Self::default()
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "share" => {
                self.share =
                    Some(map.next_value_seed(share("`share` to be a number from 0 to 1"))?);
            }
            "of" => self.of = Some(map.next_value_seed(IntegerVisitor::of("`of`", 1))?),
            _ => self.limit = map.next_value_seed(DurationVisitor::required("limit"))?,
        }
        Ok(())
    }

    fn finish<E: Error>(self) -> Result<Self::Made, E> {
        let share = self.share.ok_or_else(|| E::missing_field("share"))?;
        Ok((share, self.of.ok_or_else(|| E::missing_field("of"))?, self.limit))
    }
}

/// Reads `limit` and optionally `queue` and `max_wait`. Defaults are as in [`Bulkhead::new`].
impl<'de> Deserialize<'de> for Bulkhead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read::<BulkheadSettings, D>(deserializer)
    }
}

#[derive(Default)]
struct BulkheadSettings {
    limit: Option<u32>,
    queue: Option<u32>,
    max_wait: Option<Duration>,
}

impl Settings for BulkheadSettings {
    type Made = Bulkhead;
    const WHAT: &'static str = "a bulkhead";
    const NAMES: &'static [&'static str] = &["limit", "queue", "max_wait"];

    fn start() -> Self {
        Self::default()
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "limit" => self.limit = Some(map.next_value_seed(IntegerVisitor::of("`limit`", 0))?),
            "queue" => self.queue = Some(map.next_value_seed(IntegerVisitor::of("`queue`", 0))?),
            _ => self.max_wait = map.next_value_seed(DurationVisitor::optional("max_wait"))?,
        }
        Ok(())
    }

    fn finish<E: Error>(self) -> Result<Bulkhead, E> {
        let limit = self.limit.ok_or_else(|| E::missing_field("limit"))?;
        let bulkhead = Bulkhead::new(limit).with_queue(self.queue.unwrap_or(limit));
        Ok(bulkhead.with_max_wait(self.max_wait.unwrap_or(Duration::MAX)))
    }
}
