//! Objects of LLM answers: almost JSON, lists, nested errors, and the limits of their depth.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use resile_llm::{Failure, Kind, Reply};

const QUOTA: Kind = Kind::QuotaExhausted;

/// A whole answer without an error.
const GOOD: &str = r#""id":"x","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]"#;

fn read(status: u16, body: &str) -> Failure {
    Reply::new(body.as_bytes()).with_status(status).classify(SystemTime::UNIX_EPOCH)
}

fn is_read_as(kind: Kind, status: u16, bodies: &[&str]) {
    for body in bodies {
        let failure = read(status, body);
        assert_eq!(failure.kind(), kind, "{body}: {failure:?}");
    }
}

proptest! {
    #[test]
    fn a_value_before_an_error_hides_no_field(
        value in proptest::sample::select(vec![
            "[]", "[1, 2]", "['x', 'y']", "[[1, 2], [3]]", "('x',)", "(1, 2)", "Some(1)", "f(1, 2)",
            "{}", "{'b': 1}", "S { b: [1, 2] }", "<A: 1>", "<A: '}}'>", "<A: '], (' >", "u'x, y'",
            "b'x'", "r\"x\"", "None", "False", "1.5", "'it\\'s'", "\"it's\"", "`x`",
            "not known yet", r#"\"x\""#,
        ]),
        times in 1..4_usize,
    ) {
        let values: Vec<_> = (0..times).map(|n| format!("'a{n}': {value}, ")).collect();
        let values = values.concat();
        for body in [
            format!("{{'error': {{{values}'code': 'insufficient_quota'}}}}"),
            format!("{{{values}'error': {{'code': 'insufficient_quota'}}}}"),
        ] {
            let failure = read(400, &body);
            prop_assert_eq!(failure.kind(), QUOTA, "{}", body);
            prop_assert_eq!(failure.code(), Some("insufficient_quota"), "{}", body);
        }
    }

    #[test]
    fn an_error_counts_at_any_place_of_a_list(place in 0..4_usize) {
        let mut items = vec![format!("{{{GOOD}}}"); 4];
        items[place] = r#"{"error":{"code":"insufficient_quota"}}"#.to_owned();
        let body = format!("[{}]", items.join(","));
        let reply = Reply::new(body.as_bytes()).with_status(200);
        prop_assert_eq!(reply.find(SystemTime::UNIX_EPOCH).map(|it| it.kind()), Some(QUOTA));
    }
}

#[test]
fn the_second_item_of_a_list_is_read_too() {
    is_read_as(
        QUOTA,
        400,
        &[
            "{'errors': ['no', {'code': 'insufficient_quota'}]}",
            "{'errors': ['no' , {'code': 'insufficient_quota'} ]}",
            "{'errors': ({'code': 'odd'}, {'code': 'insufficient_quota'})}",
            r#"{"errors":["no",{"code":"insufficient_quota"}]}"#,
        ],
    );
}

#[test]
fn a_flag_of_any_language_counts() {
    let body = |flag: &str| format!("{{'success': {flag}, 'id': 'x', 'code': 'ratelimited'}}");
    for flag in ["False", "false"] {
        assert_eq!(read(400, &body(flag)).kind(), Kind::RateLimit, "{flag}");
    }
    for flag in ["True", "true", "None", "'false'"] {
        assert_eq!(read(400, &body(flag)).kind(), Kind::InvalidRequest, "{flag}");
    }
}

