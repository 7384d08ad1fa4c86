//! The classification of failures of LLM providers: one fixture for each rule. The fixtures are
//! written from the rules, in the formats of the providers.

use std::collections::HashSet;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue};
use resile::Health;
use resile_llm::{Classifier, Failure, Kind, Phase, Reply};
use serde_json::Value;

const KINDS: &str = include_str!("../data/llm/kinds.jsonl");
const CLASHES: &str = include_str!("../data/llm/clashes.jsonl");
const WAITS: &str = include_str!("../data/llm/waits.jsonl");
const GRAMMAR: &str = include_str!("../data/llm/grammar.jsonl");
/// Texts whose status is lost, and words that a code or a class of errors contradicts.
const TEXTS: &str = include_str!("../data/llm/texts.jsonl");
/// Failures that really occurred or that a documentation states, in our own words.
const PROVIDERS: &str = include_str!("../data/llm/providers.jsonl");
/// Second cases of rules with one case.
const SECONDS: &str = include_str!("../data/llm/seconds.jsonl");

fn cases(lines: &str) -> impl Iterator<Item = Value> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

fn classify(case: &Value) -> Failure {
    let body = case["body"].as_str().map_or_else(|| case["body"].to_string(), str::to_owned);
    let fields = case["headers"].as_object().into_iter().flatten();
    let headers: HeaderMap = fields
        .map(|(name, value)| {
            (
                name.parse::<HeaderName>().unwrap(),
                value.as_str().unwrap().parse::<HeaderValue>().unwrap(),
            )
        })
        .collect();
    let phase = match case["phase"].as_str() {
        None => Phase::Response,
        Some("transport") => Phase::Connect,
        Some("sse_pre_content") => Phase::Preamble,
        Some("sse_mid") => Phase::Content,
        Some(other) => panic!("no such phase: {other}"),
    };
    let now = case["now"]
        .as_str()
        .map_or(SystemTime::UNIX_EPOCH, |now| now.parse::<jiff::Timestamp>().unwrap().into());
    let reply = Reply::new(body.as_bytes()).with_headers(&headers).with_phase(phase);
    let status = case["status"].as_u64().map(|status| u16::try_from(status).unwrap());
    status.map_or(reply, |status| reply.with_status(status)).classify(now)
}

/// Returns the case and its failure if one of its expectations does not hold.
fn wrong(case: &Value) -> Option<String> {
    let failure = classify(case);
    let wait = failure.wait().map(|wait| u64::try_from(wait.as_micros().div_ceil(1000)).unwrap());
    let same = failure.kind().as_str() == case["kind"]
        && failure.is_retryable() == case["retry"]
        && wait == case["wait"].as_u64()
        && (case["scope"].is_null()
            || failure.scope().map(|scope| scope.as_str()) == case["scope"].as_str())
        && (case["limit"].is_null() || failure.tokens().limit() == case["limit"].as_u64())
        && (case["prompt"].is_null() || failure.tokens().prompt() == case["prompt"].as_u64());
    (!same).then(|| format!("{}: {failure:?}\n", case["name"]))
}

fn all_hold(lines: &str) {
    let wrong: Vec<_> = cases(lines).filter_map(|case| wrong(&case)).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.concat());
}

#[test]
fn every_fixture_has_its_expected_kind() {
    all_hold(KINDS);
}

#[test]
fn the_rule_with_the_higher_rank_wins() {
    all_hold(CLASHES);
}

#[test]
fn waits_are_read() {
    all_hold(WAITS);
}

#[test]
fn meanings_count_in_any_order_and_any_shape() {
    all_hold(GRAMMAR);
}

#[test]
fn texts_are_read_without_a_status() {
    all_hold(TEXTS);
}

#[test]
fn failures_of_many_providers_have_their_kinds() {
    all_hold(PROVIDERS);
    all_hold(SECONDS);
}

const ALL_KINDS: [Kind; 17] = [
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

#[test]
fn every_kind_has_a_fixture() {
    for kind in ALL_KINDS {
        assert!(cases(KINDS).any(|case| case["kind"] == kind.as_str()), "{kind}");
    }
}

/// A failure without a provider is the text of a client library.
#[test]
fn the_fixtures_of_providers_are_many_and_have_sources() {
    let all: Vec<_> = cases(PROVIDERS).collect();
    assert!(all.len() >= 300, "{}", all.len());
    let distinct = |field: &str| -> HashSet<_> {
        all.iter().filter_map(|case| case[field].as_str()).collect()
    };
    assert!(distinct("provider").len() >= 40, "{:?}", distinct("provider"));
    assert_eq!(distinct("name").len(), all.len());
    assert_eq!(distinct("phase").len(), 3);
    assert!(all.iter().all(|case| case["source"].is_string()));
    // No provider cancels a call. A failure of unknown kind needs no fixture of a provider.
    let never = [Kind::Cancelled, Kind::Unknown];
    for kind in ALL_KINDS.into_iter().filter(|kind| !never.contains(kind)) {
        assert!(distinct("kind").contains(kind.as_str()), "{kind}");
    }
}

/// Each kind also has the health of the provider, for breakers and cooldowns.
#[test]
fn every_kind_has_the_health_of_the_provider() {
    for case in cases(KINDS) {
        let failure = classify(&case);
        let expected = match failure.kind() {
            Kind::RateLimit | Kind::Overloaded => Health::Throttling,
            Kind::Server | Kind::Timeout | Kind::Network => Health::Failing,
            Kind::Cancelled | Kind::Unknown => Health::Unknown,
            _ => Health::Healthy,
        };
        let verdict = failure.verdict();
        assert_eq!(
            (verdict.health(), verdict.is_again()),
            (expected, failure.is_retryable()),
            "{}",
            case["name"]
        );
        assert_eq!(verdict.hint(), failure.wait(), "{}", case["name"]);
        let is_own = failure.kind() == Kind::RateLimit;
        assert_eq!(verdict.is_own_limit(), is_own, "{}", case["name"]);
        assert_eq!(Classifier::new().verdict(&failure).health(), expected);
    }
}
