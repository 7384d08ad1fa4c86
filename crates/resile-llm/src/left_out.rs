//! Scores the classifier on each source without the rules that only this source supports.
//!
//! A table of words knows what its authors have seen, so a score on the same failures says little
//! about the next provider. Here each source of fixtures is left out in turn: every phrase, code and
//! word that no other source supports is switched off, and the failures of the source are
//! classified. The result is the score of the tables as they would be without that source. A code
//! that a provider documents stays: a reader of the documentation would have written it.
//!
//! `CORPUS=a.jsonl:b.jsonl cargo test -p resile-llm --lib left_out -- --nocapture` reads more files and
//! prints the misread failures. Their lines hold `status`, `headers`, `body`, `phase`, `now`, `provider`,
//! `source` and `expect` with `kind` and `retryable`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::explain::Explanation;
use crate::kind::Phase;
use crate::reply::Reply;
use crate::trial::{self, Name};

/// The fixtures with sources.
const FIXTURES: [&str; 3] = [
    include_str!("../tests/data/llm/providers.jsonl"),
    include_str!("../tests/data/llm/grammar.jsonl"),
    include_str!("../tests/data/llm/seconds.jsonl"),
];

/// The codes and phrases that providers document, with the pages.
const DOCUMENTED: &str = include_str!("../tests/data/llm/documented.txt");

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) source: String,
    provider: String,
    reply: Value,
    kind: String,
    is_retryable: bool,
}

