//! The fields of error objects: their words, their codes and their numbers.

use std::time::SystemTime;

use resile_llm::{Failure, Kind, Reply};
use serde_json::{Map, Value, json};

const QUOTA: Kind = Kind::QuotaExhausted;

fn read(status: u16, body: &str) -> Failure {
    Reply::new(body.as_bytes()).with_status(status).classify(SystemTime::UNIX_EPOCH)
}

#[test]
fn words_in_a_field_of_any_known_name_are_the_message() {
    for name in [
        "message",
        "Message",
        "msg",
        "error_message",
        "errorMessage",
        "error_msg",
        "status_msg",
        "error_description",
        "detail",
        "details",
        "faultstring",
        "description",
        "reason",
        "title",
        "result",
    ] {
        for error in [
            json!({ name: "these words" }),
            json!({ name: "these words", "x": "other words" }),
            json!({ name: "these words", "type": "odd" }),
        ] {
            let body = json!({ "error": error }).to_string();
            assert_eq!(read(422, &body).message(), Some("these words"), "{body}");
        }
        if !name.eq_ignore_ascii_case("message") {
            let body = json!({ "error": { name: "other words", "message": "these words" } });
            assert_eq!(read(422, &body.to_string()).message(), Some("these words"), "{body}");
        }
    }
    // Beside these an identity provider has a code in `error`.
    let body = r#"{"error":"odd_one","error_description":"these words"}"#;
    assert_eq!(read(401, body).message(), Some("these words"));
}

#[test]
fn only_raw_words_say_more_than_the_message() {
    let of = |name: &str| {
        let body = json!({ "error": { "message": "these words", name: "other words" } });
        read(400, &body.to_string()).message().map(str::to_owned)
    };
    for name in ["cause", "error", "innererror", "fault", "body", "data", "response", "metadata"] {
        assert_eq!(of(name).as_deref(), Some("these words"), "{name}");
    }
    assert_eq!(of("raw").as_deref(), Some("other words"));
}

#[test]
fn a_cause_is_words_and_a_body_is_not() {
    let of = |name: &str| {
        let body = json!({ "error": { "type": "odd", name: "your credit balance is too low" } });
        read(400, &body.to_string()).kind()
    };
    for name in ["cause", "error", "innererror", "fault", "raw"] {
        assert_eq!(of(name), QUOTA, "{name}");
    }
    for name in ["metadata", "data", "response", "body", "responseBody", "anything"] {
        assert_eq!(of(name), Kind::InvalidRequest, "{name}");
    }
}

#[test]
fn the_words_before_an_object_without_words_are_the_message() {
    let error = r#"{"error":{"type":"insufficient_quota"}}"#;
    for (words, want) in [("these words ", Some("these words")), ("", None), (" ", None)] {
        let failure = read(400, &format!("{words}{error}"));
        assert_eq!((failure.kind(), failure.message()), (QUOTA, want), "{words:?}");
    }
}

