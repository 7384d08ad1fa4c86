//! The numbers in LLM answers and their headers: statuses, tokens, limits and resets.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use resile_llm::{Failure, Kind, Reply, Rule};

fn read(status: u16, words: &str) -> Failure {
    let body = serde_json::json!({ "error": { "message": words } }).to_string();
    Reply::new(body.as_bytes()).with_status(status).classify(SystemTime::UNIX_EPOCH)
}

#[test]
fn a_number_before_words_or_a_brace_at_the_start_of_a_text_is_a_status() {
    let status = |text: &str| {
        Reply::new(text.as_bytes()).classify(SystemTime::UNIX_EPOCH).status().unwrap_or(0)
    };
    for rest in [" zzz", ": zzz", " - zzz", " {zzz", ": {zzz}", " - {\"message\":\"zzz\"}"] {
        assert_eq!(status(&format!("503{rest}")), 503, "{rest}");
        assert_eq!(status(&format!("zzz 503{rest}")), 0, "{rest}");
    }
    for rest in ["", " ", " (zzz)", " [zzz]", " 5 zzz", " !", " }"] {
        assert_eq!(status(&format!("503{rest}")), 0, "{rest}");
    }
}

#[test]
fn a_count_with_separators_is_one_number_at_any_place() {
    for before in ["", "at last ", "zzz: "] {
        let words = format!("{before}205,371 tokens > 200_000 is beyond the maximum of a prompt");
        let tokens = read(400, &words).tokens();
        assert_eq!((tokens.prompt(), tokens.limit()), (Some(205_371), Some(200_000)), "{words}");
    }
}

#[test]
fn a_limit_of_zero_is_no_limit_of_a_part_of_one() {
    for (end, is_zero) in [
        ("0", true),
        ("0.", true),
        ("0. Zzz", true),
        ("0, zzz", true),
        ("0zzz", true),
        ("0.5", false),
        ("0.0", false),
        ("07", false),
        ("00", false),
        ("0.5, zzz", false),
        ("07. Zzz", false),
    ] {
        let failure = read(429, &format!("a Quota has the limit: {end}"));
        let kind = if is_zero { Kind::QuotaExhausted } else { Kind::RateLimit };
        assert_eq!(failure.kind(), kind, "{end}");
        assert_eq!(failure.rule() == Rule::Google("quota of zero"), is_zero, "{end}");
    }
}

#[test]
fn a_reset_of_zero_is_no_wait() {
    for (seconds, wait) in [("0", None), ("1", Some(Duration::from_secs(1)))] {
        let field = format!(r#""zzz";r=0;t={seconds}"#);
        let headers =
            HeaderMap::from_iter([("ratelimit".parse().unwrap(), field.parse().unwrap())]);
        let reply = Reply::new(b"").with_status(429).with_headers(&headers);
        assert_eq!(reply.classify(SystemTime::UNIX_EPOCH).wait(), wait, "{field}");
    }
}

#[test]
fn a_header_shows_that_the_quota_of_a_day_is_used_up() {
    for (name, value, is_used) in [
        ("x-ratelimit-remaining-requests-day", "0", true),
        ("x-ratelimit-remaining-requests-day", "0.0", true),
        ("x-ratelimit-remaining-requests-day", "1", false),
        // Azure sends -1 for an unknown amount.
        ("x-ratelimit-remaining-requests-day", "-1", false),
        ("x-ratelimit-remaining-requests-day", "-2", false),
        ("x-ratelimit-remaining-requests-minute", "0", false),
        ("x-ratelimit-limit-requests-day", "1000", false),
        ("x-ratelimit-used-requests-day", "1000", false),
        ("x-ratelimit-day-status", "rejected", true),
        ("x-ratelimit-day-status", "allowed", false),
        ("x-ratelimit-day-used-percent", "100", true),
        ("x-ratelimit-day-used-percent", "99", false),
        ("x-remaining-day", "0", false),
    ] {
        let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
        let reply = Reply::new(b"").with_status(429).with_headers(&headers);
        let kind = if is_used { Kind::QuotaExhausted } else { Kind::RateLimit };
        assert_eq!(reply.classify(SystemTime::UNIX_EPOCH).kind(), kind, "{name}: {value}");
    }
}
