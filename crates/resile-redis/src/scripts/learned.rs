use std::sync::LazyLock;

use redis::{Script, Value};
use resile::quota::{Dimension, Rate};

use super::limits::{self, words};
use super::{Request, ScriptError, build, garbage};
use crate::keys;

/// Tells what this member has learned of the limits, and asks what all members use. See
/// `learned.lua`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LearnedRequest<'a> {
    /// The id of the member.
    pub(crate) id: &'a str,
    pub(crate) reports: &'a [Report],
}

/// The report of a member on one limit, in units a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Report {
    pub(crate) dimension: Dimension,
    /// True if the limit was set at run time. A lesson on one limit says nothing of another.
    pub(crate) is_set: bool,
    /// The limit of this member without anything learned.
    pub(crate) rate: Rate,
    pub(crate) own: f64,
    /// The change that its calls have taught.
    pub(crate) change: f64,
    /// The limit that the provider reports.
    pub(crate) reported: Option<f64>,
    /// The limit that the fleet used, by its last answer. It counts if the store knows none.
    pub(crate) used: Option<f64>,
}

impl Report {
    /// Returns the name of the limit in the store.
    pub(super) fn name(&self) -> String {
        let word = keys::word(self.dimension);
        if self.is_set { format!("{word}:{}", self.own) } else { word.to_owned() }
    }
}

/// The knowledge of the fleet of one limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    /// The lowest limit of all members.
    pub(crate) base: Rate,
    /// The limit that all members use, in units a second.
    pub(crate) used: f64,
    /// True if this member has to tell operators of a change.
    pub(crate) is_news: bool,
    /// The id of the member that last had the lowest limit.
    pub(crate) by: String,
}

impl Request for LearnedRequest<'_> {
    type Reply = Vec<Known>;
    const NAME: &'static str = "learned";
    const TEXT: &'static str = include_str!("learned.lua");

    fn script() -> &'static Script {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| build(LearnedRequest::TEXT));
        &SCRIPT
    }

    fn args(&self) -> Vec<String> {
        let args = |report: &Report| {
            let Report { rate, own, change, reported, used, .. } = report;
            let text = |limit: Option<f64>| limit.map_or_else(String::new, |it| it.to_string());
            let (name, own, change) = (report.name(), own.to_string(), change.to_string());
            [name, own, words(rate), change, text(*reported), text(*used)]
        };
        let reports = self.reports.iter().flat_map(args);
        std::iter::once(self.id.to_owned()).chain(reports).collect()
    }

    fn parse(reply: &Value) -> Result<Self::Reply, ScriptError> {
        let number = |value: &Value| match value {
            Value::BulkString(bytes) => {
                let number: f64 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
                (number.is_finite() && number > 0.0).then_some(number)
            }
            _ => None,
        };
        let rate = |value: &Value| match value {
            Value::BulkString(bytes) => limits::rate(std::str::from_utf8(bytes).ok()?),
            _ => None,
        };
        let Value::Array(fields) = reply else { return Err(garbage(Self::NAME, reply)) };
        let flag = |value: &Value| match value {
            Value::BulkString(bytes) if bytes == b"0" => Some(false),
            Value::BulkString(bytes) if bytes == b"1" => Some(true),
            _ => None,
        };
        let text = |value: &Value| match value {
            Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        };
        let known = fields.chunks(4).map(|fields| {
            let [base, used, is_news, by] = fields else { return None };
            let (base, used) = (rate(base)?, number(used)?);
            Some(Known { base, used, is_news: flag(is_news)?, by: text(by)? })
        });
        known.collect::<Option<_>>().ok_or_else(|| garbage(Self::NAME, reply))
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Lessons, Model as _};
    use super::*;

    #[test]
    fn numbers_survive_their_words() {
        let report = Report {
            dimension: Dimension::Tokens,
            is_set: false,
            rate: Rate::per_minute(20),
            own: 1.0 / 3.0,
            change: -0.25,
            reported: Some(0.125),
            used: Some(0.25),
        };
        let none = Report { reported: None, used: None, is_set: true, own: 2.0, ..report };
        let request = LearnedRequest { id: "web-1", reports: &[report, none] };
        let args = request.args();
        let words = "20 60000000 20";
        assert_eq!(args[0], "web-1");
        assert_eq!(args[1..7], ["tokens", "0.3333333333333333", words, "-0.25", "0.125", "0.25"]);
        assert_eq!(args[7..], ["tokens:2", "2", words, "-0.25", "", ""]);
        let word = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let reply = Value::Array(vec![word(words), word("0.25"), word("1"), word("web-2")]);
        let by = "web-2".to_owned();
        let known = Known { base: Rate::per_minute(20), used: 0.25, is_news: true, by };
        assert_eq!(LearnedRequest::parse(&reply).unwrap(), [known]);
        for wrong in ["", "0", "-1", "nan", "inf", "x"] {
            let reply = Value::Array(vec![word(words), word(wrong), word("0"), word("a")]);
            assert!(LearnedRequest::parse(&reply).is_err(), "{wrong}");
            let reply = Value::Array(vec![word(wrong), word("1"), word("0"), word("a")]);
            assert!(LearnedRequest::parse(&reply).is_err(), "{wrong}");
        }
        let is_news = word("1");
        for wrong in [
            vec![],
            vec![word("2"), word("a")],
            vec![Value::Int(1), word("a")],
            vec![is_news.clone()],
            vec![is_news, Value::Int(1)],
        ] {
            let reply = [vec![word(words), word("1")], wrong].concat();
            assert!(LearnedRequest::parse(&Value::Array(reply)).is_err());
        }
        assert!(LearnedRequest::parse(&Value::Nil).is_err());
    }

    /// Three members bring their lessons within a moment. One of them tells operators, and its number is
    /// that of all lessons.
    #[test]
    fn lessons_that_come_one_after_another_are_told_once() {
        let (mut lessons, mut told) = (Lessons::default(), Vec::new());
        for round in 0..20 {
            for (member, lesson) in [-28.0, -28.0, -20.0].into_iter().enumerate() {
                let report = Report {
                    dimension: Dimension::Requests,
                    is_set: false,
                    rate: Rate::per_second(100),
                    own: 100.0,
                    change: if round == 0 { lesson } else { 0.0 },
                    reported: None,
                    used: None,
                };
                let now = 1_000_000 * (round + 1) + 1_000 * i128::try_from(member).unwrap();
                let known = lessons.step(now, &LearnedRequest { id: "a", reports: &[report] });
                told.extend(known.into_iter().filter(|known| known.is_news).map(|it| it.used));
            }
        }
        assert_eq!(told, [24.0]);
    }
}
