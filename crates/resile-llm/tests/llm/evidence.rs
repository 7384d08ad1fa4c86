//! The evidence that decides about an LLM failure: its code, its words, its status or its headers.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use resile_llm::{self as llm, Classifier, Failure, Kind, Phase, Reply, Scope};

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

fn coded(status: u16, code: &str, words: &str) -> Kind {
    let body = serde_json::json!({ "error": { "code": code, "message": words } }).to_string();
    Reply::new(body.as_bytes()).with_status(status).classify(NOW).kind()
}

fn said(status: u16, words: &str) -> (Kind, Option<Scope>) {
    let body = serde_json::json!({ "error": { "message": words } }).to_string();
    let failure = Reply::new(body.as_bytes()).with_status(status).classify(NOW);
    (failure.kind(), failure.scope())
}

fn text(words: &str) -> Failure {
    Reply::new(words.as_bytes()).classify(NOW)
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

/// Words of each kind. Alone they mean it at a 400 or at a 500.
const WORDS: [(u16, &str, Kind); 5] = [
    (400, "incorrect api key", Kind::Auth),
    (400, "the prompt is too long", Kind::ContextLength),
    (500, "the model is overloaded", Kind::Overloaded),
    (500, "rate limit reached", Kind::RateLimit),
    (400, "your credit balance is too low", Kind::QuotaExhausted),
];

#[test]
fn a_sure_code_decides_over_the_words() {
    for (status, words, kind) in WORDS {
        assert_eq!(said(status, words).0, kind, "{words}");
        for (code, sure) in [
            ("rate_limit_exceeded", Kind::RateLimit),
            ("invalid_api_key", Kind::Auth),
            ("deadline_exceeded", Kind::Timeout),
            ("model_not_found", Kind::NotFound),
            ("content_filter", Kind::ContentFilter),
        ] {
            // A limit of money says more than a code of a limit on a rate or of a key.
            let is_overruled =
                kind == Kind::QuotaExhausted && matches!(sure, Kind::RateLimit | Kind::Auth);
            let want = if is_overruled { kind } else { sure };
            assert_eq!(coded(status, code, words), want, "{code}: {words}");
        }
        // A code that may mean more than one thing gives way to any words.
        assert_eq!(coded(status, "resource_exhausted", words), kind, "{words}");
    }
}

#[test]
fn a_failed_model_may_have_failed_by_what_it_wrote() {
    assert_eq!(coded(500, "model_error", "could not parse the json"), Kind::InvalidOutput);
    assert_eq!(coded(500, "model_error", "no"), Kind::Server);
}

#[test]
fn a_phrase_decides_over_the_rest_of_the_grammar() {
    assert_eq!(said(500, "the response is not valid json").0, Kind::InvalidOutput);
    assert_eq!(said(500, "overloaded, the response is not valid json").0, Kind::Overloaded);
    assert_eq!(said(500, "rate limit reached: response is not valid json").0, Kind::RateLimit);
}

#[test]
fn a_limit_per_minute_explains_a_crowd_at_a_429_only() {
    let words = "the model is overloaded: 60 requests per minute";
    assert_eq!(said(429, words).0, Kind::RateLimit);
    assert_eq!(said(503, words).0, Kind::Overloaded);
    assert_eq!(said(429, "the model is overloaded").0, Kind::Overloaded);
}

#[test]
fn too_many_of_anything_at_a_429_is_a_limit() {
    let scope = Some(Scope::Concurrency);
    assert_eq!(said(429, "too many concurrent callers"), (Kind::RateLimit, scope));
    assert_eq!(said(429, "too many tokens in the prompt"), (Kind::RateLimit, None));
}

#[test]
fn a_number_with_parts_around_it_is_no_status() {
    for after in ["x", "rd", "-1", "_1", "/1", ".5", ":5", "-like", "_page"] {
        assert_eq!(text(&format!("the status 503{after} is odd")).status(), None, "{after}");
    }
    for after in ["", ".", ". Then", ":", ": 5", ",", ", no", ",no", ";", ")", " 5", "\n"] {
        let words = format!("the status 503{after}");
        assert_eq!(text(&words).status(), Some(503), "{words:?}");
    }
    for before in ["x", "-", "_", "/", ".", "1."] {
        assert_eq!(text(&format!("no {before}503 Service Unavailable")).status(), None, "{before}");
        assert_eq!(text(&format!("no {before} 503 Service Unavailable")).status(), Some(503));
    }
}

#[test]
fn a_reason_phrase_names_its_status_inside_other_words() {
    for (status, reason) in [
        (400, "Bad Request"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (408, "Request Timeout"),
        (429, "Too Many Requests"),
        (500, "Internal Server Error"),
        (504, "Gateway Timeout"),
    ] {
        for words in [format!("the proxy: {status} {reason}"), format!("{status} {reason}: no")] {
            assert_eq!(text(&words).status(), Some(status), "{words}");
        }
        assert_eq!(text(&format!("the proxy: {status} sheep")).status(), None);
    }
}

#[test]
fn a_request_above_the_limit_is_too_large() {
    for between in [", ", ",", "; ", " / min. "] {
        let words = format!("tokens per min: limit 6,000{between}requested 8_123");
        let body = serde_json::json!({ "error": { "message": words } }).to_string();
        let failure = Reply::new(body.as_bytes()).with_status(429).classify(NOW);
        assert_eq!(failure.kind(), Kind::TooLarge, "{words}");
        let tokens = failure.tokens();
        assert_eq!((tokens.limit(), tokens.prompt()), (Some(6_000), Some(8_123)));
    }
    // Neither the used amount nor a small number hides what the request needs.
    for (words, limit, prompt) in [
        ("tokens per min: limit 6000, used 9000, requested 8123", 6_000, 8_123),
        ("requests per min: limit 5, requested 8", 5, 8),
    ] {
        let body = serde_json::json!({ "error": { "message": words } }).to_string();
        let tokens = Reply::new(body.as_bytes()).with_status(429).classify(NOW).tokens();
        assert_eq!((tokens.limit(), tokens.prompt()), (Some(limit), Some(prompt)), "{words}");
    }
    assert_eq!(said(429, "tokens per min: limit 8123, requested 6000").0, Kind::RateLimit);
}

#[test]
fn the_class_at_the_start_says_more_than_a_reason_phrase() {
    let failure = text("AccountOverdueError: 403 Forbidden");
    assert_eq!((failure.kind(), failure.status()), (Kind::QuotaExhausted, Some(403)));
    assert_eq!(text("SomeError: 403 Forbidden").kind(), Kind::Permission);
    // Elsewhere it may be a quotation.
    assert_eq!(text("no AccountOverdueError: 403 Forbidden").kind(), Kind::Permission);
}

#[test]
fn amazons_clients_print_the_code_in_a_sentence() {
    let sentence = |code: &str| {
        text(&format!("An error occurred ({code}) when calling the Converse operation: zzz")).kind()
    };
    for (code, kind) in [
        ("ServiceUnavailable", Kind::Overloaded),
        ("ExpiredToken", Kind::Auth),
        ("AccessDenied", Kind::Permission),
        ("ServiceQuotaExceeded", Kind::QuotaExhausted),
    ] {
        assert_eq!(sentence(code), kind, "{code}");
        for words in ["An event occurred ({}): zzz", "An error occurred ({}) in it: zzz"] {
            assert_ne!(text(&words.replace("{}", code)).kind(), kind, "{words} {code}");
        }
        // A longer code is prose.
        for (length, is_code) in [(63, true), (64, true), (65, false), (90, false)] {
            let padded = format!("{code}{}", "-".repeat(length - code.len()));
            assert_eq!(sentence(&padded) == kind, is_code, "{padded}");
        }
    }
}

#[test]
fn a_code_counts_at_the_start_of_a_text_too() {
    for before in ["", "no: ", "no._"] {
        for words in [format!("{before}_insufficientquota zzz"), format!("{before}quota_exhausted")]
        {
            assert_eq!(text(&words).kind(), Kind::QuotaExhausted, "{words}");
        }
    }
}

#[test]
fn a_long_code_is_prose() {
    let of = |code: &str| {
        let headers = headers(&[("x-ms-error-code", code)]);
        Reply::new(b"").with_status(400).with_headers(&headers).classify(NOW).kind()
    };
    let padded = |code: &str, length: usize| format!("{code}{}", "-".repeat(length - code.len()));
    for (code, longest) in [("insufficient_quota", 128), ("insufficient quota", 32)] {
        for length in [code.len(), longest - 1, longest] {
            assert_eq!(of(&padded(code, length)), Kind::QuotaExhausted, "{code} {length}");
        }
        for length in [longest + 1, longest + 2, 400] {
            assert_eq!(of(&padded(code, length)), Kind::InvalidRequest, "{code} {length}");
        }
    }
}

#[test]
fn a_window_is_used_up_from_one_hundred_percent_on() {
    for (used, kind, wait) in [
        ("100", Kind::QuotaExhausted, Some(7)),
        ("100.5", Kind::QuotaExhausted, Some(7)),
        ("99", Kind::RateLimit, None),
        ("99.9", Kind::RateLimit, None),
        ("rejected", Kind::RateLimit, None),
    ] {
        let headers = headers(&[
            ("x-codex-primary-used-percent", used),
            ("x-codex-primary-reset-after-seconds", "7"),
        ]);
        let failure = Reply::new(b"").with_status(429).with_headers(&headers).classify(NOW);
        assert_eq!(failure.kind(), kind, "{used}");
        assert_eq!(failure.wait(), wait.map(Duration::from_secs), "{used}");
    }
}

#[test]
fn a_good_answer_at_a_bad_status_is_a_failure() {
    let body = br#"{"id":"x","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    for (status, is_good) in [(200, true), (399, true), (400, false), (500, false)] {
        let found = Reply::new(body).with_status(status).find(NOW);
        assert_eq!(found.is_none(), is_good, "{status}");
    }
}

#[test]
fn words_about_a_cancelled_call_count_without_a_code_only() {
    // With a code the words come from the provider. Only the caller can cancel.
    let of =
        |body: &str| Reply::new(body.as_bytes()).with_phase(Phase::Content).classify(NOW).kind();
    assert_eq!(of("the request was aborted"), Kind::Cancelled);
    let coded = r#"{"error":{"code":"odd_one","message":"the request was aborted"}}"#;
    assert_ne!(of(coded), Kind::Cancelled);
}

/// An error that writes its words in parts.
#[derive(Debug)]
struct Parts(&'static [&'static str]);

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| f.write_str(part))
    }
}

