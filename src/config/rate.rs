use std::fmt;
use std::time::Duration;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor};

use super::place::Place;
use super::settings::{Found, Reader, Settings};
use super::visit::{DurationVisitor, IntegerVisitor};
use crate::quota::Rate;

/// Reads a rate as text, such as `"500/min"`, or as a map.
pub(super) struct RateVisitor<'a>(pub(super) Place<'a>);

impl<'de> DeserializeSeed<'de> for RateVisitor<'_> {
    type Value = Rate;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Rate, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RateVisitor<'_> {
    type Value = Rate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, names) = (self.0, RateSettings::NAMES.join("`, `"));
        write!(f, "{at} to be a rate above 0 per s, min, h or day, such as \"500/min\"")?;
        write!(f, ", or a map of `{names}`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Rate, E> {
        parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rate, A::Error> {
        Reader::<RateSettings>::at(self.0).visit_map(map)
    }
}

/// Returns the rate that a text such as `500/min`, `10_000/s` or `500 per minute` means.
fn parse(text: &str) -> Option<Rate> {
    let (count, unit) = text.split_once('/').or_else(|| text.split_once(" per "))?;
    let count = count.trim();
    let is_number = count.starts_with(|c: char| c.is_ascii_digit())
        && count.ends_with(|c: char| c.is_ascii_digit())
        && count.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    if !is_number {
        return None;
    }
    let count = count.replace('_', "").parse::<u32>().ok().filter(|count| *count > 0)?.into();
    Some(match unit.trim() {
        "s" | "sec" | "second" => Rate::per_second(count),
        "m" | "min" | "minute" => Rate::per_minute(count),
        "h" | "hour" => Rate::per_hour(count),
        "d" | "day" => Rate::per_day(count),
        _ => return None,
    })
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

    fn set<'de, A: MapAccess<'de>>(&mut self, at: Place<'_>, map: &mut A) -> Result<(), A::Error> {
        match at.name {
            "count" => self.count = Some(map.next_value_seed(IntegerVisitor::from_1(at))?),
            "per" => self.per = map.next_value_seed(DurationVisitor::required(at))?,
            _ => self.burst = Some(map.next_value_seed(IntegerVisitor::from_1(at))?),
        }
        Ok(())
    }

    fn finish<E: Error>(self, found: &Found<'_>) -> Result<Rate, E> {
        let count = found.required("count", self.count)?;
        let per = found.required("per", self.per)?;
        if per.is_zero() {
            let right = format!("{} to be a duration above 0", found.at("per"));
            return Err(E::invalid_value(Unexpected::Str("0s"), &right.as_str()));
        }
        let rate = Rate::new(count.into(), per);
        Ok(self.burst.map_or(rate, |burst| rate.with_burst(burst.into())))
    }
}
