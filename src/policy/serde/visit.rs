//! Readers of single settings. Derived ones would know the type that they expect, but not the setting to name.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use jiff::fmt::friendly::SpanParser;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::backoff::{Backoff, Jitter};

/// Reads settings by their names. A derived reader takes a list of them in their order as well.
pub(super) struct MapOf<T> {
    what: &'static str,
    settings: &'static [&'static str],
    read: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> MapOf<T> {
    /// Reads a `T`, the struct of that name. `what` names it in errors.
    pub(super) fn read<D: Deserializer<'de>>(
        deserializer: D,
        name: &'static str,
        what: &'static str,
        settings: &'static [&'static str],
    ) -> Result<T, D::Error> {
        deserializer.deserialize_struct(name, settings, Self { what, settings, read: PhantomData })
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for MapOf<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be a map of `{}`", self.what, self.settings.join("`, `"))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Reads a duration, `None` for "none" where that may be.
pub(super) struct Time {
    pub(super) setting: &'static str,
    pub(super) optional: bool,
}

impl<'de> Visitor<'de> for Time {
    type Value = Option<Duration>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, optional } = self;
        write!(f, "`{setting}` to be a duration, not negative, in h, m, s, ms, us or ns")?;
        write!(f, ", such as \"1.5s\", \"500ms\" or \"2m 30s\"{}", if *optional { ", or \"none\"" } else { "" })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if self.optional && text == "none" {
            return Ok(None);
        }
        match SpanParser::new().parse_unsigned_duration(text) {
            Ok(duration) => Ok(Some(duration)),
            Err(_) => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        if self.optional { Ok(None) } else { Err(E::invalid_type(Unexpected::Unit, &self)) }
    }
}

pub(super) struct Attempts;

impl Visitor<'_> for Attempts {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`attempts`, which counts the first, to be a whole number from 1 to {}", u32::MAX)
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<u32, E> {
        let attempts = u32::try_from(n).ok().filter(|n| *n > 0);
        attempts.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(n), &self))
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<u32, E> {
        u64::try_from(n).map_or_else(|_| Err(E::invalid_value(Unexpected::Signed(n), &Self)), |n| self.visit_u64(n))
    }
}

/// Reads a number from `least` to `most`.
pub(super) struct Number {
    pub(super) right: &'static str,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.right)
    }

    fn visit_f64<E: Error>(self, n: f64) -> Result<f64, E> {
        // No NaN is in the range.
        if (self.least..=self.most).contains(&n) { Ok(n) } else { Err(E::invalid_value(Unexpected::Float(n), &self)) }
    }

    #[expect(clippy::cast_precision_loss)] // as the format's own reader would round it
    fn visit_u64<E: Error>(self, n: u64) -> Result<f64, E> {
        self.visit_f64(n as f64)
    }

    #[expect(clippy::cast_precision_loss)]
    fn visit_i64<E: Error>(self, n: i64) -> Result<f64, E> {
        self.visit_f64(n as f64)
    }
}

/// The function that makes the curve of that name, from its base.
pub(super) struct CurveOf(pub(super) fn(Duration) -> Backoff);

/// The curves that no configuration can hold.
pub(super) const IN_CODE: [(&str, &str); 2] = [
    ("steps", "`curve` cannot be \"steps\" in a configuration: its delays are written in code, `Backoff::steps`"),
    ("custom", "`curve` cannot be \"custom\" in a configuration: it is a function in code, `Backoff::custom`"),
];

impl<'de> Deserialize<'de> for CurveOf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(ACurve)
    }
}

struct ACurve;

impl Visitor<'_> for ACurve {
    type Value = CurveOf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`curve` to be \"none\", \"fixed\", \"linear\", \"exponential\" or \"fibonacci\"")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<CurveOf, E> {
        Ok(CurveOf(match name {
            "none" => |_| Backoff::none(),
            "fixed" => Backoff::fixed,
            "linear" => Backoff::linear,
            "exponential" => Backoff::exponential,
            "fibonacci" => Backoff::fibonacci,
            _ => {
                let in_code = IN_CODE.iter().find(|(curve, _)| *curve == name);
                return Err(
                    in_code.map_or_else(|| E::invalid_value(Unexpected::Str(name), &self), |(_, why)| E::custom(why))
                );
            }
        }))
    }
}

pub(super) struct JitterOf;

impl<'de> Visitor<'de> for JitterOf {
    type Value = Jitter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`jitter` to be \"none\", \"full\", \"equal\", \"decorrelated\" or { \"proportional\": 0.5 }")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Jitter, E> {
        match name {
            "none" => Ok(Jitter::None),
            "full" => Ok(Jitter::Full),
            "equal" => Ok(Jitter::Equal),
            "decorrelated" => Ok(Jitter::Decorrelated),
            _ => Err(E::invalid_value(Unexpected::Str(name), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Jitter, A::Error> {
        let Proportional { proportional } = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Jitter::Proportional(proportional))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Proportional {
    #[serde(deserialize_with = "proportional")]
    proportional: f64,
}

fn proportional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_f64(Number { right: "`proportional` to be a number from 0 to 1", least: 0.0, most: 1.0 })
}
