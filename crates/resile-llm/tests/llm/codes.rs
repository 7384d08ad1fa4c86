//! Codes of LLM errors with something beside them: other parts, words and waits.

use std::time::SystemTime;

use resile_llm::{Kind, Reply};

fn read(status: u16, error: &serde_json::Value) -> Kind {
    let body = serde_json::json!({ "error": error }).to_string();
    Reply::new(body.as_bytes()).with_status(status).classify(SystemTime::UNIX_EPOCH).kind()
}

#[test]
fn each_part_of_a_code_may_be_the_code() {
    for (code, kind) in [
        ("conflict", Kind::Conflict),
        ("payment_required", Kind::QuotaExhausted),
        ("deadline_exceeded", Kind::Timeout),
        ("slow_down", Kind::Overloaded),
    ] {
        for code in [code.to_owned(), format!("{code}.zzz"), format!("zzz.{code}")] {
            let error = serde_json::json!({ "code": code, "message": "zzz" });
            assert_eq!(read(400, &error), kind, "{code}");
        }
    }
}

#[test]
fn the_meaning_of_a_code_depends_on_its_status() {
    for (code, status, kind) in [
        ("slow_down", 400, Kind::Overloaded),
        ("slow_down", 429, Kind::RateLimit),
        ("tokens_limit_reached", 400, Kind::ContextLength),
        ("tokens_limit_reached", 413, Kind::TooLarge),
        ("zzz_quota_exceeded", 400, Kind::QuotaExhausted),
        ("zzz_quota_exceeded", 413, Kind::TooLarge),
        ("zzz_quota_exceeded", 429, Kind::RateLimit),
        ("zzz_not_found", 400, Kind::InvalidRequest),
        ("zzz_not_found", 401, Kind::Auth),
        ("zzz_not_found", 403, Kind::Permission),
        ("zzz_not_found", 422, Kind::InvalidRequest),
        ("zzz_not_found", 500, Kind::NotFound),
    ] {
        let error = serde_json::json!({ "code": code, "message": "zzz" });
        assert_eq!(read(status, &error), kind, "{code} at {status}");
    }
}

#[test]
fn a_sure_code_needs_no_words() {
    for words in ["your daily limit is reached", "your weekly limit is reached", "zzz"] {
        let error = serde_json::json!({ "code": "insufficient_quota", "message": words });
        let body = serde_json::json!({ "error": error }).to_string();
        let failure = Reply::new(body.as_bytes()).with_status(429).classify(SystemTime::UNIX_EPOCH);
        assert_eq!((failure.kind(), failure.scope()), (Kind::QuotaExhausted, None), "{words}");
    }
}

/// The class must deny a retry for sure, or else the reason phrase says more.
#[test]
fn a_class_without_a_sure_denial_says_no_more_than_a_reason_phrase() {
    let of = |class: &str| {
        let text = format!("{class}Error: 403 Forbidden");
        Reply::new(text.as_bytes()).classify(SystemTime::UNIX_EPOCH).kind()
    };
    for passing in ["SlowDown", "Conflict", "DeadlineExceeded", "GatewayTimeout"] {
        assert_eq!(of(passing), Kind::Permission, "{passing}");
    }
    for unsure in ["Unsupported", "InvalidValue", "UnknownParam"] {
        assert_eq!(of(unsure), Kind::Permission, "{unsure}");
    }
    for (sure, kind) in [
        ("InsufficientQuota", Kind::QuotaExhausted),
        ("ContentFilter", Kind::ContentFilter),
        ("ModelNotFound", Kind::NotFound),
    ] {
        assert_eq!(of(sure), kind, "{sure}");
    }
}

#[test]
fn a_wait_or_a_status_of_google_changes_one_row_of_words_only() {
    for (status, words, kind) in [
        (429, "please recharge", Kind::QuotaExhausted),
        (429, "no resource package", Kind::QuotaExhausted),
        (500, "the model is loading", Kind::Overloaded),
        (500, "please slow down", Kind::RateLimit),
        (400, "prompt is too long", Kind::ContextLength),
    ] {
        for error in [
            serde_json::json!({ "message": words }),
            serde_json::json!({ "message": words, "retry_after": 7 }),
            serde_json::json!({ "message": words, "status": "RESOURCE_EXHAUSTED" }),
        ] {
            assert_eq!(read(status, &error), kind, "{error}");
        }
    }
    let words = "you exceeded your current quota";
    for (error, kind) in [
        (serde_json::json!({ "message": words }), Kind::QuotaExhausted),
        (serde_json::json!({ "message": words, "retry_after": 7 }), Kind::RateLimit),
        (serde_json::json!({ "message": words, "status": "RESOURCE_EXHAUSTED" }), Kind::RateLimit),
    ] {
        assert_eq!(read(429, &error), kind, "{error}");
    }
}