impl Case {
    fn new(line: &str) -> Option<Self> {
        let reply: Value = serde_json::from_str(line).unwrap();
        if reply["ambiguous"] == true {
            return None;
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (kind, is_retryable) = match &reply["expect"] {
            Value::Null => (text(&reply["kind"])?, reply["retry"].as_bool()?),
            expect => (text(&expect["kind"])?, expect["retryable"].as_bool()?),
        };
        let source = reply["source"].as_str()?;
        Some(Self {
            name: text(&reply["name"]).or(text(&reply["id"]))?,
            source: place(source),
            // The text of a client library has no provider.
            provider: text(&reply["provider"]).unwrap_or_else(|| place(source)),
            kind,
            is_retryable,
            reply,
        })
    }

    /// Returns whether the kind and the retry are right, without the rules `off`.
    fn score(&self, off: &BTreeSet<Name>) -> Score {
        let (failure, _) = trial::without(off.clone(), || self.explain());
        let failure = failure.failure();
        Score {
            cases: 1,
            kind: usize::from(failure.kind().as_str() == self.kind),
            retry: usize::from(failure.is_retryable() == self.is_retryable),
        }
    }

    fn explain(&self) -> Explanation {
        let case = &self.reply;
        let body = case["body"].as_str().map_or_else(|| case["body"].to_string(), str::to_owned);
        let fields = case["headers"].as_object().into_iter().flatten();
        let field = |(name, value): (&String, &Value)| {
            let value = HeaderValue::from_str(value.as_str()?).ok()?;
            Some((HeaderName::try_from(name).ok()?, value))
        };
        let headers: HeaderMap = fields.filter_map(field).collect();
        let phase = match case["phase"].as_str() {
            Some("transport") => Phase::Connect,
            Some("sse_pre_content") => Phase::Preamble,
            Some("sse_mid") => Phase::Content,
            _ => Phase::Response,
        };
        let now = case["now"].as_str().and_then(|now| now.parse::<jiff::Timestamp>().ok());
        let now = now.map_or(SystemTime::UNIX_EPOCH, SystemTime::from);
        let reply = Reply::new(body.as_bytes()).with_headers(&headers).with_phase(phase);
        let status = case["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        status.map_or(reply, |status| reply.with_status(status)).explain(now)
    }
}

/// Returns the repository or the host that a source names: all its pages are one source. A file of an
/// unnamed repository is a source of its own.
fn place(source: &str) -> String {
    let source = source.to_ascii_lowercase();
    if source.starts_with("github file ") {
        return source;
    }
    let path = source.rsplit("https://").next().unwrap_or_default();
    let path = path.strip_prefix("github.com/").unwrap_or(path);
    let end = |c: char| c == '#' || c == ':' || c == '@' || c.is_whitespace();
    let path = path.split(end).next().unwrap_or_default();
    let mut parts = path.split('/');
    let first = parts.next().unwrap_or_default();
    match parts.next() {
        Some(second) if !first.contains('.') => format!("{first}/{second}"),
        _ => first.to_owned(),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Score {
    cases: usize,
    kind: usize,
    retry: usize,
}

impl Score {
    fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.kind += other.kind;
        self.retry += other.retry;
    }

    /// Returns the shares of right answers in tenths of a percent: of the retry and of the kind.
    fn shares(&self) -> (usize, usize) {
        let of = |right: usize| 1_000 * right / self.cases.max(1);
        (of(self.retry), of(self.kind))
    }
}

/// Returns the fixtures and the cases of the files that `CORPUS` names.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> =
        FIXTURES.iter().flat_map(|file| file.lines()).filter_map(Case::new).collect();
    for path in corpus().split(':').filter(|path| !path.is_empty()) {
        cases.extend(std::fs::read_to_string(path).unwrap().lines().filter_map(Case::new));
    }
    cases
}

/// Returns the paths of more files of cases with colons between them.
pub(crate) fn corpus() -> String {
    std::env::var("CORPUS").unwrap_or_default()
}

/// The rules, each with the indices of the cases that support it. A case supports a word with a veto
/// if it is misread without this word.
pub(crate) fn support(cases: &[Case]) -> BTreeMap<Name, BTreeSet<usize>> {
    let mut support: BTreeMap<Name, BTreeSet<usize>> = BTreeMap::new();
    for (at, case) in cases.iter().enumerate() {
        let kind = |off: BTreeSet<Name>| {
            let (read, matched) = trial::without(off, || case.explain());
            (read.failure().kind().as_str() == case.kind, matched)
        };
        let (is_right, matched) = kind(BTreeSet::new());
        for (name, said) in matched {
            // A veto speaks for no kind. The case needs the word if it is misread without it.
            let is_veto = || said == trial::VETO && is_right && !kind(BTreeSet::from([name])).0;
            if said == case.kind || is_veto() {
                support.entry(name).or_default().insert(at);
            }
        }
    }
    support
}

pub(crate) fn is_documented(name: &Name) -> bool {
    let lines = DOCUMENTED.lines().filter(|line| !line.starts_with('#'));
    let mut documented = lines.map(|line| line.split("  ").next().unwrap_or_default());
    match name.0 {
        "code" => documented.any(|codes| codes.split(' ').any(|code| code == name.2)),
        "phrase" => documented.any(|phrase| phrase == name.2),
        _ => false,
    }
}

/// Scores each group of cases without the rules that only its cases support.
fn leave_out<'c>(
    cases: &'c [Case],
    support: &BTreeMap<Name, BTreeSet<usize>>,
    group: impl Fn(&'c Case) -> &'c str,
    is_told: bool,
) -> BTreeMap<&'c str, Score> {
    let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
    let groups: BTreeSet<&str> = cases.iter().map(&group).collect();
    for left_out in groups {
        let is_own = |at: &usize| group(&cases[*at]) == left_out;
        let off = support.iter().filter(|(name, at)| at.iter().all(is_own) && !is_documented(name));
        let off: BTreeSet<Name> = off.map(|(name, _)| *name).collect();
        for case in cases.iter().filter(|case| group(case) == left_out) {
            let score = case.score(&off);
            scores.entry(left_out).or_default().add(score);
            if is_told && score.kind + score.retry < 2 {
                let (read, _) = trial::without(off.clone(), || case.explain());
                let read = read.failure();
                println!(
                    "{left_out} | {} | {} for {} | {:?}",
                    case.name,
                    read.kind().as_str(),
                    case.kind,
                    read.message().unwrap_or_default().chars().take(160).collect::<String>()
                );
            }
        }
    }
    scores
}

fn report(of: &str, scores: &BTreeMap<&str, Score>) -> (usize, usize) {
    let mut all = Score::default();
    for score in scores.values() {
        all.add(*score);
    }
    let print = |name: &str, score: &Score| {
        let (retry, kind) = score.shares();
        let percent = |share: usize| format!("{}.{} %", share / 10, share % 10);
        println!(
            "{name}: retryable {}, kind {}, {} cases",
            percent(retry),
            percent(kind),
            score.cases
        );
    };
    print(&format!("without each {of}"), &all);
    let mut worst: Vec<_> = scores.iter().filter(|(_, score)| score.cases >= 5).collect();
    worst.sort_by_key(|(_, score)| score.shares().1);
    for (name, score) in worst.iter().take(5) {
        print(&format!("  {name}"), score);
    }
    all.shares()
}

#[test]
fn each_source_is_read_by_the_rules_of_the_others() {
    let cases = cases();
    let is_told = !corpus().is_empty();
    let support = support(&cases);
    let by_source = report("source", &leave_out(&cases, &support, |case| &case.source, is_told));
    let by_provider =
        report("provider", &leave_out(&cases, &support, |case| &case.provider, false));
    assert!(by_source.0 >= 960 && by_source.1 >= 870, "{by_source:?}");
    assert!(by_provider.0 >= 950 && by_provider.1 >= 840, "{by_provider:?}");
}