#[test]
fn a_word_is_a_better_code_than_a_number() {
    for (body, code) in [
        (r#"{"error":{"code":7}}"#, "7"),
        (r#"{"error":{"code":429}}"#, "429"),
        (r#"{"error":{"code":"odd_one"}}"#, "odd_one"),
        (r#"{"code":"odd_one","error":{"code":7}}"#, "odd_one"),
        (r#"{"code":7,"error":{"code":"odd_one"}}"#, "odd_one"),
    ] {
        assert_eq!(read(400, body).code(), Some(code), "{body}");
    }
    for name in ["status", "reason", "__type"] {
        let body = json!({ "error": { name: "odd_one" } }).to_string();
        assert_eq!(read(400, &body).code(), Some("odd_one"), "{body}");
        let body = json!({ "error": { "code": "odd_one", name: "other_one" } }).to_string();
        assert_eq!(read(400, &body).code(), Some("odd_one"), "{body}");
    }
}

#[test]
fn a_field_for_codes_may_hold_a_part_of_a_code() {
    let of = |name: &str| {
        let body = json!({ "error": { name: "my_insufficient_quota_x", "message": "no" } });
        read(400, &body.to_string()).kind()
    };
    for name in [
        "code",
        "Code",
        "error_code",
        "errorCode",
        "errorcode",
        "err_code",
        "errcode",
        "type",
        "error_type",
        "errorType",
        "error_name",
        "errorName",
        "name",
        "kind",
        "status",
        "reason",
        "__type",
    ] {
        assert_eq!(of(name), QUOTA, "{name}");
    }
    assert_eq!(of("anything"), Kind::InvalidRequest);
}

#[test]
fn amazons_additions_are_no_part_of_a_code() {
    let namespaces = ["", "com.amazon#", "a:b#", "a#b#"];
    let ends = ["", ":", ":http://x/", ":x", "::"];
    for (namespace, end) in namespaces.iter().flat_map(|it| ends.map(|end| (*it, end))) {
        let code = format!("{namespace}ThrottlingException{end}");
        let headers = [("x-amzn-errortype", &*code)];
        let headers = headers.map(|(name, code)| (name.parse().unwrap(), code.parse().unwrap()));
        let headers = headers.into_iter().collect();
        let reply = Reply::new(b"").with_status(400).with_headers(&headers);
        let kind = reply.classify(SystemTime::UNIX_EPOCH).kind();
        assert_eq!(kind, Kind::RateLimit, "{code}");
        let body = json!({ "__type": code }).to_string();
        assert_eq!(read(400, &body).kind(), Kind::RateLimit, "{body}");
    }
}

#[test]
fn a_code_in_parentheses_stands_before_the_message() {
    assert_eq!(read(400, "run: (request_timeout) no").kind(), Kind::Timeout);
    for words in [
        "run: (request_timeout), no",
        "run: (request_timeout)",
        "run: request_timeout) no",
        "run: (request_timeout no",
    ] {
        assert_eq!(read(400, words).kind(), Kind::InvalidRequest, "{words}");
    }
}

#[test]
fn a_status_may_be_a_string() {
    for (body, status) in [
        (r#"{"error":{"status":"429"}}"#, 429),
        (r#"{"status":502,"error":{"code":"429"}}"#, 429),
        (r#"{"status":"502","error":{"code":429}}"#, 429),
        (r#"{"error":{"status":502,"upstream_status":"429"}}"#, 429),
        (r#"{"error":{"status":"399"}}"#, 500),
        (r#"{"error":{"status":"600"}}"#, 500),
        (r#"{"error":{"status":"http_502"}}"#, 502),
    ] {
        assert_eq!(read(500, body).status(), Some(status), "{body}");
    }
}

#[test]
fn twelve_codes_around_an_error_count() {
    let names = [
        "code",
        "Code",
        "error_code",
        "errorCode",
        "errorcode",
        "err_code",
        "errcode",
        "type",
        "error_type",
        "errorType",
        "error_name",
        "errorName",
        "name",
        "kind",
    ];
    let of = |count: usize, code: &str| {
        let mut body: Map<_, _> =
            names[..count].iter().map(|name| ((*name).to_owned(), json!(code))).collect();
        body.insert("error".to_owned(), json!({ "type": "insufficient_quota" }));
        read(400, &Value::Object(body).to_string()).kind()
    };
    for count in 0..=11 {
        assert_eq!(of(count, "odd"), QUOTA, "{count}");
    }
    for count in 12..=14 {
        assert_eq!(of(count, "odd"), Kind::InvalidRequest, "{count}");
        // These are no codes.
        assert_eq!(of(count, ""), QUOTA, "{count}");
        assert_eq!(of(count, &"odd".repeat(50)), QUOTA, "{count}");
    }
}

#[test]
fn codes_and_messages_have_a_largest_length() {
    for (length, code, message) in [(127, 127, 127), (128, 128, 128), (129, 128, 129)]
        .into_iter()
        .chain([(4_095, 128, 4_095), (4_096, 128, 4_096), (4_097, 128, 4_096), (9_999, 128, 4_096)])
    {
        let words = "x".repeat(length);
        let body = json!({ "error": { "code": words, "type": words, "message": words } });
        let failure = read(400, &body.to_string());
        assert_eq!(failure.code().map(str::len), Some(code), "{length}");
        assert_eq!(failure.error_type().map(str::len), Some(code), "{length}");
        assert_eq!(failure.message().map(str::len), Some(message), "{length}");
        assert_eq!(read(400, &words).message().map(str::len), Some(message), "{length}");
    }
}

#[test]
fn an_error_in_a_text_counts_up_to_the_end_of_what_is_read() {
    const READ: usize = 32 * 1024;
    let error = r#"{"error":{"type":"overloaded_error"}}"#;
    for (at, want) in [
        (0, Some(Kind::Overloaded)),
        (READ - error.len() - 1, Some(Kind::Overloaded)),
        (READ - error.len(), Some(Kind::Overloaded)),
        (READ, None),
    ] {
        let words = format!("{}{error}", "x".repeat(at));
        let found = Failure::find_in_text(&words).map(|failure| failure.kind());
        assert_eq!(found, want, "{at}");
        let kind = read(400, &words).kind();
        assert_eq!(kind, want.unwrap_or(Kind::InvalidRequest), "{at}");
    }
}

#[test]
fn lists_and_strings_around_an_error_are_few() {
    let error = r#"{"type":"overloaded_error","x":1,"message":"no"}"#;
    for times in 0..=11 {
        let (open, close) = ("[".repeat(times), "]".repeat(times));
        let kind = read(400, &format!(r#"{{"error":{open}{error}{close}}}"#)).kind();
        let want = if times <= 7 { Kind::Overloaded } else { Kind::InvalidRequest };
        assert_eq!(kind, want, "{times} lists");
    }
    let mut body = error.to_owned();
    for times in 0..=8 {
        let want = if times <= 4 { Kind::Overloaded } else { Kind::InvalidRequest };
        assert_eq!(read(400, &body).kind(), want, "{times} strings");
        body = json!({ "message": body }).to_string();
    }
}

#[test]
fn an_error_counts_in_the_second_best_words_too() {
    let error = r#"{"error":{"type":"overloaded_error"}}"#;
    for name in ["detail", "error_message", "cause", "body"] {
        for body in [
            json!({ "error": { "message": "these words", name: error } }),
            json!({ "error": { "message": "these words", name: format!("no: {error}") } }),
        ] {
            let failure = read(400, &body.to_string());
            assert_eq!(failure.kind(), Kind::Overloaded, "{body}");
        }
    }
}

#[test]
fn words_that_lie_too_deep_for_an_error_stay_whole() {
    // The message of a truncated object is read without the objects in it.
    let body = r#"{"id":"x","message":"no {\"error\":{\"message\":\"a\"}} at x","choices":["#;
    let failure = read(400, body);
    assert_eq!(failure.message(), Some(r#"no {"error":{"message":"a"}} at x"#));
}

#[test]
fn the_numbers_of_a_prompt_have_names_of_their_own() {
    let body = r#"{"error":{"type":"exceed_context_size_error","message":"no","n_prompt_tokens":5000,"n_ctx":4096}}"#;
    let failure = read(400, body);
    assert_eq!(failure.kind(), Kind::ContextLength);
    let tokens = failure.tokens();
    assert_eq!((tokens.prompt(), tokens.limit()), (Some(5_000), Some(4_096)));
    assert_eq!(tokens.excess(), Some(904));
    let small = read(400, &body.replace("5000", "4095")).tokens();
    assert_eq!((small.prompt(), small.excess()), (Some(4_095), None));
}
