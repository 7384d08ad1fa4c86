//! Visitors of single settings. Derived visitors know the expected type but not the setting to
//! name.

use std::fmt;
use std::time::Duration;

use jiff::fmt::friendly::SpanParser;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::backoff::{Backoff, Jitter};

/// Reads a duration. If `optional`, reads `"none"` and null as `None`.
pub(super) struct DurationVisitor {
    pub(super) setting: &'static str,
    pub(super) optional: bool,
}

impl<'de> Visitor<'de> for DurationVisitor {
    type Value = Option<Duration>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, optional } = self;
        write!(f, "`{setting}` to be a duration of 0 or more in h, m, s, ms, us or ns")?;
        write!(
            f,
            ", such as \"1.5s\", \"500ms\" or \"2m 30s\"{}",
            if *optional { ", or \"none\"" } else { "" }
        )
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

impl DurationVisitor {
    /// Creates a visitor that also accepts `"none"` and null.
    pub(super) const fn optional(setting: &'static str) -> Self {
        Self { setting, optional: true }
    }

    pub(super) const fn required(setting: &'static str) -> Self {
        Self { setting, optional: false }
    }
}

impl<'de> DeserializeSeed<'de> for DurationVisitor {
    type Value = Option<Duration>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.optional {
            deserializer.deserialize_option(self)
        } else {
            deserializer.deserialize_str(self)
        }
    }
}

/// Reads a whole number of at least `least`.
#[derive(Clone, Copy)]
pub(super) struct IntegerVisitor {
    pub(super) setting: &'static str,
    pub(super) least: u32,
}

impl IntegerVisitor {
    pub(super) const ATTEMPTS: Self = Self { setting: "`attempts` (the first included)", least: 1 };

    pub(super) const UNSURE_ATTEMPTS: Self = Self::of("`unsure_attempts`", 1);

    pub(super) const fn of(setting: &'static str, least: u32) -> Self {
        Self { setting, least }
    }
}

impl Visitor<'_> for IntegerVisitor {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be a whole number from {} to {}", self.setting, self.least, u32::MAX)
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<u32, E> {
        let whole = u32::try_from(n).ok().filter(|n| *n >= self.least);
        whole.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(n), &self))
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<u32, E> {
        u64::try_from(n).map_or_else(
            |_| Err(E::invalid_value(Unexpected::Signed(n), &self)),
            |n| self.visit_u64(n),
        )
    }
}

impl<'de> DeserializeSeed<'de> for IntegerVisitor {
    type Value = u32;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u32, D::Error> {
        deserializer.deserialize_u32(self)
    }
}

/// Reads a value of the inner visitor. Reads `"none"` and null as `None`.
pub(super) struct OptionalVisitor<V>(pub(super) V);

impl<'de, V: Visitor<'de>> Visitor<'de> for OptionalVisitor<V> {
    type Value = Option<V::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)?;
        f.write_str(", or \"none\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text == "none" { Ok(None) } else { Err(E::invalid_value(Unexpected::Str(text), &self)) }
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<Self::Value, E> {
        self.0.visit_u64(n).map(Some)
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<Self::Value, E> {
        self.0.visit_i64(n).map(Some)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        self.0.visit_map(map).map(Some)
    }
}

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for OptionalVisitor<V> {
    type Value = Option<V::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Reads a number from `least` to `most`.
pub(super) struct NumberVisitor {
    pub(super) right: &'static str,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Visitor<'_> for NumberVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.right)
    }

    fn visit_f64<E: Error>(self, n: f64) -> Result<f64, E> {
        // The range contains no NaN.
        if (self.least..=self.most).contains(&n) {
            Ok(n)
        } else {
            Err(E::invalid_value(Unexpected::Float(n), &self))
        }
    }

    #[expect(clippy::cast_precision_loss)] // rounds like the reader of the format
    fn visit_u64<E: Error>(self, n: u64) -> Result<f64, E> {
        self.visit_f64(n as f64)
    }

    #[expect(clippy::cast_precision_loss)]
    fn visit_i64<E: Error>(self, n: i64) -> Result<f64, E> {
        self.visit_f64(n as f64)
    }
}

impl NumberVisitor {
    pub(super) const FACTOR: Self =
        Self { right: "`factor` to be a finite number of 1 or more", least: 1.0, most: f64::MAX };
}

impl<'de> DeserializeSeed<'de> for NumberVisitor {
    type Value = f64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f64, D::Error> {
        deserializer.deserialize_f64(self)
    }
}

/// The constructor of a named curve. Its argument is the base delay.
pub(super) struct DelayCurveVisitor(pub(super) fn(Duration) -> Backoff);

/// The curves that cannot be configured and their error messages.
pub(super) const CODE_ONLY_CURVES: [(&str, &str); 2] = [
    ("steps", "`curve` cannot be \"steps\" in a configuration: use `Backoff::steps` in code"),
    ("custom", "`curve` cannot be \"custom\" in a configuration: use `Backoff::custom` in code"),
];

impl<'de> Deserialize<'de> for DelayCurveVisitor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(CurveVisitor)
    }
}

struct CurveVisitor;

impl Visitor<'_> for CurveVisitor {
    type Value = DelayCurveVisitor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "`curve` to be \"none\", \"fixed\", \"linear\", \"exponential\" or \"fibonacci\"",
        )
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<DelayCurveVisitor, E> {
        Ok(DelayCurveVisitor(match name {
            "none" => |_| Backoff::none(),
            "fixed" => Backoff::fixed,
            "linear" => Backoff::linear,
            "exponential" => Backoff::exponential,
            "fibonacci" => Backoff::fibonacci,
            _ => {
                let in_code = CODE_ONLY_CURVES.iter().find(|(curve, _)| *curve == name);
                return Err(in_code.map_or_else(
                    || E::invalid_value(Unexpected::Str(name), &self),
                    |(_, why)| E::custom(why),
                ));
            }
        }))
    }
}

/// Reads `"none"`, `"full"`, `"equal"`, `"decorrelated"` or a map: `{ "proportional": 0.5 }`.
impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JitterVisitor)
    }
}

struct JitterVisitor;

impl<'de> Visitor<'de> for JitterVisitor {
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
        let ProportionalVisitor { proportional } =
            Deserialize::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Jitter::Proportional(proportional))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProportionalVisitor {
    #[serde(deserialize_with = "proportional")]
    proportional: f64,
}

fn proportional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_f64(NumberVisitor {
        right: "`proportional` to be a number from 0 to 1",
        least: 0.0,
        most: 1.0,
    })
}
