use std::fmt;
use std::time::Duration;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor};

use super::backoff::BackoffSettings;
use super::place::Place;
use super::settings::{Found, Reader, Settings, settings};
use super::visit::{DurationVisitor, FlagVisitor, IntegerVisitor, NumberVisitor, OptionalVisitor};
use crate::breaker::{Breaker, DEFAULT_CALLS, DEFAULT_PROBES_SHARE};

settings! {
    /// Reads a breaker. A missing setting keeps its value from [`Breaker::new`].
    ///
    /// * `consecutive`: a number, or `"none"`.
    /// * `overloads`: whether an overload is a failure in a row too.
    /// * `failure_rate`: a share of at least 20 calls, such as 0.5, or a map of `share` and `of`, or
    ///   `"none"`.
    /// * `slow_rate`: a map of `share`, `of` and `limit`, or `"none"`.
    /// * `probes`: a number of probes, of which the share 0.6 must pass, or a map of `share` and `of`.
    /// * `open_time`: a [`Backoff`](crate::Backoff).
    /// * `window`, `lease`: durations.
    Breaker, "a breaker", Breaker::new(), {
        "consecutive": IntegerVisitor::optional_from_1 => |breaker, failures| match failures {
            Some(failures) => breaker.with_consecutive(failures),
            None => breaker.without_consecutive(),
        },
        "overloads": FlagVisitor
            => |breaker, overloads| if overloads { breaker.with_overloads() } else { breaker },
        "failure_rate": FailureRateVisitor::optional => |breaker, rate| match rate {
            Some(Rate { share, of, .. }) => breaker.with_failure_rate(share, of),
            None => breaker.without_failure_rate(),
        },
        "slow_rate": slow_rate => |breaker, rate| match rate {
            Some(Rate { share, of, limit }) => breaker.with_slow_rate(limit, share, of),
            None => breaker,
        },
        "window": DurationVisitor::required
            => |breaker, window| breaker.with_window(window.unwrap_or_default()),
        "open_time": Reader::<BackoffSettings>::at => |breaker, open| breaker.with_open_time(open),
        "probes": ProbesVisitor => |breaker, probes| breaker.with_probes(probes.share, probes.of),
        "lease": DurationVisitor::required
            => |breaker, lease| breaker.with_lease(lease.unwrap_or_default()),
    }
}

/// A share of at least `of` calls, or of `of` probes. For a slow rate, a call over `limit` is slow.
struct Rate {
    share: f64,
    of: u32,
    limit: Duration,
}

#[derive(Default)]
struct RateSettings<const SLOW: bool> {
    share: Option<f64>,
    of: Option<u32>,
    limit: Option<Duration>,
}

impl<const SLOW: bool> Settings for RateSettings<SLOW> {
    type Made = Rate;
    const WHAT: &'static str = "a rate";
    const NAMES: &'static [&'static str] =
        if SLOW { &["share", "of", "limit"] } else { &["share", "of"] };

    fn start() -> Self {
        Self::default()
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, at: Place<'_>, map: &mut A) -> Result<(), A::Error> {
        match at.name {
            "share" => self.share = Some(map.next_value_seed(NumberVisitor::share(at))?),
            "of" => self.of = Some(map.next_value_seed(IntegerVisitor::from_1(at))?),
            _ => self.limit = map.next_value_seed(DurationVisitor::required(at))?,
        }
        Ok(())
    }

    fn finish<E: Error>(self, found: &Found<'_>) -> Result<Rate, E> {
        let share = found.required("share", self.share)?;
        let of = found.required("of", self.of)?;
        let limit = if SLOW { found.required("limit", self.limit)? } else { Duration::ZERO };
        Ok(Rate { share, of, limit })
    }
}

const fn slow_rate(at: Place<'_>) -> OptionalVisitor<Reader<'_, RateSettings<true>>> {
    OptionalVisitor(Reader::at(at))
}

/// Reads a share of the default number of calls, or a map.
#[derive(Clone, Copy)]
struct FailureRateVisitor<'a>(Place<'a>);

impl<'a> FailureRateVisitor<'a> {
    const fn optional(at: Place<'a>) -> OptionalVisitor<Self> {
        OptionalVisitor(Self(at))
    }
}

impl<'de> Visitor<'de> for FailureRateVisitor<'_> {
    type Value = Rate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be a share from 0 to 1, such as 0.5, or a map of `share`, `of`", self.0)
    }

    fn visit_f64<E: Error>(self, share: f64) -> Result<Rate, E> {
        if (0.0..=1.0).contains(&share) {
            Ok(Rate { share, of: DEFAULT_CALLS, limit: Duration::ZERO })
        } else {
            Err(E::invalid_value(Unexpected::Float(share), &self))
        }
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<Rate, E> {
        match n {
            0 => self.visit_f64(0.0),
            1 => self.visit_f64(1.0),
            _ => Err(E::invalid_value(Unexpected::Unsigned(n), &self)),
        }
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<Rate, E> {
        match u64::try_from(n) {
            Ok(n) => self.visit_u64(n),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(n), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rate, A::Error> {
        Reader::<RateSettings<false>>::at(self.0).visit_map(map)
    }
}

/// Reads a number of probes of which the default share must pass, or a map.
struct ProbesVisitor<'a>(Place<'a>);

impl<'de> DeserializeSeed<'de> for ProbesVisitor<'_> {
    type Value = Rate;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Rate, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ProbesVisitor<'_> {
    type Value = Rate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be a whole number from 1, such as 3, or a map of `share`, `of`", self.0)
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<Rate, E> {
        match u32::try_from(n) {
            Ok(of @ 1..) => Ok(Rate { share: DEFAULT_PROBES_SHARE, of, limit: Duration::ZERO }),
            _ => Err(E::invalid_value(Unexpected::Unsigned(n), &self)),
        }
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<Rate, E> {
        match u64::try_from(n) {
            Ok(n) => self.visit_u64(n),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(n), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rate, A::Error> {
        Reader::<RateSettings<false>>::at(self.0).visit_map(map)
    }
}
