use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor};

use super::place::Place;
use super::rate::RateVisitor;
use super::settings::{Changed, Found, Reader, Settings, settings};
use super::visit::{IntegerVisitor, NumberVisitor};
use crate::quota::{Charge, Estimate, Quota};

settings! {
    /// Reads a quota. A missing setting keeps its value from [`Quota::new`].
    ///
    /// * `requests`, `input`, `output`, `tokens`: a rate such as `"500/min"`, or a map of `count`,
    ///   `per` (a duration) and optionally `burst`. The units of the text are `s`, `sec`, `second`,
    ///   `m`, `min`, `minute`, `h`, `hour`, `d` and `day`. `"10_000/s"` and `"500 per minute"` are
    ///   rates too.
    /// * `concurrency`, `queue`: whole numbers.
    /// * `charge`: the name of a preset of [`Charge`] in lower case, or a map of `like` (such a
    ///   name), `output_weight`, `cache_read_weight`, `cache_write_weight` and `default_maximum`. A
    ///   `default_maximum` for a preset that does not charge the most output is an error.
    /// * `estimate`: a map of `quantile` and `samples`.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::quota::{Dimension, Quota, Rate};
    ///
    /// let quota: Quota = serde_json::from_str(
    ///     r#"{
    ///         "requests": "4000/min",
    ///         "tokens": { "count": 400000, "per": "1m", "burst": 66000 },
    ///         "concurrency": 64,
    ///         "charge": { "like": "bedrock", "output_weight": 5 }
    ///     }"#,
    /// )?;
    /// assert_eq!(quota.rate(Dimension::Requests), Some(Rate::per_minute(4_000)));
    /// assert_eq!(quota.rate(Dimension::Tokens).unwrap().burst(), 66_000);
    /// assert_eq!(quota.charge().output_weight(), 5.0);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    Quota, "a quota", Quota::new(), {
        "requests": RateVisitor => |quota, rate| quota.with_requests(rate),
        "input": RateVisitor => |quota, rate| quota.with_input(rate),
        "output": RateVisitor => |quota, rate| quota.with_output(rate),
        "tokens": RateVisitor => |quota, rate| quota.with_tokens(rate),
        "concurrency": IntegerVisitor::from_1
            => |quota, limit| quota.with_concurrency(limit),
        "queue": IntegerVisitor::from_0 => |quota, waiting| quota.with_queue(waiting),
        "charge": ChargeVisitor => |quota, charge| quota.with_charge(charge),
        "estimate": Reader::<Changed<Estimate>>::at
            => |quota, estimate| quota.with_estimate(estimate),
    }

    /// Reads `quantile` and `samples`. A missing setting keeps its value from [`Estimate::new`].
    Estimate, "an estimate", Estimate::new(), {
        "quantile": NumberVisitor::share => |estimate, quantile| estimate.with_quantile(quantile),
        "samples": IntegerVisitor::from_1
            => |estimate, samples| estimate.with_samples(samples),
    }
}

const PRESETS: [(&str, Charge); 7] = [
    ("actual", Charge::ACTUAL),
    ("anthropic", Charge::ANTHROPIC),
    ("bedrock", Charge::BEDROCK),
    ("openai", Charge::OPENAI),
    ("azure", Charge::AZURE),
    ("cerebras", Charge::CEREBRAS),
    ("groq", Charge::GROQ),
];

/// Returns the names of the presets that `is_meant` selects.
fn names(is_meant: impl Fn(&Charge) -> bool) -> String {
    let meant = PRESETS.iter().filter(|(_, charge)| is_meant(charge));
    meant.map(|(name, _)| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

/// Reads the name of a preset.
struct PresetVisitor<'a>(Place<'a>);

impl<'de> DeserializeSeed<'de> for PresetVisitor<'_> {
    type Value = (&'static str, Charge);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for PresetVisitor<'_> {
    type Value = (&'static str, Charge);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be one of {}", self.0, names(|_| true))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let preset = PRESETS.into_iter().find(|(preset, _)| *preset == name);
        preset.ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
    }
}

/// Reads the name of a preset, or a map of settings.
struct ChargeVisitor<'a>(Place<'a>);

impl<'de> DeserializeSeed<'de> for ChargeVisitor<'_> {
    type Value = Charge;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Charge, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ChargeVisitor<'_> {
    type Value = Charge;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PresetVisitor(self.0).expecting(f)?;
        write!(f, ", or a map of `{}`", ChargeSettings::NAMES.join("`, `"))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Charge, E> {
        let preset = PRESETS.iter().find(|(preset, _)| *preset == name);
        preset.map_or_else(
            || Err(E::invalid_value(Unexpected::Str(name), &self)),
            |(_, charge)| Ok(*charge),
        )
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Charge, A::Error> {
        Reader::<ChargeSettings>::at(self.0).visit_map(map)
    }
}

#[derive(Default)]
struct ChargeSettings {
    like: Option<(&'static str, Charge)>,
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

    fn set<'de, A: MapAccess<'de>>(&mut self, at: Place<'_>, map: &mut A) -> Result<(), A::Error> {
        match at.name {
            "like" => self.like = Some(map.next_value_seed(PresetVisitor(at))?),
            "output_weight" => self.output = Some(map.next_value_seed(NumberVisitor::weight(at))?),
            "cache_read_weight" => {
                self.cache_reads = Some(map.next_value_seed(NumberVisitor::weight(at))?);
            }
            "cache_write_weight" => {
                self.cache_writes = Some(map.next_value_seed(NumberVisitor::weight(at))?);
            }
            _ => self.default_maximum = Some(map.next_value_seed(IntegerVisitor::from_0(at))?),
        }
        Ok(())
    }

    fn finish<E: Error>(self, found: &Found<'_>) -> Result<Charge, E> {
        let (name, mut charge) = self.like.unwrap_or_default();
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
            if found.has(&["like"]) && !charge.reserves_maximum() {
                let right = names(Charge::reserves_maximum);
                return Err(found.contradiction(
                    ("like", &format!("\"{name}\"")),
                    ("default_maximum", &tokens.to_string()),
                    &format!("a preset that charges the most output at the start: {right}"),
                ));
            }
            charge = charge.with_default_maximum(tokens);
        }
        Ok(charge)
    }
}
