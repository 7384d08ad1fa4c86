//! Laws of the classification for any answer.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use resile_llm::{self as llm, Failure, Kind, Phase, Reply};

fn headers() -> impl Strategy<Value = HeaderMap> {
    let names = prop::sample::select(vec![
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "date",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
        "anthropic-ratelimit-unified-status",
        "anthropic-ratelimit-unified-reset",
        "x-amzn-errortype",
    ]);
    let values = prop_oneof![
        "[ -~]{0,24}",
        "-?[0-9]{1,40}(\\.[0-9]{1,9})?",
        prop::sample::select(vec![
            "true",
            "false",
            "0",
            "NaN",
            "inf",
            "1e999",
            "6m0s",
            "rejected",
            "2030-01-01T00:00:00Z",
            "Thu, 01 Jan 1970 00:00:00 GMT",
            "Fri, 31 Dec 9999 23:59:59 GMT"
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec((names, values), 0..5).prop_map(|fields| {
        let field = |(name, value): (&str, String)| {
            Some((name.parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
        };
        fields.into_iter().filter_map(field).collect()
    })
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "rate limit",
        "Too many tokens",
        "try again in 5s",
        "context length",
        "Limit 1, Requested 2",
        "insufficient_quota",
        "overloaded",
        "api key is invalid",
        "{\"error\":",
        "\"code\":",
        "\"message\":\"",
        "}",
        "]",
        "[",
        "\"",
        "'",
        "data: ",
        "\n\n",
        "<title>",
        "limit: 0 quota",
        "…",
    ]);
    let soup = prop::collection::vec(words, 0..24).prop_map(|words| words.concat().into_bytes());
    prop_oneof![prop::collection::vec(any::<u8>(), 0..512), soup]
}

fn phases() -> impl Strategy<Value = Phase> {
    prop::sample::select(vec![Phase::Connect, Phase::Response, Phase::Preamble, Phase::Content])
}

proptest! {
    /// Any bytes give a failure, and the laws hold for it.
    #[test]
    fn classification_is_total(status in prop::option::of(any::<u16>()), headers in headers(), body in bodies(), phase in phases(), now in 0..4_000_000_000_u64) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        let reply = Reply::new(&body).with_headers(&headers).with_phase(phase);
        let reply = status.map_or(reply, |status| reply.with_status(status));
        let failure = reply.classify(now);
        let instruction = headers.get("x-should-retry").and_then(|value| value.to_str().ok()).map(str::trim);
        let instruction = instruction.filter(|instruction| matches!(*instruction, "true" | "false"));
        let expected = match instruction {
            _ if failure.kind() == Kind::Cancelled => false,
            Some(instruction) => instruction == "true",
            None => failure.kind().is_passing(),
        };
        prop_assert_eq!(failure.is_retryable(), expected);
        prop_assert_eq!(failure.verdict().is_again(), expected);
        prop_assert!(failure.wait().is_none_or(|wait| !wait.is_zero()));
        prop_assert!(!failure.to_string().is_empty() && !failure.to_string().chars().any(char::is_control));
        prop_assert!(failure.message().is_none_or(|message| message.len() <= 4096));
    }

    /// A permanent kind is never retried, for any words of the provider.
    #[test]
    fn a_permanent_kind_is_never_retried(status in 400..600_u16, body in bodies()) {
        let failure = Reply::new(&body).with_status(status).classify(SystemTime::UNIX_EPOCH);
        prop_assert!(failure.kind().is_passing() || !failure.verdict().is_again());
    }

    /// Quoted text does not count. A 400 without other known words stays an invalid request.
    #[test]
    fn quoted_words_do_not_count(quoted in "(rate limit|context length|credit balance is too low|invalid api key|model not found|try again in 5s| ){1,6}") {
        let body = serde_json::json!({"error": {"message": format!("Bad value: '{quoted}' at messages[0]"), "type": "invalid_request_error"}});
        let failure = Reply::new(body.to_string().as_bytes()).with_status(400).classify(SystemTime::UNIX_EPOCH);
        prop_assert_eq!(failure.kind(), Kind::InvalidRequest);
    }
}

proptest! {
    /// The words about a window count in any order, and beside any words about a rate.
    #[test]
    fn a_used_up_day_is_a_quota_in_any_order(
        words in Just(vec!["the daily", "limit", "was reached", "(rate limit)"]).prop_shuffle(),
        status in prop_oneof![Just(429), Just(403), Just(500), Just(503)],
    ) {
        let failure = Failure::from_text(status, &words.join(" "));
        prop_assert_eq!(failure.kind(), Kind::QuotaExhausted);
        prop_assert_eq!(failure.scope(), Some(llm::Scope::Day));
        // An offer to use more per day says nothing about the present limit.
        let offer = Failure::from_text(429, "Too many requests per minute. Upgrade to 900 per day.");
        prop_assert_eq!(offer.kind(), Kind::RateLimit);
    }

    /// A cut leaves the fields before it readable: the code still decides.
    #[test]
    fn a_cut_after_the_code_does_not_hide_it(cut in 45_usize..150) {
        let whole = r#"{"error":{"code":"insufficient_quota","param":null,"message":"The \"team\" x, y: {z} has none left of it","type":"requests","status":429},"id":"r"}"#;
        let failure = Failure::from_text(429, whole.get(..cut.min(whole.len())).unwrap());
        prop_assert_eq!(failure.kind(), Kind::QuotaExhausted);
    }
}
