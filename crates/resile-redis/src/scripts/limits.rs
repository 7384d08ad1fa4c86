use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, Value};
use resile::quota::{Dimension, Rate};

use super::{Request, ScriptError, build, garbage};
use crate::keys;

/// A limit that was set at run time, as the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetLimit {
    pub(crate) dimension: Dimension,
    /// `None` if the limit was removed.
    pub(crate) rate: Option<Rate>,
    /// The later one of two versions counts.
    pub(crate) version: u64,
}

/// Reads the limits that all members take instead of their own. See `limits.lua`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitsRequest<'a> {
    /// The limits that this member has read. A server that has lost them takes them.
    pub(crate) known: &'a [SetLimit],
    /// The limit to set. `None` as the rate removes it.
    pub(crate) change: Option<(Dimension, Option<Rate>)>,
}

impl Request for LimitsRequest<'_> {
    type Reply = Vec<SetLimit>;
    const NAME: &'static str = "limits";
    const TEXT: &'static str = include_str!("limits.lua");

    fn script() -> &'static Script {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| build(LimitsRequest::TEXT));
        &SCRIPT
    }

    fn args(&self) -> Vec<String> {
        let change = self.change.map_or([String::new(), String::new()], |(dimension, rate)| {
            [keys::word(dimension).to_owned(), rate.as_ref().map_or_else(none, words)]
        });
        let known = self.known.iter().flat_map(|SetLimit { dimension, rate, version }| {
            let rate = rate.as_ref().map_or_else(none, words);
            [keys::word(*dimension).to_owned(), format!("{rate} {version}")]
        });
        change.into_iter().chain(known).collect()
    }

    fn parse(reply: &Value) -> Result<Self::Reply, ScriptError> {
        let text = |value: &Value| match value {
            Value::BulkString(bytes) => std::str::from_utf8(bytes).ok().map(ToOwned::to_owned),
            _ => None,
        };
        let Value::Array(fields) = reply else { return Err(garbage(Self::NAME, reply)) };
        let limits = fields.chunks(2).map(|pair| {
            let [name, limit] = pair else { return None };
            let (name, limit) = (text(name)?, text(limit)?);
            let (limit, version) = limit.rsplit_once(' ')?;
            let named = |dimension: &Dimension| keys::word(*dimension) == name;
            let rate = if limit == REMOVED { None } else { Some(rate(limit)?) };
            let dimension = Dimension::ALL.into_iter().find(named)?;
            Some(SetLimit { dimension, rate, version: version.parse().ok()? })
        });
        limits.collect::<Option<_>>().ok_or_else(|| garbage(Self::NAME, reply))
    }
}

/// The words of a limit that was removed.
const REMOVED: &str = "0 0 0";

fn none() -> String {
    REMOVED.to_owned()
}

/// Returns a limit as words: its count, its period in microseconds and its burst.
pub(super) fn words(rate: &Rate) -> String {
    format!("{} {} {}", rate.count(), rate.period().as_micros(), rate.burst())
}

/// Parses a limit. `None` if it is none: a wrong limit in the store must not stop the calls.
pub(super) fn rate(text: &str) -> Option<Rate> {
    let mut words = text.split(' ');
    let count = words.next()?.parse().ok().filter(|count| *count > 0)?;
    let micros = words.next()?.parse().ok().filter(|micros| *micros > 0)?;
    let burst = words.next()?.parse().ok().filter(|burst| *burst > 0)?;
    words
        .next()
        .is_none()
        .then(|| Rate::new(count, Duration::from_micros(micros)).with_burst(burst))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(words: &[&str]) -> Value {
        let word = |word: &&str| Value::BulkString(word.as_bytes().to_vec());
        Value::Array(words.iter().map(word).collect())
    }

    #[test]
    fn a_limit_survives_its_words() {
        let limit = Rate::new(7, Duration::from_millis(2_500)).with_burst(3);
        let known = [
            SetLimit { dimension: Dimension::Tokens, rate: Some(limit), version: 9 },
            SetLimit { dimension: Dimension::Input, rate: None, version: 10 },
        ];
        let change = Some((Dimension::Tokens, Some(limit)));
        let words = ["tokens", "7 2500000 3 9", "input", "0 0 0 10"];
        let request = LimitsRequest { known: &known, change };
        assert_eq!(request.args()[..2], ["tokens", "7 2500000 3"]);
        assert_eq!(request.args()[2..], words);
        assert_eq!(LimitsRequest::parse(&reply(&words)).unwrap(), known);
        assert_eq!(LimitsRequest::parse(&reply(&[])).unwrap(), []);
        let removal = LimitsRequest { known: &[], change: Some((Dimension::Input, None)) };
        assert_eq!(removal.args(), ["input", "0 0 0"]);
        assert_eq!(LimitsRequest { known: &[], change: None }.args(), ["", ""]);
    }

    #[test]
    fn a_wrong_limit_is_an_error() {
        for wrong in ["", "7", "0 1 1 1", "1 0 1 1", "1 1 0 1", "1 1 1", "1 1 1 1 1", "-1 1 1 1"] {
            assert!(LimitsRequest::parse(&reply(&["tokens", wrong])).is_err(), "{wrong}");
        }
        assert!(LimitsRequest::parse(&reply(&["tokens", "1 1 1 x"])).is_err());
        assert!(LimitsRequest::parse(&reply(&["more", "1 1 1 1"])).is_err());
        assert!(LimitsRequest::parse(&reply(&["tokens"])).is_err());
        assert!(LimitsRequest::parse(&Value::Nil).is_err());
    }
}
