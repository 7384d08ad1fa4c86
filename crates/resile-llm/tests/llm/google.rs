//! Google's quotas: in the details of an error, in truncated ones, and in the words of an error.

use std::time::SystemTime;

use resile_llm::{Failure, Kind, Reply, Rule};
use serde_json::json;

const QUOTA: Kind = Kind::QuotaExhausted;

fn read(body: &str) -> Failure {
    Reply::new(body.as_bytes()).with_status(429).classify(SystemTime::UNIX_EPOCH)
}

/// Returns the violation of a quota of this name and value.
fn violation(quota: &str, value: &str) -> serde_json::Value {
    json!({ "quotaId": quota, "quotaValue": value })
}

#[test]
fn a_quota_of_zero_is_not_in_the_plan() {
    let zero = Rule::Google("quota of zero");
    for (values, want) in [
        (["0", "9"], (QUOTA, zero)),
        (["9", "0"], (QUOTA, zero)),
        (["0", "0"], (QUOTA, zero)),
        (["9", "9"], (Kind::RateLimit, Rule::Google("quota per minute"))),
    ] {
        let violations = values.map(|value| violation("RequestsPerMinute", value));
        let error = json!({ "message": "no", "details": [{ "violations": violations }] });
        let failure = read(&json!({ "error": error }).to_string());
        assert_eq!((failure.kind(), failure.rule()), want, "{values:?}");
    }
    let of = |words: &str| read(&json!({ "error": { "message": words } }).to_string()).rule();
    for words in ["Quota exceeded for a metric, limit: 0", "quota: limit: 0, model: x"] {
        assert_eq!(of(words), zero, "{words}");
    }
    for words in ["quota: limit: 05", "quota: limit: 0.5", "quota: limit: 9", "sheep: limit: 0"] {
        assert_ne!(of(words), zero, "{words}");
    }
}

#[test]
fn the_details_of_a_truncated_error_are_read() {
    let of = |fields: &str| {
        let failure = read(&format!(r#"{{"id":"x",{fields},"choices":["#));
        (failure.kind(), failure.rule())
    };
    let day = r#""quotaId":"RequestsPerDay""#;
    let minute = r#""quotaId":"RequestsPerMinute""#;
    assert_eq!(of(day), (QUOTA, Rule::Google("quota per day")));
    assert_eq!(of(minute), (Kind::RateLimit, Rule::Google("quota per minute")));
    // A reason that is no limit on a rate says more than the quotas.
    for quota in [day, minute] {
        let (kind, rule) = of(&format!(r#""reason":"BILLING_DISABLED",{quota}"#));
        assert!(kind == QUOTA && matches!(rule, Rule::Code(_)), "{quota}: {rule}");
    }
    let limit = of(&format!(r#""reason":"RATE_LIMIT_EXCEEDED",{day}"#));
    assert_eq!(limit, (QUOTA, Rule::Google("quota per day")));
}

#[test]
fn the_words_of_an_error_may_hold_details() {
    let of = |violations: serde_json::Value| {
        let error = json!({ "error": { "details": [{ "violations": violations }] } });
        Failure::find_in_text(&format!("it failed: {error}")).map(|failure| failure.kind())
    };
    assert_eq!(of(json!([violation("RequestsPerDay", "9")])), Some(QUOTA));
    assert_eq!(of(json!([violation("RequestsPerMinute", "9")])), Some(Kind::RateLimit));
    assert_eq!(of(json!([])), None);
}

/// Gateways drop the types of the details.
#[test]
fn a_reason_without_a_type_counts() {
    let of = |detail: serde_json::Value| {
        let error = json!({ "code": 429, "status": "RESOURCE_EXHAUSTED", "details": [detail] });
        read(&json!({ "error": error }).to_string()).kind()
    };
    let capacity = "MODEL_CAPACITY_EXHAUSTED";
    assert_eq!(of(json!({ "reason": capacity })), Kind::Overloaded);
    assert_eq!(of(json!({ "reason": "QUOTA_EXHAUSTED", "domain": "x" })), QUOTA);
    let info = "type.googleapis.com/google.rpc.ErrorInfo";
    assert_eq!(of(json!({ "@type": info, "reason": capacity })), Kind::Overloaded);
    // A detail of another type has another meaning, and a reason that is not Google's has none.
    let other = "type.googleapis.com/google.rpc.Other";
    assert_eq!(of(json!({ "@type": other, "reason": capacity })), Kind::RateLimit);
    for reason in ["OF_A_PROXY", "model_capacity_exhausted", "overloaded"] {
        assert_eq!(of(json!({ "reason": reason })), Kind::RateLimit, "{reason}");
    }
}
