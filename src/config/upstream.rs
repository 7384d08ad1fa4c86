use serde::de::{Error, MapAccess};
use serde::{Deserialize, Deserializer};

use super::parts::BulkheadSettings;
use super::place::Place;
use super::settings::{Changed, Found, Reader, Settings, read};
use super::visit::NameVisitor;
use crate::adaptive::AdaptiveTimeout;
use crate::breaker::Breaker;
use crate::budget::Budget;
use crate::bulkhead::Bulkhead;
use crate::cooldown::Cooldown;
use crate::quota::Quota;
use crate::throttle::Throttle;
use crate::upstream::Upstream;

/// Reads `name` and optionally `budget`, `breaker`, `cooldown`, `bulkhead`, `quota`,
/// `throttle` and `adaptive_timeout`.
///
/// Each part is a map of its own settings, and an empty map is a part with its defaults. The
/// observer and the timer are set in code.
///
/// Read a `static` in a `LazyLock` and make calls with `.on(&STATIC)`.
///
/// # Examples
///
/// ```
/// use resile::Upstream;
///
/// let upstream: Upstream = serde_json::from_str(
///     r#"{
///         "name": "weather",
///         "budget": { "capacity": 20 },
///         "breaker": { "consecutive": 5 },
///         "cooldown": {}
///     }"#,
/// )?;
/// assert_eq!(upstream.name(), "weather");
/// assert_eq!(upstream.budget().unwrap().capacity(), 20);
/// # Ok::<(), serde_json::Error>(())
/// ```
impl<'de> Deserialize<'de> for Upstream {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read::<UpstreamSettings, D>(deserializer)
    }
}

#[derive(Default)]
struct UpstreamSettings {
    name: Option<String>,
    budget: Option<Budget>,
    breaker: Option<Breaker>,
    cooldown: Option<Cooldown>,
    bulkhead: Option<Bulkhead>,
    quota: Option<Quota>,
    throttle: Option<Throttle>,
    adaptive: Option<AdaptiveTimeout>,
}

impl Settings for UpstreamSettings {
    type Made = Upstream;
    const WHAT: &'static str = "an upstream";
    const NAMES: &'static [&'static str] = &[
        "name",
        "budget",
        "breaker",
        "cooldown",
        "bulkhead",
        "quota",
        "throttle",
        "adaptive_timeout",
    ];

    fn start() -> Self {
        Self::default()
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, at: Place<'_>, map: &mut A) -> Result<(), A::Error> {
        match at.name {
            "name" => self.name = Some(map.next_value_seed(NameVisitor(at))?),
            "budget" => self.budget = Some(map.next_value_seed(Reader::<Changed<Budget>>::at(at))?),
            "breaker" => {
                self.breaker = Some(map.next_value_seed(Reader::<Changed<Breaker>>::at(at))?);
            }
            "cooldown" => {
                self.cooldown = Some(map.next_value_seed(Reader::<Changed<Cooldown>>::at(at))?);
            }
            "bulkhead" => {
                self.bulkhead = Some(map.next_value_seed(Reader::<BulkheadSettings>::at(at))?);
            }
            "quota" => self.quota = Some(map.next_value_seed(Reader::<Changed<Quota>>::at(at))?),
            "throttle" => {
                self.throttle = Some(map.next_value_seed(Reader::<Changed<Throttle>>::at(at))?);
            }
            _ => {
                self.adaptive =
                    Some(map.next_value_seed(Reader::<Changed<AdaptiveTimeout>>::at(at))?);
            }
        }
        Ok(())
    }

    fn finish<E: Error>(self, found: &Found<'_>) -> Result<Upstream, E> {
        let mut upstream = Upstream::named(found.required("name", self.name)?);
        if let Some(budget) = self.budget {
            upstream = upstream.with_budget(budget);
        }
        if let Some(breaker) = self.breaker {
            upstream = upstream.with_breaker(breaker);
        }
        if let Some(cooldown) = self.cooldown {
            upstream = upstream.with_cooldown(cooldown);
        }
        if let Some(bulkhead) = self.bulkhead {
            upstream = upstream.with_bulkhead(bulkhead);
        }
        if let Some(quota) = self.quota {
            upstream = upstream.with_quota(quota);
        }
        if let Some(throttle) = self.throttle {
            upstream = upstream.with_throttle(throttle);
        }
        if let Some(adaptive) = self.adaptive {
            upstream = upstream.with_adaptive_timeout(adaptive);
        }
        Ok(upstream)
    }
}
