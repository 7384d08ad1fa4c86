use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Error, MapAccess};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::duration::{text, text_or_none};
use super::settings::{Settings, read, settings};
use super::visit::{
    CODE_ONLY_CURVES, DelayCurveVisitor, DurationVisitor, IntegerVisitor, NumberVisitor,
};
use crate::backoff::{Backoff, Curve, Jitter};
use crate::classify::Always;
use crate::policy::RetryPolicy;

settings! {
    /// Reads a policy. A missing setting keeps its value from [`RetryPolicy::new`]. See
    /// [Configuration](#configuration).
    RetryPolicy<Always>, "a retry policy", RetryPolicy::new(), {
        "attempts": IntegerVisitor::ATTEMPTS => |policy, attempts| policy.with_attempts(attempts),
        "unsure_attempts": IntegerVisitor::UNSURE_ATTEMPTS
            => |policy, attempts| policy.with_unsure_attempts(attempts),
        "total_timeout": DurationVisitor::optional("total_timeout") => |policy, limit| match limit {
            Some(limit) => policy.with_total_timeout(limit),
            None => policy.without_total_timeout(),
        },
        "attempt_timeout": DurationVisitor::optional("attempt_timeout")
            => |policy, limit| match limit {
            Some(limit) => policy.with_attempt_timeout(limit),
            None => policy.without_attempt_timeout(),
        },
        "learned_attempt_timeout": PhantomData::<bool> => |policy, learned| if learned {
            policy.with_learned_attempt_timeout()
        } else {
            policy
        },
        "hint_cap": DurationVisitor::optional("hint_cap")
            => |policy, cap| policy.with_hint_cap(cap.unwrap_or(Duration::MAX)),
        "hint_margin": DurationVisitor::optional("hint_margin") => |policy, margin| match margin {
            Some(margin) => policy.with_hint_margin(margin),
            None => policy,
        },
        "pause_when_spent": PhantomData::<bool> => |policy, pauses| if pauses {
            policy.with_pause_when_spent()
        } else {
            policy
        },
        "backoff": PhantomData::<Backoff> => |policy, backoff| policy.with_backoff(backoff),
        "throttled_backoff": PhantomData::<Backoff>
            => |policy, backoff| policy.with_throttled_backoff(backoff),
    }
}

/// Writes the settings but not the classifier because the classifier is code. Set the classifier
/// again after reading, by [`with_classifier`](RetryPolicy::with_classifier).
impl<C> Serialize for RetryPolicy<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PolicyText {
            attempts: self.attempts(),
            unsure_attempts: self.unsure_attempts(),
            total_timeout: self.total_timeout().map(text),
            attempt_timeout: self.attempt_timeout().map(text),
            learned_attempt_timeout: self.learns_attempt_timeout(),
            hint_cap: text_or_none(self.hint_cap()),
            hint_margin: self.hint_margin().map(text),
            pause_when_spent: self.pauses_when_spent(),
            backoff: self.backoff(),
            throttled_backoff: self.throttled_backoff(),
        }
        .serialize(serializer)
    }
}

/// Reads a backoff. A missing setting keeps its value from the backoff of [`RetryPolicy::new`]. A
/// missing `cap` is the default cap of the curve. A setting without use for the curve is checked
/// and then ignored.
impl<'de> Deserialize<'de> for Backoff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read::<BackoffSettings, D>(deserializer)
    }
}

/// Collected settings. They may come in any order. The curve decides their meaning.
struct BackoffSettings {
    curve: fn(Duration) -> Backoff,
    base: Duration,
    factor: f64,
    cap: Option<Duration>,
    jitter: Option<Jitter>,
}

impl Settings for BackoffSettings {
    type Made = Backoff;
    const WHAT: &'static str = "`backoff`";
    const NAMES: &'static [&'static str] = &["curve", "base", "factor", "cap", "jitter"];

    fn start() -> Self {
        let backoff = RetryPolicy::new().backoff();
        let base = backoff.unjittered(1);
        Self { curve: Backoff::exponential, base, factor: backoff.factor, cap: None, jitter: None }
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "curve" => self.curve = map.next_value::<DelayCurveVisitor>()?.0,
            "base" => {
                self.base =
                    map.next_value_seed(DurationVisitor::required("base"))?.unwrap_or_default();
            }
            "factor" => self.factor = map.next_value_seed(NumberVisitor::FACTOR)?,
            "cap" => {
                self.cap = Some(
                    map.next_value_seed(DurationVisitor::optional("cap"))?.unwrap_or(Duration::MAX),
                );
            }
            _ => self.jitter = Some(map.next_value()?),
        }
        Ok(())
    }

    fn finish<E: Error>(self) -> Result<Backoff, E> {
        let Self { curve, base, factor, cap, jitter } = self;
        let backoff = curve(base).with_factor(factor);
        let backoff = jitter.map_or(backoff, |jitter| backoff.with_jitter(jitter));
        Ok(cap.map_or(backoff, |cap| backoff.with_cap(cap)))
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
#[serde(rename = "RetryPolicy")]
struct PolicyText {
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unsure_attempts: Option<u32>,
    total_timeout: Option<String>,
    attempt_timeout: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    learned_attempt_timeout: bool,
    hint_cap: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint_margin: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pause_when_spent: bool,
    backoff: Backoff,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_backoff: Option<Backoff>,
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