#[test]
fn a_string_has_its_own_words_only() {
    for (body, words) in [
        ("{'error': {'message': b'these words'}}", "these words"),
        ("{'error': {'message': u\"these, words\", 'x': 1}}", "these, words"),
        ("{'error': {'message': r'these words'}}", "these words"),
        ("{'error': {'message': 'these 'own' words'}}", "these 'own' words"),
        (r#"{"error":{"message":"these "own" words","code":7x}}"#, r#"these "own" words"#),
        (r#"no {\"error\":{\"message\":\"a \"b\" c\",\"code\":\"x\"}}"#, r#"a "b" c"#),
        (r#"no {\"error\":{\"code\":\"x\",\"message\":\"a b\"\n}}"#, "a b"),
    ] {
        assert_eq!(read(400, body).message(), Some(words), "{body}");
    }
}

#[test]
fn depth_has_a_limit() {
    // An error behind this many lists or objects inside each other is found.
    for (open, close) in [
        ("[", "]"),
        ("(", ")"),
        ("f(", ")"),
        ("{'a': ", "}"),
        ("S {a: ", "}"),
        (r#""{"a":"x","b":"#, r#"}""#),
    ] {
        let body = |times: usize, value: &str| {
            let (open, close) = (open.repeat(times), close.repeat(times));
            format!("{{'a': {open}{value}{close}, 'error': {{'code': 'ratelimited'}}}}")
        };
        let kind = |times, value| read(400, &body(times, value)).kind();
        let long = format!("'{}'", "x".repeat(64));
        for times in 0..=23 {
            assert_eq!(kind(times, "1"), Kind::RateLimit, "{}", body(times, "1"));
            assert_eq!(kind(times, &long), Kind::RateLimit, "{}", body(times, &long));
        }
        // Deeper ones are a text. A text may have round brackets and braces of 64 bytes.
        let is_text = !open.starts_with(['[', '"']);
        let text = if is_text { Kind::RateLimit } else { Kind::InvalidRequest };
        for (times, text) in [(24, text), (26, text), (60, Kind::InvalidRequest)] {
            assert_eq!(kind(times, "1"), text, "{}", body(times, "1"));
            assert_eq!(kind(times, &long), Kind::InvalidRequest, "{}", body(times, &long));
        }
    }
    // The objects around an error are fewer.
    let body = |times: usize| {
        let (open, close) = (r#"{"AException":"#.repeat(times), "}".repeat(times));
        format!(r#"{open}{{"code":"insufficient_quota"}}{close}"#)
    };
    for times in 1..=8 {
        assert_eq!(read(400, &body(times)).kind(), QUOTA, "{times}");
    }
    for times in 9..=11 {
        assert_eq!(read(400, &body(times)).kind(), Kind::InvalidRequest, "{times}");
    }
}

#[test]
fn a_nested_error_may_be_a_string() {
    for name in [
        "error",
        "errors",
        "innererror",
        "inner_error",
        "fault",
        "base_resp",
        "body",
        "responseBody",
        "data",
        "response",
        "Response",
        "cause",
        "metadata",
        "raw",
    ] {
        let inner = serde_json::json!({ "error": { "code": "insufficient_quota" } }).to_string();
        let body = serde_json::json!({ "error": { "message": "these words", name: inner } });
        let failure = read(400, &body.to_string());
        assert_eq!(failure.kind(), QUOTA, "{body}");
        // The inner error has no words, so the outer words stay.
        assert_eq!(failure.message(), Some("these words"), "{body}");
    }
    let body = r#"{"error":{"cause":"your credit balance is too low"}}"#;
    assert_eq!(read(400, body).kind(), QUOTA);
}

#[test]
fn words_may_quote_other_objects_before_the_error() {
    for quoted in ["{}", r#"{"x":1}"#, r#"{"x":{"y":[1]}}"#, "{'x': 1}", "a {no field}"] {
        for times in 0..=3 {
            let error = r#"{"error":{"code":"insufficient_quota","message":"these words"}}"#;
            let words = format!("{}{error}", format!("{quoted} then ").repeat(times));
            let body = serde_json::json!({ "error": { "message": words } }).to_string();
            let failure = read(400, &body);
            assert_eq!(
                (failure.kind(), failure.message()),
                (QUOTA, Some("these words")),
                "{words}"
            );
        }
    }
}

#[test]
fn the_first_of_equal_words_is_the_message() {
    for body in [
        r#"{"error":{"description":"these words","title":"other words"}}"#,
        r#"{"error":{"error_msg":"these words","msg":"other words"}}"#,
        r#"{"detail":[{"loc":["x"],"msg":"these words"},{"loc":["y"],"msg":"other words"}]}"#,
    ] {
        assert_eq!(read(422, body).message(), Some("these words"), "{body}");
    }
}

#[test]
fn only_the_details_name_googles_quotas() {
    let body = |name: &str| {
        let list = r#"[{"violations":[{"quotaId":"RequestsPerDay"}]}]"#;
        format!(r#"{{"error":{{"message":"no","{name}":{list}}}}}"#)
    };
    assert_eq!(read(429, &body("details")).kind(), QUOTA);
    assert_eq!(read(429, &body("other")).kind(), Kind::RateLimit);
}

#[test]
fn a_mark_of_success_is_no_error() {
    let is_error = |mark: &str| {
        let body = format!("{{{mark},{GOOD}}}");
        Reply::new(body.as_bytes()).with_status(200).find(SystemTime::UNIX_EPOCH).is_some()
    };
    for name in ["error_code", "errorCode", "error_msg", "errorMessage"] {
        for (value, want) in [
            ("0", false),
            ("200", false),
            ("299", false),
            (r#""""#, false),
            (r#""0""#, false),
            (r#""200""#, false),
            ("null", false),
            ("1", true),
            ("199", true),
            ("300", true),
            (r#""7""#, true),
            (r#""no""#, true),
        ] {
            assert_eq!(is_error(&format!(r#""{name}":{value}"#)), want, "{name}: {value}");
        }
    }
    for envelope in ["base_resp", "header", "status"] {
        for (code, want) in [("0", false), ("200", false), ("1008", true)] {
            let mark = format!(r#""{envelope}":{{"status_code":{code}}}"#);
            assert_eq!(is_error(&mark), want, "{mark}");
        }
    }
}

#[test]
fn the_largest_bodies_are_read_at_their_start() {
    const PARSED: usize = 256 * 1024;
    let of = |before: &str, after: &str, length: usize| {
        let rest = length - before.len() - after.len();
        read(400, &format!("{before}{}{after}", " ".repeat(rest))).kind()
    };
    let error = r#""error":{"code":"insufficient_quota"}"#;
    for length in [PARSED - 1, PARSED] {
        assert_eq!(of(r#"{"a":1,"#, &format!("{error}}}"), length), QUOTA, "{length}");
    }
    assert_eq!(of(r#"{"a":1,"#, &format!("{error}}}"), PARSED + 1), Kind::InvalidRequest);
    assert_eq!(of(&format!("{{{error},"), r#""a":1}"#, PARSED + 1), QUOTA);
    // A larger body with a good status is a good answer.
    for (length, want) in [(PARSED - 1, true), (PARSED, true), (PARSED + 1, false)] {
        let start = format!("{{{error},\"a\":\"");
        let body = format!("{start}{}\"}}", "x".repeat(length - start.len() - 2));
        let found = Reply::new(body.as_bytes()).with_status(200).find(SystemTime::UNIX_EPOCH);
        assert_eq!(found.map(|failure| failure.kind()), want.then_some(QUOTA), "{length}");
    }
}

#[test]
fn a_truncated_object_names_whole_fields_only() {
    let of = |field: &str| read(429, &format!(r#"{{"id":"x",{field},"choices":["#));
    assert_eq!(of(r#""code":"insufficient_quota""#).kind(), QUOTA);
    assert_eq!(of(r#""code":insufficient_quota"#).code(), Some("insufficient_quota"));
    assert_eq!(of(r#""code":limit.daily"#).code(), Some("limit.daily"));
    for value in ["null", "[1]", ""] {
        assert_eq!(of(&format!(r#""code":{value}"#)).code(), None, "{value}");
    }
    for name in ["barcode", "codex", "x_code"] {
        assert_eq!(of(&format!(r#""{name}":"invalid_api_key""#)).code(), None, "{name}");
    }
    let wait = of(r#""code":"ratelimited","retry_after":1.5"#).wait();
    assert_eq!(wait, Some(Duration::from_millis(1_500)));
}

#[test]
fn a_code_under_any_name_is_a_whole_code() {
    let of = |value: &str| {
        let body = serde_json::json!({ "error": { "anything": value, "message": "no" } });
        read(400, &body.to_string()).kind()
    };
    for code in ["insufficient_quota", "INSUFFICIENT_QUOTA", "quotaExhausted"] {
        assert_eq!(of(code), QUOTA, "{code}");
    }
    assert_eq!(of("throttling"), Kind::RateLimit);
    for words in ["insufficient quota", "my_insufficient_quota_x", "throttled", "ratelimit"] {
        assert_eq!(of(words), Kind::InvalidRequest, "{words}");
    }
}
