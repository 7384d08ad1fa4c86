//! Waits in the bodies of LLM failures.

use std::time::{Duration, SystemTime};

use resile_llm::Reply;
use serde_json::json;

/// 2025-10-09 08:53:20 UTC.
const NOW: u64 = 1_760_000_000;

fn wait(body: &serde_json::Value) -> Option<Duration> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    Reply::new(body.to_string().as_bytes()).with_status(429).classify(now).wait()
}

#[test]
fn an_amount_ends_with_its_word() {
    for amount in ["7", "7s", "1760000007", "1760000007000", "2025-10-09t08:53:27z"] {
        for end in ["", " ", ".", ",", ")", "\"", "\n", ", please", ") please", "\" please", "."] {
            let words = format!("rate limit, please try again after (\"{amount}{end}");
            let error = json!({ "error": { "message": words } });
            assert_eq!(wait(&error), Some(Duration::from_secs(7)), "{words}");
        }
    }
    for other in ["7 attempts", "7x", "7;", "7/s", ".7s", "x7s", "-7s", "٧s"] {
        let words = format!("rate limit, please try again after {other}");
        assert_eq!(wait(&json!({ "error": { "message": words } })), None, "{words}");
    }
}

#[test]
fn a_field_names_a_moment_or_an_amount() {
    for name in
        ["resets_at", "reset_at", "resetsAt", "resetAt", "reset_time", "quotaResetTimeStamp"]
    {
        for moment in [
            json!(1_760_000_007),
            json!(1_760_000_007_000_u64),
            json!("1760000007"),
            json!("2025-10-09T08:53:27Z"),
        ] {
            let error = json!({ "error": { "message": "no", name: moment } });
            assert_eq!(wait(&error), Some(Duration::from_secs(7)), "{error}");
        }
        for other in [json!(true), json!([7]), json!("soon"), json!("2025-10-09T08:53:20Z")] {
            let error = json!({ "error": { "message": "no", name: other } });
            assert_eq!(wait(&error), None, "{error}");
        }
    }
    for name in ["retry_after", "retryAfterSeconds", "retryDelay", "estimated_time"] {
        for amount in [json!(7), json!(7.0), json!("7"), json!("7s"), json!({ "seconds": "7" })] {
            let error = json!({ "error": { "message": "no", name: amount } });
            assert_eq!(wait(&error), Some(Duration::from_secs(7)), "{error}");
        }
    }
}
