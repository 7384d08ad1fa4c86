//! The stable words of logs and metrics, and the texts for people that are made of them.

use std::collections::HashSet;
use std::fmt::Display;
use std::time::{Duration, SystemTime};

use resile::{Never, retry};
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
    // A cost is too large by its input or by its most output.
    let shrink = "shorten the prompt or ask for less output, then send it again";
    assert_eq!(Recovery::Shrink.advice(), shrink);
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

/// The alternate form has no wait, because the lines of the engine have it.
#[test]
fn a_failure_prints_its_wait_once_and_in_the_notation_of_the_engine() {
    for (millis, text) in
        [(1, "1.0ms"), (644, "644.0ms"), (1_000, "1.0s"), (11_040, "11.0s"), (600_000, "600.0s")]
    {
        let body = format!(r#"{{"error":{{"message":"slow down","retry_after_ms":{millis}}}}}"#);
        let failure = Reply::new(body.as_bytes()).with_status(429).classify(SystemTime::UNIX_EPOCH);
        assert_eq!(failure.wait(), Some(Duration::from_millis(millis)), "{body}");
        let words =
            format!("rate limited by the provider, try again in {text}: slow down (status 429)");
        assert_eq!(failure.to_string(), words);
        let without = "rate limited by the provider: slow down (status 429)";
        assert_eq!(format!("{failure:#}"), without);
    }
}

/// One message has one wait: that of the call.
#[tokio::test(start_paused = true)]
async fn a_call_that_gave_up_names_the_wait_once() {
    let said = |attempts, status, words: &'static str| async move {
        let ask = async |_| Err::<(), _>(Failure::from_text(status, words));
        let policy = resile_llm::interactive().with_attempts(attempts);
        format!("{:#}", retry(ask, policy, Never).on("m").await.unwrap_err())
    };
    assert_eq!(
        said(1, 429, "Rate limit reached. Please try again in 2s.").await,
        "m: gave up after 1 attempt, try again in 2.0s: rate limited by the provider: Rate limit \
         reached (status 429)"
    );
    assert_eq!(
        said(2, 529, "overloaded, try again in 600s").await,
        "m: gave up after 1 attempt, the upstream asks for a wait of 600.0s, more than the hint cap \
         of 60s (`with_hint_cap`): the provider is overloaded (status 529)"
    );
    assert_eq!(
        said(2, 429, "daily limit reached, try again in 5h").await,
        "m: gave up after 1 attempt, the error is final, the upstream \
         asked for a wait of 18000.0s: the provider's quota or credit is used up, add credit or use \
         another key: daily limit reached, try again in 5h (status 429)"
    );
}

#[test]
fn a_failure_names_the_provider_that_its_caller_named() {
    let failure = Failure::truncated(Phase::Content);
    assert_eq!(failure.provider(), None);
    assert_eq!(failure.with_provider("acme").provider(), Some("acme"));
}
