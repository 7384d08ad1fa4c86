use std::fmt;
use std::time::Duration;

use serde::de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::settings::{Reader, Settings, settings};
use super::visit::{DurationVisitor, IntegerVisitor, NumberVisitor};
use crate::quota::{Charge, Estimate, Quota, Rate};

settings! {
    /// Reads a quota. A missing setting keeps its value from [`Quota::new`].
    ///
    /// * `requests`, `input`, `output`, `tokens`: a map of `count`, `per` (a duration) and
    ///   optionally `burst`.
    /// * `concurrency`, `queue`: whole numbers.
    /// * `charge`: the name of a preset of [`Charge`] in lower case, or a map of `like` (such a
    ///   name), `output_weight`, `cache_read_weight`, `cache_write_weight` and `default_maximum`.
    /// * `estimate`: a map of `quantile` and `samples`.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::quota::{Dimension, Quota};
    ///
    /// let quota: Quota = serde_json::from_str(
    ///     r#"{
    ///         "requests": { "count": 4000, "per": "1m" },
    ///         "tokens": { "count": 400000, "per": "1m", "burst": 66000 },
    ///         "concurrency": 64,
    ///         "charge": { "like": "bedrock", "output_weight": 5 }
    ///     }"#,
    /// )?;
    /// assert_eq!(quota.rate(Dimension::Tokens).unwrap().burst(), 66_000);
    /// assert_eq!(quota.charge().output_weight(), 5.0);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    Quota, "a quota", Quota::new(), {
        "requests": Reader::<RateSettings>::NEW => |quota, rate| quota.with_requests(rate),
        "input": Reader::<RateSettings>::NEW => |quota, rate| quota.with_input(rate),
        "output": Reader::<RateSettings>::NEW => |quota, rate| quota.with_output(rate),
        "tokens": Reader::<RateSettings>::NEW => |quota, rate| quota.with_tokens(rate),
        "concurrency": IntegerVisitor::of("`concurrency`", 1)
            => |quota, limit| quota.with_concurrency(limit),
        "queue": IntegerVisitor::of("`queue`", 0) => |quota, waiting| quota.with_queue(waiting),
        "charge": ChargeVisitor => |quota, charge| quota.with_charge(charge),
        "estimate": std::marker::PhantomData::<Estimate>
            => |quota, estimate| quota.with_estimate(estimate),
    }

    /// Reads `quantile` and `samples`. A missing setting keeps its value from [`Estimate::new`].
    Estimate, "an estimate", Estimate::new(), {
        "quantile": NumberVisitor {
            right: "`quantile` to be a number from 0 to 1", least: 0.0, most: 1.0
        } => |estimate, quantile| estimate.with_quantile(quantile),
        "samples": IntegerVisitor::of("`samples`", 1)
            => |estimate, samples| estimate.with_samples(samples),
    }
}

#[derive(Default)]
struct RateSettings {
    count: Option<u32>,
    per: Option<Duration>,
    burst: Option<u32>,
}

impl Settings for RateSettings {
    type Made = Rate;
    const WHAT: &'static str = "a rate";
    const NAMES: &'static [&'static str] = &["count", "per", "burst"];

    fn start() -> Self {
        Self::default()
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "count" => self.count = Some(map.next_value_seed(IntegerVisitor::of("`count`", 1))?),
            "per" => self.per = map.next_value_seed(DurationVisitor::required("per"))?,
            _ => self.burst = Some(map.next_value_seed(IntegerVisitor::of("`burst`", 1))?),
        }
        Ok(())
    }

    fn finish<E: Error>(self) -> Result<Rate, E> {
        let count = self.count.ok_or_else(|| E::missing_field("count"))?;
        let per = self.per.ok_or_else(|| E::missing_field("per"))?;
        if per.is_zero() {
            let right = "`per` to be a duration above 0";
            return Err(E::invalid_value(Unexpected::Str("0s"), &right));
        }
        let rate = Rate::new(count, per);
        Ok(self.burst.map_or(rate, |burst| rate.with_burst(burst)))
    }
}

/// Reads the name of a preset, or a map of settings.
struct ChargeVisitor;

const PRESETS: [(&str, Charge); 7] = [
    ("actual", Charge::ACTUAL),
    ("anthropic", Charge::ANTHROPIC),
    ("bedrock", Charge::BEDROCK),
    ("openai", Charge::OPENAI),
    ("azure", Charge::AZURE),
    ("cerebras", Charge::CEREBRAS),
    ("groq", Charge::GROQ),
];

impl<'de> DeserializeSeed<'de> for ChargeVisitor {
    type Value = Charge;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Charge, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ChargeVisitor {
    type Value = Charge;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`charge` to be ")?;
        PRESETS.iter().try_for_each(|(name, _)| write!(f, "\"{name}\", "))?;
        write!(f, "or a map of `{}`", ChargeSettings::NAMES.join("`, `"))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Charge, E> {
        let preset = PRESETS.iter().find(|(preset, _)| *preset == name);
        preset.map_or_else(
            || Err(E::invalid_value(Unexpected::Str(name), &self)),
            |(_, charge)| Ok(*charge),
        )
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Charge, A::Error> {
        Reader::<ChargeSettings>::NEW.visit_map(map)
    }
}

/// A preset by its name.
struct Preset(Charge);

impl<'de> Deserialize<'de> for Preset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(ChargeVisitor).map(Preset)
    }
}

#[derive(Default)]
struct ChargeSettings {
    like: Charge,
    output: Option<f64>,
    cache_reads: Option<f64>,
    cache_writes: Option<f64>,
    default_maximum: Option<u32>,
}

impl Settings for ChargeSettings {
    type Made = Charge;
    const WHAT: &'static str = "a charge";
    const NAMES: &'static [&'static str] =
        &["like", "output_weight", "cache_read_weight", "cache_write_weight", "default_maximum"];

    fn start() -> Self {
        Self::default()
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        let weight = |right: &'static str| NumberVisitor { right, least: 0.0, most: 1_000_000.0 };
        match name {
            "like" => self.like = map.next_value::<Preset>()?.0,
            "output_weight" => {
                let right = "`output_weight` to be a number from 0 to 1000000";
                self.output = Some(map.next_value_seed(weight(right))?);
            }
            "cache_read_weight" => {
                let right = "`cache_read_weight` to be a number from 0 to 1000000";
                self.cache_reads = Some(map.next_value_seed(weight(right))?);
            }
            "cache_write_weight" => {
                let right = "`cache_write_weight` to be a number from 0 to 1000000";
                self.cache_writes = Some(map.next_value_seed(weight(right))?);
            }
            _ => {
                let maximum = IntegerVisitor::of("`default_maximum`", 0);
                self.default_maximum = Some(map.next_value_seed(maximum)?);
            }
        }
        Ok(())
    }

    fn finish<E: Error>(self) -> Result<Charge, E> {
        let mut charge = self.like;
        if let Some(weight) = self.output {
            charge = charge.with_output_weight(weight);
        }
        if let Some(weight) = self.cache_reads {
            charge = charge.with_cache_read_weight(weight);
        }
        if let Some(weight) = self.cache_writes {
            charge = charge.with_cache_write_weight(weight);
        }
        if let Some(tokens) = self.default_maximum {
            charge = charge.with_default_maximum(tokens);
        }
        Ok(charge)
    }
}
