//! The reading of LLM messages: by statements, in any script, and at any depth of objects.

use std::time::SystemTime;

use resile_llm::{Failure, Kind, Reply, Scope};

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

#[test]
fn the_order_of_statements_makes_no_difference() {
    let window = (Kind::QuotaExhausted, Some(Scope::Window));
    let day = "your daily limit is reached";
    for longer in ["your weekly limit is reached", "your monthly quota is exceeded"] {
        assert_eq!(said(429, &format!("{longer}. {day}.")), window, "{longer}");
        assert_eq!(said(429, &format!("{day}. {longer}.")), window, "{longer}");
    }
    let money = "your funds are insufficient";
    assert_eq!(said(429, &format!("{money}. {day}.")), DAY);
    assert_eq!(said(429, &format!("{day}. {money}.")), DAY);
}

#[test]
fn the_numbers_of_each_period_are_its_own() {
    let minute = (Kind::RateLimit, Some(Scope::Minute));
    let (used, free) = ("limit 60, used 60", "limit 400, used 3");
    for (words, want) in [
        (format!("requests per min: {used}, per day: {free}"), minute),
        (format!("requests per day: {free}, per min: {used}"), minute),
        (format!("requests per min: {free}, per day: {used}"), DAY),
        (format!("requests per day: {used}, per min: {free}"), DAY),
        // A limit that stands alone needs no numbers.
        (format!("limit reached for requests each minute: {free}"), minute),
        (format!("limit reached for requests per min: {used}"), minute),
    ] {
        assert_eq!(said(429, &words), want, "{words}");
    }
}

#[test]
fn a_period_is_used_up_if_one_of_its_numbers_is() {
    let (used, free) = ("limit 60, used 60", "limit 400, used 3");
    for (first, second) in [(used, free), (free, used), (used, used)] {
        let words = format!("calls per day: {first}, tokens per day: {second}");
        assert_eq!(said(429, &words), DAY, "{words}");
    }
    let words = format!("calls per day: {free}, tokens per day: {free}");
    assert_eq!(said(429, &words).0, Kind::RateLimit, "{words}");
}

#[test]
fn a_plan_is_named_with_its_unit_and_its_end() {
    let plan = (Kind::QuotaExhausted, Some(Scope::Window));
    for status in [400, 429] {
        assert_eq!(said(status, "the calls of your subscription are used up"), plan);
        for words in [
            "your subscription is used up",
            "the calls of your subscription",
            "your subscription is odd",
        ] {
            assert_ne!(said(status, words).0, Kind::QuotaExhausted, "{words}");
        }
    }
}

#[test]
fn a_limit_that_is_only_named_is_not_used_up() {
    for words in ["only supports 400 requests per day", "the maximum is 400 requests per day"] {
        assert_ne!(said(400, words).0, Kind::QuotaExhausted, "{words}");
        let used = format!("{words}. you have reached it");
        assert_eq!(said(400, &used), DAY, "{used}");
    }
}

#[test]
fn a_rate_or_a_load_is_no_quota_of_a_day_or_a_plan() {
    for words in [
        "too many concurrent requests today",
        "too many requests for our capacity today",
        "the limit of this session is reached: concurrency",
        "the limit of this session is reached at our capacity",
        "the limit of this session is reached: 60 a minute",
    ] {
        assert_ne!(said(429, words).0, Kind::QuotaExhausted, "{words}");
    }
    assert_eq!(said(429, "too many requests today"), DAY);
    let plan = (Kind::QuotaExhausted, Some(Scope::Window));
    assert_eq!(said(429, "the limit of this session is reached"), plan);
}

#[test]
fn a_wait_of_a_minute_is_no_limit_of_a_minute() {
    assert_eq!(said(429, "please wait a minute"), (Kind::RateLimit, None));
    assert_eq!(said(429, "rate limit. please wait a minute"), (Kind::RateLimit, None));
    let limit = (Kind::RateLimit, Some(Scope::Minute));
    assert_eq!(said(429, "rate limit of 60 requests a minute"), limit);
}

#[test]
fn a_limit_is_no_reason_for_a_missing_key_or_a_large_request() {
    let words = "your daily limit is reached";
    for status in [400, 403, 429, 500, 503] {
        assert_eq!(said(status, words), DAY, "{status}");
    }
    for status in [401, 404, 413] {
        assert_ne!(said(status, words).0, Kind::QuotaExhausted, "{status}");
    }
}

#[test]
fn at_a_400_words_about_a_rate_count_at_the_start_only() {
    let words = "rate limit for callers";
    let later = format!("the value of this argument is odd: {words}");
    for (status, words, kind) in [
        (400, words, Kind::RateLimit),
        (400, &later, Kind::InvalidRequest),
        (500, words, Kind::RateLimit),
        (500, &later, Kind::RateLimit),
    ] {
        assert_eq!(said(status, words).0, kind, "{status}: {words}");
    }
}

#[test]
fn unsafe_words_need_a_matter() {
    for words in ["you flagged us", "it is unsafe", "harmful"] {
        assert_ne!(said(400, words).0, Kind::ContentFilter, "{words}");
    }
    for words in ["your input was flagged", "the question is unsafe", "harmful, so it was blocked"]
    {
        assert_eq!(said(400, words).0, Kind::ContentFilter, "{words}");
    }
}