impl std::error::Error for Parts {}

#[test]
fn the_parts_of_an_error_are_read_together() {
    let verdict = |parts| Classifier::new().with_text().classify_dyn(&Parts(parts));
    for parts in [
        &["status", " code ", "400 Bad", " Request"][..],
        &["400 Bad Request: ", "no ", "(code: model_not_", "found)"],
        &["no ", "status"],
        &["500 Internal Server Error", ""],
    ] {
        let whole = Failure::find_in_text(&parts.concat()).map(|failure| failure.verdict());
        assert_eq!(verdict(parts), whole, "{parts:?}");
        assert_eq!(whole.is_none(), parts.concat() == "no status", "{parts:?}");
    }
}

#[test]
fn a_code_behind_the_words_is_the_code_of_the_failure() {
    for code in ["model_not_found", "rate-limit.exceeded", "x", "7"] {
        let failure = Failure::find_in_text(&format!("400 Bad Request: no (code: {code}) "));
        assert_eq!(failure.unwrap().code(), Some(code));
    }
    for code in ["", "no code", "é"] {
        let failure = Failure::find_in_text(&format!("400 Bad Request: no (code: {code})"));
        assert_eq!(failure.unwrap().code(), None, "{code}");
    }
}

#[test]
fn a_policy_for_people_ends_within_minutes() {
    let policy = llm::interactive();
    assert_eq!(policy.total_timeout(), Some(Duration::from_secs(300)));
    assert_eq!(policy.hint_cap(), Duration::from_secs(60));
}

#[test]
fn usage_at_the_start_counts_up_to_the_largest_parsed_body() {
    const PARSED: usize = 256 * 1024;
    let input = |length: usize| {
        let start = r#"{"usage":{"prompt_tokens":7,"completion_tokens":5},"x":""#;
        let body = format!("{start}{}\"}}", "x".repeat(length - start.len() - 2));
        llm::usage(body.as_bytes()).and_then(|usage| usage.input())
    };
    assert_eq!(input(PARSED - 1), Some(7));
    assert_eq!(input(PARSED), Some(7));
    assert_eq!(input(PARSED + 1), None);
}
