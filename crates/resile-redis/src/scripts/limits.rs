use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, Value};
use resile::quota::{Dimension, Rate};

use super::{Request, ScriptError, build, garbage};
use crate::keys;

/// Reads the limits that all members take instead of their own. See `limits.lua`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitsRequest {
    /// The limit to set before. `None` as the rate removes it.
    pub(crate) change: Option<(Dimension, Option<Rate>)>,
}

impl Request for LimitsRequest {
    type Reply = Vec<(Dimension, Rate)>;
    const NAME: &'static str = "limits";
    const TEXT: &'static str = include_str!("limits.lua");

    fn script() -> &'static Script {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| build(LimitsRequest::TEXT));
        &SCRIPT
    }

    fn args(&self) -> Vec<String> {
        let Some((dimension, rate)) = &self.change else { return Vec::new() };
        vec![keys::word(*dimension).to_owned(), rate.as_ref().map_or_else(String::new, words)]
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
            let named = |dimension: &Dimension| keys::word(*dimension) == name;
            Some((Dimension::ALL.into_iter().find(named)?, rate(&limit)?))
        });
        limits.collect::<Option<_>>().ok_or_else(|| garbage(Self::NAME, reply))
    }
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
        let request = LimitsRequest { change: Some((Dimension::Tokens, Some(limit))) };
        assert_eq!(request.args(), ["tokens", "7 2500000 3"]);
        let parsed = LimitsRequest::parse(&reply(&["tokens", "7 2500000 3"])).unwrap();
        assert_eq!(parsed, [(Dimension::Tokens, limit)]);
        assert_eq!(LimitsRequest::parse(&reply(&[])).unwrap(), []);
        let removal = LimitsRequest { change: Some((Dimension::Input, None)) };
        assert_eq!(removal.args(), ["input", ""]);
    }

    #[test]
    fn a_wrong_limit_is_an_error() {
        for wrong in ["", "7", "0 1 1", "1 0 1", "1 1 0", "1 1 1 1", "-1 1 1", "1 1 x"] {
            assert!(LimitsRequest::parse(&reply(&["tokens", wrong])).is_err(), "{wrong}");
        }
        assert!(LimitsRequest::parse(&reply(&["more", "1 1 1"])).is_err());
        assert!(LimitsRequest::parse(&reply(&["tokens"])).is_err());
        assert!(LimitsRequest::parse(&Value::Nil).is_err());
    }
}
