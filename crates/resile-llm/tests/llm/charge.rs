//! The charges of providers, in code and in a configuration file, and what a refusal costs.

use std::future::ready;
use std::io;
use std::time::{Duration, SystemTime};

use resile::quota::{Charge, Cost, Dimension, Rate};
use resile::time::ManualTimer;
use resile::{Attempt, Classify, Never, Quota, ResilienceExt, StopReason, Upstream, retry};
use resile_llm::{Classifier, Failure, Kind, Phase, Reply, charge};
use tokio::time::Instant;

#[test]
fn each_provider_charges_in_its_own_way() {
    for (charge, reserves, refunds, maximum, cache_read_weight) in [
        (Charge::ACTUAL, false, true, 0, 1.0),
        (charge::ANTHROPIC, false, true, 0, 0.0),
        (charge::BEDROCK, true, true, 64_000, 0.0),
        (charge::OPENAI, true, false, 0, 1.0),
        (charge::GROQ, false, true, 0, 0.0),
    ] {
        assert_eq!((charge.reserves_maximum(), charge.refunds()), (reserves, refunds));
        assert_eq!(charge.default_maximum(), maximum);
        assert_eq!(charge.cache_read_weight().to_bits(), f64::to_bits(cache_read_weight));
    }
    assert_eq!((charge::AZURE, charge::CEREBRAS), (charge::OPENAI, charge::OPENAI));
}

/// The documentation has a map for each constant, and the map makes the constant.
#[test]
fn the_map_of_a_configuration_file_makes_the_constant() {
    let docs = include_str!("../../src/charge.rs");
    let mut seen = Vec::new();
    for row in docs.lines().filter_map(|line| line.strip_prefix("//! | ")) {
        if let Some((names, map)) = row.split_once(" | `{") {
            seen.push((names, format!("{{{}", map.trim_end_matches("` |"))));
        }
    }
    let constants = [
        ("ANTHROPIC", charge::ANTHROPIC),
        ("BEDROCK", charge::BEDROCK),
        ("OPENAI", charge::OPENAI),
        ("AZURE", charge::AZURE),
        ("CEREBRAS", charge::CEREBRAS),
        ("GROQ", charge::GROQ),
    ];
    for (name, constant) in constants {
        let (_, map) = seen.iter().find(|(names, _)| names.contains(&format!("`{name}`"))).unwrap();
        assert_eq!(serde_json::from_str::<Charge>(map).unwrap(), constant, "{name}: {map}");
    }
}

const FINISH: &str = r#"{"stop_reason":"model_context_window_exceeded"}"#;

/// The provider does no work for a request that it refuses, so the tokens go back. It reads a prompt
/// before its filter refuses it, and Azure charges that. Nobody knows what a 500 has cost.
#[test]
fn the_tokens_of_a_refused_request_are_given_back() {
    for (status, body, kind, is_back) in [
        (400, "context_length_exceeded", Kind::ContextLength, true),
        (400, "", Kind::InvalidRequest, true),
        (401, "invalid_api_key", Kind::Auth, true),
        (402, "insufficient_quota", Kind::QuotaExhausted, true),
        (403, "", Kind::Permission, true),
        (404, "model_not_found", Kind::NotFound, true),
        (409, "", Kind::Conflict, true),
        (413, "", Kind::TooLarge, true),
        (422, "", Kind::InvalidRequest, true),
        (429, "insufficient_quota", Kind::QuotaExhausted, true),
        (529, "overloaded_error", Kind::Overloaded, true),
        (400, "content_filter", Kind::ContentFilter, false),
        (500, "server_error", Kind::Server, false),
        (502, "", Kind::Server, false),
        (408, "", Kind::Timeout, false),
    ] {
        let body = format!(r#"{{"error":{{"code":"{body}","message":""}}}}"#);
        let failure = Failure::from_text(status, &body);
        assert_eq!(failure.kind(), kind, "{status} {body}");
        assert_eq!(level_after(&failure) == 6_000, is_back, "{status} {body}");
        // The provider has begun an answer.
        let reply = Reply::new(body.as_bytes()).with_status(200).with_phase(Phase::Preamble);
        let began = reply.classify(SystemTime::UNIX_EPOCH).verdict();
        assert!(!began.is_without_effect(), "{body}");
    }
    let answer = Reply::new(FINISH.as_bytes()).with_status(200).find(SystemTime::UNIX_EPOCH);
    let answer = answer.unwrap();
    assert_eq!((answer.kind(), level_after(&answer)), (Kind::ContextLength, 4_990));
}

/// Returns the level of 6,000 tokens after an attempt that has reserved 1,010 and failed.
fn level_after(failure: &Failure) -> i64 {
    let upstream = Upstream::new("model").with_quota(tokens()).with_timer(ManualTimer::new());
    let admission = upstream.at_cost(cost()).try_admit().unwrap();
    admission.settle(&Classifier::new().classify(failure).unwrap());
    upstream.quota_level(Dimension::Tokens).unwrap()
}

fn tokens() -> Quota {
    Quota::new().with_tokens(Rate::per_minute(6_000)).with_charge(charge::OPENAI)
}

fn cost() -> Cost<'static> {
    Cost::input(10).with_max_output(1_000)
}

/// Each call to an empty account ends by its own answer, at once and without end.
#[tokio::test(start_paused = true)]
async fn an_empty_account_fills_no_quota() {
    let model = resile_llm::upstream_named("model").with_quota(tokens());
    let began = Instant::now();
    for body in ["insufficient_quota", "credit_balance_exhausted"].into_iter().cycle().take(400) {
        let ask = |_| ready(Err::<(), _>(Failure::from_text(402, body)));
        let call = retry(ask, resile_llm::interactive(), Never).on(model.at_cost(cost()));
        let gave_up = call.await.unwrap_err();
        assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
        assert!(gave_up.is_without_effect());
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(model.quota_level(Dimension::Tokens), Some(6_000));
}

/// An attempt may be a call of its own. Its last failure does not say that the provider served none of its
/// requests.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_served_once_keeps_its_tokens() {
    let refused = || Failure::from(io::Error::from(io::ErrorKind::ConnectionRefused));
    for (first, last, level) in [
        (Failure::from_text(500, ""), Failure::from_text(402, ""), 4_990),
        (Failure::from_text(500, ""), refused(), 4_990),
        (Failure::from_text(409, ""), Failure::from_text(402, ""), 6_000),
        (refused(), refused(), 6_000),
    ] {
        let upstream = Upstream::new("outer").with_quota(tokens()).with_timer(ManualTimer::new());
        let policy = resile_llm::interactive().with_attempts(2);
        let ask = |attempt: Attempt| {
            let failure = if attempt.is_first() { &first } else { &last };
            ready(Err::<(), _>(failure.clone()))
        };
        let call = retry(ask, policy, Never);
        let gave_up = call.through(upstream.at_cost(cost()), Classifier::new()).await.unwrap_err();
        assert_eq!(gave_up.attempts(), 1);
        let left = upstream.quota_level(Dimension::Tokens);
        assert_eq!(left, Some(level), "{first:?} {last:?}");
    }
}
