//! The stable words of logs and metrics, and the texts for people that are made of them.

use std::collections::HashSet;
use std::fmt::Display;
use std::time::{Duration, SystemTime};

use resile_llm::{Failure, Kind, Phase, Recovery, Reply, Rule, Scope};

/// Checks that each value prints its word, and that each word is its own.
fn words<T: Display>(values: &[T], word: fn(&T) -> &'static str) -> Vec<&'static str> {
    let words: Vec<_> = values.iter().map(word).collect();
    for (value, word) in values.iter().zip(&words) {
        assert_eq!(value.to_string(), *word);
        assert!(word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{word}");
    }
    let all: HashSet<_> = words.iter().collect();
    assert!(all.len() == words.len() && !words.contains(&""), "{words:?}");
    words
}

const RECOVERIES: [Recovery; 11] = [
    Recovery::Wait,
    Recovery::Billing,
    Recovery::Credentials,
    Recovery::Access,
    Recovery::SwitchModel,
    Recovery::FixRequest,
    Recovery::Shrink,
    Recovery::Split,
    Recovery::Rephrase,
    Recovery::ReAsk,
    Recovery::None,
];

#[test]
fn every_llm_word_is_stable() {
    let kinds = [Kind::RateLimit, Kind::Overloaded, Kind::ContextLength, Kind::Unknown];
    let found = words(&kinds, Kind::as_str);
    assert_eq!(found, ["rate_limit", "overloaded", "context_length", "unknown"]);
    let scopes = [Scope::Minute, Scope::Day, Scope::Concurrency, Scope::Window];
    assert_eq!(words(&scopes, Scope::as_str), ["minute", "day", "concurrency", "window"]);
    let phases = [Phase::Connect, Phase::Response, Phase::Preamble, Phase::Content];
    assert_eq!(words(&phases, Phase::as_str), ["connect", "response", "preamble", "content"]);
    assert_eq!(phases.map(|phase| phase.is_committed()), [false, false, false, true]);
    assert_eq!(phases.map(|phase| phase.is_stream()), [false, false, true, true]);
    let found = words(&RECOVERIES, Recovery::as_str);
    assert_eq!(found[..3], ["wait", "billing", "credentials"]);
    assert_eq!(found[7..], ["split", "rephrase", "re_ask", "none"]);
}

#[test]
fn every_recovery_has_an_advice_of_its_own() {
    let advice: HashSet<_> = RECOVERIES.iter().map(Recovery::advice).collect();
    assert_eq!(advice.len(), RECOVERIES.len());
    assert!(advice.iter().all(|advice| advice.contains(' ')), "{advice:?}");
    assert_eq!(Recovery::Split.advice(), "split the request");
}

#[test]
fn every_rule_names_its_evidence() {
    for (rule, text) in [
        (Rule::Cancelled, "cancelled"),
        (Rule::Caller, "caller"),
        (Rule::Code("a"), "code: a"),
        (Rule::Stem("a"), "code: …a…"),
        (Rule::Google("a"), "google: a"),
        (Rule::Arithmetic, "arithmetic: requested > limit"),
        (Rule::Phrase("a"), "phrase: a"),
        (Rule::Grammar("a"), "grammar: a"),
        (Rule::Header("a"), "header: a"),
        (Rule::LongWait, "wait: an hour or more"),
        (Rule::Finish("a"), "finish: a"),
        (Rule::Truncated, "truncated"),
        (Rule::Empty, "empty"),
        (Rule::NotStream, "not a stream"),
        (Rule::Transport("a"), "transport: a"),
        (Rule::Status(500), "status: 500"),
        (Rule::InBand, "in-band error"),
        (Rule::Nothing, "nothing matched"),
    ] {
        assert_eq!(rule.to_string(), text);
    }
}

#[test]
fn a_failure_prints_its_wait_for_people() {
    for (millis, text) in [
        (0, "1 ms"),
        (644, "644 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (11_040, "11.1 s"),
        (59_900, "59.9 s"),
        (60_000, "1 min 0 s"),
        (578_000, "9 min 38 s"),
        (3_599_000, "59 min 59 s"),
        (3_600_000, "1 h 0 min"),
        (69_240_000, "19 h 14 min"),
        (172_799_000, "47 h 59 min"),
        (172_800_000, "2 days"),
        (604_800_000, "7 days"),
        (3_153_600_000_000, "more than a century"),
    ] {
        let body = format!(r#"{{"error":{{"message":"slow down","retry_after_ms":{millis}}}}}"#);
        let failure = Reply::new(body.as_bytes()).with_status(429).classify(SystemTime::UNIX_EPOCH);
        if millis == 0 {
            assert_eq!(failure.wait(), None);
            continue;
        }
        assert_eq!(failure.wait(), Some(Duration::from_millis(millis)), "{body}");
        let words = failure.to_string();
        assert!(words.contains(text), "{text} in {words}");
    }
}

#[test]
fn a_failure_names_the_provider_that_its_caller_named() {
    let failure = Failure::truncated(Phase::Content);
    assert_eq!(failure.provider(), None);
    assert_eq!(failure.with_provider("acme").provider(), Some("acme"));
}