#[test]
fn a_denied_request_is_not_too_long() {
    let words = "the tokens of your history are beyond it";
    for status in [400, 422, 500] {
        assert_eq!(said(status, words).0, Kind::ContextLength, "{status}");
    }
    for status in [403, 451] {
        assert_eq!(said(status, words).0, Kind::Permission, "{status}");
    }
}

#[test]
fn braces_and_quotes_hide_words_of_a_request() {
    let words = "incorrect api key";
    for (open, close) in [("'", "'"), ("\"", "\""), ("{x: ", "}"), ("{{x}: ", "}")] {
        let hidden = format!("the value {open}{words}{close} is odd");
        assert_eq!(said(400, &hidden).0, Kind::InvalidRequest, "{hidden}");
        let behind = format!("the value {open}x{close} is odd: {words}");
        assert_eq!(said(400, &behind).0, Kind::Auth, "{behind}");
        let whole = format!("'{words}'");
        assert_eq!(said(400, &whole).0, Kind::Auth, "{whole}");
    }
    // A quotation at either end of a message is no whole message.
    for hidden in [format!("'{words}' is odd"), format!("odd is '{words}'")] {
        assert_eq!(said(400, &hidden).0, Kind::InvalidRequest, "{hidden}");
    }
    // An apostrophe inside a word opens nothing.
    assert_eq!(said(400, &format!("it's an {words} of the users' keys")).0, Kind::Auth);
}

#[test]
fn a_limit_on_a_rate_is_named_with_its_unit_and_its_end() {
    let without_status = |words: &str| {
        let body = serde_json::json!({ "error": { "message": words } }).to_string();
        Reply::new(body.as_bytes()).classify(SystemTime::UNIX_EPOCH).kind()
    };
    for words in ["concurrency of calls reached", "reached: the calls per min"] {
        assert_eq!(without_status(words), Kind::RateLimit, "{words}");
        assert_eq!(said(402, words).0, Kind::RateLimit, "{words}");
        assert_eq!(said(400, words).0, Kind::InvalidRequest, "{words}");
    }
    for words in [
        "concurrency of calls",
        "concurrency reached",
        "calls reached",
        "concurrency",
        "calls",
        "reached",
        "concurrency of calls. it is reached",
        "concurrency reached. calls",
    ] {
        assert_eq!(without_status(words), Kind::Unknown, "{words}");
        assert_eq!(said(402, words).0, Kind::QuotaExhausted, "{words}");
    }
}

#[test]
fn a_number_of_tokens_beyond_a_rate_or_a_load_is_no_length() {
    let words = "the tokens of your history are beyond it";
    assert_eq!(said(400, words).0, Kind::ContextLength);
    for limit in ["as the capacity is", "while we are busy", "by the concurrency", "by throttles"] {
        for words in [format!("{words} {limit}"), format!("{words}. {limit}"), {
            format!("{limit}. {words}")
        }] {
            assert_ne!(said(400, &words).0, Kind::ContextLength, "{words}");
        }
    }
}

#[test]
fn a_denial_takes_back_its_own_words_only() {
    for words in [
        "your calls have not been consumed, but your daily limit is reached",
        "your daily limit is reached, but your calls have not been consumed",
        "your calls have not been consumed. your daily limit is reached",
    ] {
        assert_eq!(said(400, words), DAY, "{words}");
    }
    for words in [
        "the calls of your daily limit have not been consumed",
        "daily calls have not been consumed",
    ] {
        assert_ne!(said(400, words).0, Kind::QuotaExhausted, "{words}");
        let consumed = words.replace("not ", "");
        assert_eq!(said(400, &consumed), DAY, "{consumed}");
    }
}

#[test]
fn a_quotation_hides_words_at_any_place() {
    let words = "incorrect api key";
    for before in 0..100 {
        let hidden = format!("{}'{words}' is odd", "x ".repeat(before));
        assert_eq!(said(400, &hidden).0, Kind::InvalidRequest, "{hidden}");
        let hidden = format!("'x' {}\"{words}\" is odd", "y ".repeat(before));
        assert_eq!(said(400, &hidden).0, Kind::InvalidRequest, "{hidden}");
    }
}

#[test]
fn a_quotation_ends_with_its_own_quote() {
    let words = "incorrect api key";
    for hidden in [
        format!("the value 'a user's {words}' is odd"),
        format!("the value ' {words} ' is odd"),
        format!("the value \" {words}.\" is odd"),
        // A quote that nothing closes hides nothing, and the other quotes still do.
        format!("the 'value is \"{words}\" as said"),
        format!("the \"value is '{words}' as said"),
        format!("the 'value is {{{words}}} as said"),
    ] {
        assert_eq!(said(400, &hidden).0, Kind::InvalidRequest, "{hidden}");
    }
    for read in [
        format!("the 'value is an {words}"),
        format!("the values 'a.' and 'b': {words} of 'c'"),
        format!("the values 'a.', \"(b)\": {words} of \"c\""),
    ] {
        assert_eq!(said(400, &read).0, Kind::Auth, "{read}");
    }
}

#[test]
fn a_text_without_a_code_may_quote_its_error() {
    let of = |code: serde_json::Value| {
        let error = serde_json::json!({ "code": code, "message": "no 'rate limit reached' at x" });
        let body = serde_json::json!({ "error": error }).to_string();
        Reply::new(body.as_bytes()).classify(SystemTime::UNIX_EPOCH).kind()
    };
    assert_eq!(of(serde_json::Value::Null), Kind::RateLimit);
    assert_ne!(of("odd_one".into()), Kind::RateLimit);
}
