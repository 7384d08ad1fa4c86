//! Visitors of single settings. Derived visitors know the expected type but not the setting to
//! name.

use std::fmt;
use std::time::Duration;

use jiff::fmt::friendly::SpanParser;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor};

use super::place::Place;

/// Reads a duration. If `optional`, reads `"none"` and null as `None`.
pub(super) struct DurationVisitor<'a> {
    /// `None` for a field of another type, whose name serde does not tell.
    at: Option<Place<'a>>,
    optional: bool,
    /// False if zero is an error.
    zero: bool,
}

impl<'de> Visitor<'de> for DurationVisitor<'_> {
    type Value = Option<Duration>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, optional, zero } = self;
        at.map_or(Ok(()), |at| write!(f, "{at} to be "))?;
        let least = if *zero { "of 0 or more" } else { "above 0" };
        write!(
            f,
            "a duration {least} in h, m, s, ms, us or ns, such as \"1.5s\", \"500ms\" or \"2m 30s\"{}",
            if *optional { ", or \"none\"" } else { "" }
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if self.optional && text == "none" {
            return Ok(None);
        }
        match SpanParser::new().parse_unsigned_duration(text) {
            Ok(duration) if self.zero || !duration.is_zero() => Ok(Some(duration)),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
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

impl<'a> DurationVisitor<'a> {
    /// Creates a visitor that also accepts `"none"` and null.
    pub(super) const fn optional(at: Place<'a>) -> Self {
        Self { at: Some(at), optional: true, zero: true }
    }

    /// Creates a visitor for the limit of an attempt or of a call, as [`optional`](Self::optional) but
    /// above 0. With 0 an attempt would have one poll.
    pub(super) const fn timeout(at: Place<'a>) -> Self {
        Self { at: Some(at), optional: true, zero: false }
    }

    pub(super) const fn required(at: Place<'a>) -> Self {
        Self { at: Some(at), optional: false, zero: true }
    }

    /// Creates a visitor for a field whose name is unknown.
    pub(super) const fn unnamed(optional: bool) -> Self {
        Self { at: None, optional, zero: true }
    }
}

impl<'de> DeserializeSeed<'de> for DurationVisitor<'_> {
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
pub(super) struct IntegerVisitor<'a> {
    at: Place<'a>,
    /// A remark on the setting.
    remark: &'static str,
    least: u32,
}

impl<'a> IntegerVisitor<'a> {
    pub(super) const fn from_0(at: Place<'a>) -> Self {
        Self { at, remark: "", least: 0 }
    }

    pub(super) const fn from_1(at: Place<'a>) -> Self {
        Self { at, remark: "", least: 1 }
    }

    pub(super) const fn optional_from_1(at: Place<'a>) -> OptionalVisitor<Self> {
        OptionalVisitor(Self::from_1(at))
    }

    pub(super) const fn attempts(at: Place<'a>) -> Self {
        Self { at, remark: " (the first included)", least: 1 }
    }
}

impl Visitor<'_> for IntegerVisitor<'_> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, remark, least } = self;
        write!(f, "{at}{remark} to be a whole number from {least} to {}", u32::MAX)
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

impl<'de> DeserializeSeed<'de> for IntegerVisitor<'_> {
    type Value = u32;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u32, D::Error> {
        deserializer.deserialize_u32(self)
    }
}

/// Reads a value of the inner visitor. Reads `"none"` and null as `None`, and names `"none"` in each
/// error.
pub(super) struct OptionalVisitor<V>(pub(super) V);

impl<'de, V: Visitor<'de> + Copy> Visitor<'de> for OptionalVisitor<V> {
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

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_f64<E: Error>(self, n: f64) -> Result<Self::Value, E> {
        let made = self.0.visit_f64::<E>(n);
        made.map(Some).map_err(|_| E::invalid_value(Unexpected::Float(n), &self))
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<Self::Value, E> {
        let made = self.0.visit_u64::<E>(n);
        made.map(Some).map_err(|_| E::invalid_value(Unexpected::Unsigned(n), &self))
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<Self::Value, E> {
        let made = self.0.visit_i64::<E>(n);
        made.map(Some).map_err(|_| E::invalid_value(Unexpected::Signed(n), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        self.0.visit_map(map).map(Some)
    }
}

impl<'de, V: Visitor<'de> + Copy> DeserializeSeed<'de> for OptionalVisitor<V> {
    type Value = Option<V::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Reads a number from `least` to `most`.
pub(super) struct NumberVisitor<'a> {
    at: Place<'a>,
    right: &'static str,
    least: f64,
    most: f64,
}

impl Visitor<'_> for NumberVisitor<'_> {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be {}", self.at, self.right)
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

impl<'a> NumberVisitor<'a> {
    pub(super) const fn share(at: Place<'a>) -> Self {
        Self { at, right: "a number from 0 to 1", least: 0.0, most: 1.0 }
    }

    pub(super) const fn factor(at: Place<'a>) -> Self {
        Self { at, right: "a finite number of 1 or more", least: 1.0, most: f64::MAX }
    }

    pub(super) const fn weight(at: Place<'a>) -> Self {
        Self { at, right: "a number from 0 to 1000000", least: 0.0, most: 1_000_000.0 }
    }

    pub(super) const fn tokens(at: Place<'a>) -> Self {
        Self { at, right: "a number from 0 to 4294967295", least: 0.0, most: 4_294_967_295.0 }
    }
}

impl<'de> DeserializeSeed<'de> for NumberVisitor<'_> {
    type Value = f64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f64, D::Error> {
        deserializer.deserialize_f64(self)
    }
}

/// Reads true or false.
pub(super) struct FlagVisitor<'a>(pub(super) Place<'a>);

impl Visitor<'_> for FlagVisitor<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be true or false", self.0)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<bool, E> {
        Ok(flag)
    }
}

impl<'de> DeserializeSeed<'de> for FlagVisitor<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_bool(self)
    }
}

/// Reads a name.
pub(super) struct NameVisitor<'a>(pub(super) Place<'a>);

impl Visitor<'_> for NameVisitor<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be text that is not empty, such as \"search\"", self.0)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<String, E> {
        self.visit_string(name.to_owned())
    }

    // Lines and metrics without a name do not say which upstream they are about.
    fn visit_string<E: Error>(self, name: String) -> Result<String, E> {
        if name.trim().is_empty() {
            return Err(E::invalid_value(Unexpected::Str(&name), &self));
        }
        Ok(name)
    }
}

impl<'de> DeserializeSeed<'de> for NameVisitor<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_string(self)
    }
}
