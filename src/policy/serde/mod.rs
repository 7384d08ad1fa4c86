//! Policies as configuration: durations as people write them, and errors that name the setting, its value and what
//! would be right.

mod visit;

use std::time::Duration;

use jiff::fmt::friendly::SpanPrinter;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::RetryPolicy;
use crate::backoff::{Backoff, Curve, Jitter};
use crate::classify::Always;
use visit::{Attempts, CurveOf, IN_CODE, JitterOf, MapOf, Number, Time};

/// Every setting may be left out, and is then as in [`RetryPolicy::new`]; see [Configuration](#configuration).
impl<'de> Deserialize<'de> for RetryPolicy<Always> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let settings = &["attempts", "deadline", "hint_cap", "backoff"];
        let PolicySettings { attempts, deadline, hint_cap, backoff } =
            MapOf::read(deserializer, "RetryPolicy", "a retry policy", settings)?;
        Ok(Self { attempts, deadline, backoff, hint_cap, classify: Always })
    }
}

/// The settings only: the classifier is code, and is given again after reading, by
/// [`with_classify`](RetryPolicy::with_classify).
impl<C> Serialize for RetryPolicy<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PolicyText {
            attempts: self.attempts,
            deadline: self.deadline.map(text),
            hint_cap: text_or_none(self.hint_cap),
            backoff: self.backoff,
        }
        .serialize(serializer)
    }
}

/// Every setting may be left out, and is then as in the backoff of [`RetryPolicy::new`]; a cap is then as the curve's
/// own function sets it. What the curve has no use for is checked, and has no effect.
impl<'de> Deserialize<'de> for Backoff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let settings = &["curve", "base", "factor", "cap", "jitter"];
        let BackoffSettings { curve, base, factor, cap, jitter } =
            MapOf::read(deserializer, "Backoff", "`backoff`", settings)?;
        let backoff = (curve.0)(base).with_factor(factor);
        let backoff = jitter.map_or(backoff, |jitter| backoff.with_jitter(jitter));
        Ok(cap.map_or(backoff, |cap| backoff.with_cap(cap)))
    }
}

/// An error for `steps` and `custom`: those are code.
impl Serialize for Backoff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (curve, base, grows) = match self.curve {
            Curve::None => ("none", None, false),
            Curve::Fixed(delay) => ("fixed", Some(delay), false),
            Curve::Linear(base) => ("linear", Some(base), true),
            Curve::Exponential(base) => ("exponential", Some(base), true),
            Curve::Fibonacci(base) => ("fibonacci", Some(base), true),
            Curve::Steps(_) => return Err(S::Error::custom(IN_CODE[0].1)),
            Curve::Custom(_) => return Err(S::Error::custom(IN_CODE[1].1)),
        };
        BackoffText {
            curve,
            base: base.map(text),
            // Few formats can say infinity, and the largest number reaches any cap just as soon.
            factor: (curve == "exponential" || self.factor > 2.0 || self.factor < 2.0)
                .then(|| self.factor.min(f64::MAX)),
            cap: (grows || self.cap != Duration::MAX).then(|| text_or_none(self.cap)),
            jitter: self.jitter,
        }
        .serialize(serializer)
    }
}

/// `"none"`, `"full"`, `"equal"`, `"decorrelated"`, or a map: `{ "proportional": 0.5 }`.
impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JitterOf)
    }
}

/// A share outside 0 to 1 is written as what it is taken for.
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
#[serde(rename = "RetryPolicy")]
struct PolicyText {
    attempts: u32,
    deadline: Option<String>,
    hint_cap: String,
    backoff: Backoff,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PolicySettings {
    #[serde(deserialize_with = "attempts")]
    attempts: u32,
    #[serde(deserialize_with = "deadline")]
    deadline: Option<Duration>,
    #[serde(deserialize_with = "hint_cap")]
    hint_cap: Duration,
    backoff: Backoff,
}

impl Default for PolicySettings {
    fn default() -> Self {
        let RetryPolicy { attempts, deadline, backoff, hint_cap, .. } = RetryPolicy::new();
        Self { attempts, deadline, hint_cap, backoff }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BackoffSettings {
    curve: CurveOf,
    #[serde(deserialize_with = "base")]
    base: Duration,
    #[serde(deserialize_with = "factor")]
    factor: f64,
    #[serde(deserialize_with = "cap")]
    cap: Option<Duration>,
    #[serde(deserialize_with = "jitter")]
    jitter: Option<Jitter>,
}

impl Default for BackoffSettings {
    fn default() -> Self {
        let backoff = RetryPolicy::new().backoff;
        let base = backoff.unjittered(1);
        Self { curve: CurveOf(Backoff::exponential), base, factor: backoff.factor, cap: None, jitter: None }
    }
}

fn attempts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    deserializer.deserialize_u32(Attempts)
}

fn deadline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    deserializer.deserialize_option(Time { setting: "deadline", optional: true })
}

fn hint_cap<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let limit = deserializer.deserialize_option(Time { setting: "hint_cap", optional: true })?;
    Ok(limit.unwrap_or(Duration::MAX))
}

fn cap<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let limit = deserializer.deserialize_option(Time { setting: "cap", optional: true })?;
    Ok(Some(limit.unwrap_or(Duration::MAX)))
}

fn jitter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Jitter>, D::Error> {
    Jitter::deserialize(deserializer).map(Some)
}

fn base<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let base = deserializer.deserialize_str(Time { setting: "base", optional: false })?;
    Ok(base.unwrap_or_default())
}

fn factor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_f64(Number {
        right: "`factor` to be a finite number of 1 or more",
        least: 1.0,
        most: f64::MAX,
    })
}

/// `2m 30s`. Reads back as the same duration, to the nanosecond, for every duration that there is.
fn text(duration: Duration) -> String {
    SpanPrinter::new().unsigned_duration_to_string(&duration)
}

/// As [`text`], but what stands for "no limit" in its own word: not every format has a null.
fn text_or_none(limit: Duration) -> String {
    if limit == Duration::MAX { "none".into() } else { text(limit) }
}
