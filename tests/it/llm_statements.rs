//! How LLM messages are read: statement by statement, in any script, and at any depth of objects.

use std::time::SystemTime;

use resile::llm::{Failure, Kind, Reply, Scope};

fn read(status: u16, body: &str) -> Failure {
    Reply::new(body.as_bytes()).with_status(status).classify(SystemTime::UNIX_EPOCH)
}

fn said(status: u16, words: &str) -> (Kind, Option<Scope>) {
    let body = serde_json::json!({ "error": { "message": words } }).to_string();
    let failure = read(status, &body);
    (failure.kind(), failure.scope())
}

const DAY: (Kind, Option<Scope>) = (Kind::QuotaExhausted, Some(Scope::Day));

#[test]
fn the_meanings_of_two_statements_do_not_add_up() {
    for stop in [". ", "! ", "? ", "; ", "。", "；"] {
        let words = format!("the limit is 3 per day{stop}you have reached us");
        assert_ne!(said(400, &words).0, Kind::QuotaExhausted, "{words}");
    }
    for no_stop in [", ", " - ", ".", "：", "，", "、"] {
        let words = format!("your limit per day{no_stop}it is reached");
        assert_eq!(said(400, &words), DAY, "{words}");
    }
}

#[test]
fn the_numbers_of_a_period_show_whether_it_is_used_up() {
    assert_eq!(said(429, "limit reached. requests per day: 400 of 400 used").0, DAY.0);
    for words in ["the daily limit is reached", "today's limit is used up"] {
        for status in [400, 403, 429] {
            assert_eq!(said(status, words), DAY, "{status}: {words}");
        }
    }
    let window = (Kind::QuotaExhausted, Some(Scope::Window));
    for words in ["reached: your limit of this month", "your weekly limit is exceeded"] {
        assert_eq!(said(429, words), window, "{words}");
    }
    assert_eq!(said(429, "the limit per minute is exceeded").0, Kind::RateLimit);
}

#[test]
fn words_of_other_subjects_are_no_quota() {
    for words in ["the thinking budget exceeds its maximum", "the daily unlimited plan is great"] {
        assert_ne!(said(400, words).0, Kind::QuotaExhausted, "{words}");
    }
    assert_eq!(said(400, "your credits are not sufficient").0, Kind::QuotaExhausted);
    assert_eq!(said(503, "we see many requests today").0, Kind::Overloaded);
}

#[test]
fn words_in_a_list_of_errors_are_read() {
    let body = r#"{"errors":["your credit balance is too low"]}"#;
    assert_eq!(read(400, body).kind(), Kind::QuotaExhausted);
    // Only a member that is named like an exception is one.
    let body = r#"{"error":{"insufficient_quota":{"x":1}}}"#;
    assert_eq!(read(400, body).kind(), Kind::InvalidRequest);
    let body = r#"{"ServiceQuotaExceededException":{"message":"no"}}"#;
    assert_eq!(read(400, body).kind(), Kind::QuotaExhausted);
}

#[test]
fn an_answer_of_any_depth_is_read() {
    for opening in
        ["{'a':", "[", "(", "f(", "f{", "{'a':[", "{'a':\"{\"b\":", "{\"a\":", "{\"error\":"]
    {
        for times in [1, 3, 60, 20_000] {
            let open = opening.repeat(times);
            for body in [format!("{{'error':{open}"), open] {
                let failure = read(400, &body);
                assert_eq!(failure.kind(), Kind::InvalidRequest, "{opening} {times} times");
            }
        }
    }
    for depth in 0..4 {
        let (open, close) = ("{'error': ".repeat(depth), "}".repeat(depth));
        let body = format!("{{'error': {open}{{'code': 'insufficient_quota'}}{close}}}");
        assert_eq!(read(400, &body).kind(), Kind::QuotaExhausted, "{body}");
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        let body = format!("{{'errors': {open}{{'code': 'insufficient_quota'}}{close}}}");
        assert_eq!(read(400, &body).kind(), Kind::QuotaExhausted, "{body}");
    }
}
