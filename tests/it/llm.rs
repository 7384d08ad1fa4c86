//! What failures of LLM providers mean: the rules, one fixture each. The fixtures are written from the rules, in the shapes
//! that the providers use.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use resile::llm::{Failure, Kind, Phase, Reply};
use serde_json::Value;

const KINDS: &str = include_str!("../data/llm/kinds.jsonl");
const CLASHES: &str = include_str!("../data/llm/clashes.jsonl");
const WAITS: &str = include_str!("../data/llm/waits.jsonl");

fn cases(lines: &str) -> impl Iterator<Item = Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

fn judge(case: &Value) -> Failure {
    let body = case["body"].as_str().map_or_else(|| case["body"].to_string(), str::to_owned);
    let fields = case["headers"].as_object().into_iter().flatten();
    let headers: HeaderMap = fields
        .map(|(name, value)| {
            (name.parse::<HeaderName>().unwrap(), value.as_str().unwrap().parse::<HeaderValue>().unwrap())
        })
        .collect();
    let phase = match case["phase"].as_str() {
        None => Phase::Response,
        Some("transport") => Phase::Connect,
        Some("sse_pre_content") => Phase::Preamble,
        Some("sse_mid") => Phase::Content,
        Some(other) => panic!("no such phase: {other}"),
    };
    let now = case["now"].as_str().map_or(SystemTime::UNIX_EPOCH, |now| now.parse::<jiff::Timestamp>().unwrap().into());
    let reply = Reply::new(body.as_bytes()).with_headers(&headers).with_phase(phase);
    let status = case["status"].as_u64().map(|status| u16::try_from(status).unwrap());
    status.map_or(reply, |status| reply.with_status(status)).judge(now)
}

/// What of `case` does not hold.
fn wrong(case: &Value) -> Option<String> {
    let failure = judge(case);
    let wait = failure.wait().map(|wait| u64::try_from(wait.as_micros().div_ceil(1000)).unwrap());
    let same = failure.kind().as_str() == case["kind"]
        && failure.is_retryable() == case["retry"]
        && wait == case["wait"].as_u64()
        && (case["scope"].is_null() || failure.scope().map(|scope| scope.as_str()) == case["scope"].as_str())
        && (case["limit"].is_null() || failure.tokens().limit() == case["limit"].as_u64())
        && (case["prompt"].is_null() || failure.tokens().prompt() == case["prompt"].as_u64());
    (!same).then(|| format!("{}: {failure:?}\n", case["name"]))
}

fn all_hold(lines: &str) {
    let wrong: Vec<_> = cases(lines).filter_map(|case| wrong(&case)).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.concat());
}

#[test]
fn every_kind_is_known() {
    all_hold(KINDS);
}

#[test]
fn rules_are_ranked() {
    all_hold(CLASHES);
}

#[test]
fn waits_are_read() {
    all_hold(WAITS);
}

#[test]
fn every_kind_has_a_fixture() {
    let all = [
        Kind::RateLimit,
        Kind::QuotaExhausted,
        Kind::Overloaded,
        Kind::Server,
        Kind::Timeout,
        Kind::Network,
        Kind::Conflict,
        Kind::Auth,
        Kind::Permission,
        Kind::NotFound,
        Kind::InvalidRequest,
        Kind::ContextLength,
        Kind::TooLarge,
        Kind::ContentFilter,
        Kind::InvalidOutput,
        Kind::Cancelled,
        Kind::Unknown,
    ];
    for kind in all {
        assert!(cases(KINDS).any(|case| case["kind"] == kind.as_str()), "{kind}");
    }
    let _ = Duration::ZERO;
}
