use std::fmt;
use std::time::Duration;

use serde::de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::duration::{text, text_or_none};
use super::place::Place;
use super::settings::{Found, Reader, Settings, read};
use super::visit::{DurationVisitor, NumberVisitor};
use crate::backoff::{Backoff, Curve, Jitter};
use crate::policy::RetryPolicy;

/// Reads a backoff. A missing setting keeps its value from the backoff of [`RetryPolicy::new`], but
/// a missing `cap` is the default cap of the curve. A setting without use for the curve or for the
/// jitter is checked and then ignored. A `base` above the `cap` is an error.
impl<'de> Deserialize<'de> for Backoff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read::<BackoffSettings, D>(deserializer)
    }
}

/// Collected settings. They may come in any order. The curve decides their meaning.
pub(super) struct BackoffSettings {
    curve: fn(Duration) -> Backoff,
    base: Duration,
    factor: f64,
    cap: Option<Duration>,
    jitter: Option<Jitter>,
}

impl Settings for BackoffSettings {
    type Made = Backoff;
    const WHAT: &'static str = "a backoff";
    const NAMES: &'static [&'static str] = &["curve", "base", "factor", "cap", "jitter"];

    fn start() -> Self {
        let backoff = RetryPolicy::new().backoff();
        let base = backoff.unjittered(1);
        Self { curve: Backoff::exponential, base, factor: backoff.factor, cap: None, jitter: None }
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, at: Place<'_>, map: &mut A) -> Result<(), A::Error> {
        match at.name {
            "curve" => self.curve = map.next_value_seed(CurveVisitor(at))?,
            "base" => {
                let base = map.next_value_seed(DurationVisitor::required(at))?;
                self.base = base.unwrap_or_default();
            }
            "factor" => self.factor = map.next_value_seed(NumberVisitor::factor(at))?,
            "cap" => {
                let cap = map.next_value_seed(DurationVisitor::optional(at))?;
                self.cap = Some(cap.unwrap_or(Duration::MAX));
            }
            _ => self.jitter = Some(map.next_value_seed(JitterVisitor(at))?),
        }
        Ok(())
    }

    fn finish<E: Error>(self, found: &Found<'_>) -> Result<Backoff, E> {
        let Self { curve, base, factor, cap, jitter } = self;
        let backoff = curve(base).with_factor(factor);
        let backoff = jitter.map_or(backoff, |jitter| backoff.with_jitter(jitter));
        let Some(cap) = cap else { return Ok(backoff) };
        if found.has(&["base"]) && base > cap && !matches!(backoff.curve, Curve::None) {
            return Err(found.contradiction(
                ("base", &text(base)),
                ("cap", &text(cap)),
                "`base` to be at most `cap`, the longest delay",
            ));
        }
        Ok(backoff.with_cap(cap))
    }
}

/// Returns an error for `steps` and `custom` because these curves are code.
impl Serialize for Backoff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (curve, base, grows) = match self.curve {
            Curve::None => ("none", None, false),
            Curve::Fixed(delay) => ("fixed", Some(delay), false),
            Curve::Linear(base) => ("linear", Some(base), true),
            Curve::Exponential(base) => ("exponential", Some(base), true),
            Curve::Fibonacci(base) => ("fibonacci", Some(base), true),
            Curve::Steps(_) => return Err(S::Error::custom(CODE_ONLY_CURVES[0].1)),
            Curve::Custom(_) => return Err(S::Error::custom(CODE_ONLY_CURVES[1].1)),
        };
        BackoffText {
            curve,
            base: base.map(text),
            // Few formats can represent infinity. `f64::MAX` reaches any cap just as soon.
            factor: (curve == "exponential" || self.factor > 2.0 || self.factor < 2.0)
                .then(|| self.factor.min(f64::MAX)),
            cap: (grows || self.cap != Duration::MAX).then(|| text_or_none(self.cap)),
            jitter: self.jitter,
        }
        .serialize(serializer)
    }
}

/// Writes a proportional share clamped to 0 to 1. NaN is written as 0.
impl Serialize for Jitter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::None => serializer.serialize_str("none"),
            Self::Full => serializer.serialize_str("full"),
            Self::Equal => serializer.serialize_str("equal"),
            Self::Decorrelated => serializer.serialize_str("decorrelated"),
            Self::Proportional(share) => {
                let share = if share > 0.0 { share.min(1.0) } else { 0.0 };
                serializer.collect_map([("proportional", share)])
            }
        }
    }
}

#[derive(Serialize)]
#[serde(rename = "Backoff")]
struct BackoffText {
    curve: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<Jitter>,
}

/// The curves that cannot be configured and their error messages.
const CODE_ONLY_CURVES: [(&str, &str); 2] = [
    ("steps", "`curve` cannot be \"steps\" in a configuration: use `Backoff::steps` in code"),
    ("custom", "`curve` cannot be \"custom\" in a configuration: use `Backoff::custom` in code"),
];

/// Reads the constructor of a curve. Its argument is the base delay.
struct CurveVisitor<'a>(Place<'a>);

impl<'de> DeserializeSeed<'de> for CurveVisitor<'_> {
    type Value = fn(Duration) -> Backoff;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for CurveVisitor<'_> {
    type Value = fn(Duration) -> Backoff;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let curves = "\"none\", \"fixed\", \"linear\", \"exponential\" or \"fibonacci\"";
        write!(f, "{} to be {curves}", self.0)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(match name {
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
        })
    }
}

/// Reads `"none"`, `"full"`, `"equal"`, `"decorrelated"` or a map: `{ "proportional": 0.5 }`.
impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JitterVisitor(Place::alone("jitter")))
    }
}

struct JitterVisitor<'a>(Place<'a>);

impl<'de> DeserializeSeed<'de> for JitterVisitor<'_> {
    type Value = Jitter;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Jitter, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JitterVisitor<'_> {
    type Value = Jitter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = "\"none\", \"full\", \"equal\", \"decorrelated\" or { \"proportional\": 0.5 }";
        write!(f, "{} to be {kinds}", self.0)
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
        Reader::<Proportional>::at(self.0).visit_map(map)
    }
}

/// The settings of [`Jitter::Proportional`].
struct Proportional(Option<f64>);

impl Settings for Proportional {
    type Made = Jitter;
    const WHAT: &'static str = "a jitter";
    const NAMES: &'static [&'static str] = &["proportional"];

    fn start() -> Self {
        Self(None)
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, at: Place<'_>, map: &mut A) -> Result<(), A::Error> {
        self.0 = Some(map.next_value_seed(NumberVisitor::share(at))?);
        Ok(())
    }

    fn finish<E: Error>(self, found: &Found<'_>) -> Result<Jitter, E> {
        found.required("proportional", self.0).map(Jitter::Proportional)
    }
}
