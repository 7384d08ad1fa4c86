//! Edges of the readers of LLM answers: printed objects, nested errors, pages, streams and waits.

use std::time::{Duration, SystemTime};

use resile_llm::{Failure, Kind, Phase, Reply, Rule};

const QUOTA: Kind = Kind::QuotaExhausted;

/// 2025-10-09 08:53:20 UTC.
const NOW: u64 = 1_760_000_000;

fn read(status: u16, body: &str) -> Failure {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    Reply::new(body.as_bytes()).with_status(status).classify(now)
}

fn is_read_as(kind: Kind, status: u16, bodies: &[&str]) {
    for body in bodies {
        let failure = read(status, body);
        assert_eq!(failure.kind(), kind, "{body}: {failure:?}");
    }
}

#[test]
fn objects_are_read_as_languages_print_them() {
    is_read_as(
        QUOTA,
        400,
        &[
            "{'error': {'flag': False, 'code': 'insufficient_quota'}}",
            "{'error': {'flag': false, 'list': [], 'code': 'insufficient_quota'}}",
            "{b'error': {u'code': b'insufficient_quota'}}",
            r"{'error': {'code': 'insuff\u0069cient_quota'}}",
            r#"{"error":"{"code":"insufficient_quota"}"}"#,
            "{'errors': [{'code': 'insufficient_quota'}]}",
            "{'errors': ({'code': 'insufficient_quota'},)}",
            "{'error': {'a': not known (yet), 'code': 'insufficient_quota'}}",
            "{'error': {'a': <Reason.A: 'x, y'>, 'code': 'insufficient_quota'}}",
            "{'error': {'a': Some('x'), 'code': 'insufficient_quota'}}",
            // The quote of a name ends no object in bare quotes, and a quote behind a brace does.
            r#"{"error":"{"__type":"odd_one","error":{"code":"insufficient_quota"}}"}"#,
            r#"{"a":"{","error":{"code":"insufficient_quota"#,
        ],
    );
}

#[test]
fn an_error_is_found_in_any_envelope() {
    for name in [
        "innererror",
        "fault",
        "detail",
        "error_message",
        "body",
        "data",
        "response",
        "cause",
        "metadata",
        "anything",
    ] {
        let body = format!(r#"{{"error":{{"{name}":{{"code":"insufficient_quota"}}}}}}"#);
        is_read_as(QUOTA, 400, &[&body]);
    }
    // A code under a name of its own counts only if the table knows it.
    is_read_as(QUOTA, 403, &[r#"{"error":{"anything":"insufficient_quota"}}"#]);
    is_read_as(
        Kind::InvalidRequest,
        400,
        &[
            r#"{"error":{"param":"insufficient_quota","message":"no"}}"#,
            r#"{"error":{"model":"insufficient_quota","message":"no"}}"#,
            r#"{"error":{"field":"insufficient_quota","message":"no"}}"#,
        ],
    );
}

#[test]
fn the_best_words_are_the_message() {
    for body in [
        r#"{"error":{"detail":"other words","message":"these words"}}"#,
        r#"{"error":{"message":"these words","title":"other words"}}"#,
        r#"{"detail":[{"loc":["body","x"],"msg":"these words"}]}"#,
    ] {
        assert_eq!(read(422, body).message(), Some("these words"), "{body}");
    }
    assert_eq!(read(400, r#"{"type":"error","message":"no"}"#).error_type(), None);
    assert_eq!(read(400, r#"{"error":{"type":"odd","message":"no"}}"#).error_type(), Some("odd"));
}

#[test]
fn a_gateway_names_the_status_behind_it() {
    for body in [
        r#"{"error":{"status":502,"upstream_status":429,"message":"no"}}"#,
        r#"{"error":{"raw_status_code":429,"status":502,"message":"no"}}"#,
    ] {
        assert_eq!(read(500, body).kind(), Kind::RateLimit, "{body}");
    }
}

#[test]
fn a_page_has_its_title_as_message() {
    let padding = "<meta>".repeat(500);
    for page in [
        "<!DOCTYPE html><html><head><TITLE>the title</TITLE></head>".to_owned(),
        "<html><head><title lang=\"en\">the\n  title</title></head>".to_owned(),
        "<html><title><b>no</b></title><h1>the title</h1>".to_owned(),
        "<html><title></title><h1 class=\"x\">the title</H1>".to_owned(),
        format!("<html><head>{padding}<title>the title</title></head>"),
    ] {
        let message = read(500, &page).message().map(str::to_owned);
        if page.contains("<title></title>") {
            assert_eq!(message.as_deref().filter(|it| it.contains('<')), None, "{page}");
        } else {
            assert_eq!(message.as_deref(), Some("the title"), "{page}");
        }
    }
}

#[test]
fn an_event_of_a_stream_may_have_several_lines() {
    for body in [
        "data: {\"error\":\ndata: {\"code\":\"insufficient_quota\"}}\n\n",
        "data: {\"error\":\n: ping\ndata: {\"code\":\"insufficient_quota\"}}\n\n",
        "event: error\ndata:{\"error\":{\"code\":\"insufficient_quota\"}}\n\ndata: [DONE]\n\n",
    ] {
        let reply = Reply::new(body.as_bytes()).with_status(200).with_phase(Phase::Preamble);
        let failure = reply.classify(SystemTime::UNIX_EPOCH);
        assert_eq!(failure.kind(), QUOTA, "{body}: {failure:?}");
    }
}

#[test]
fn a_truncated_object_still_names_its_code() {
    is_read_as(
        QUOTA,
        400,
        &[
            r#"{"error":{"message":"no","code":"insufficient_quota"#,
            r#"{"error":{"message":"no","code": insufficient_quota"#,
            r#"{"error":{"code": insufficient_quota, "message":"no"#,
        ],
    );
}

#[test]
fn quoted_braces_hide_words_up_to_their_own_end() {
    is_read_as(
        Kind::InvalidRequest,
        400,
        &[
            r#"{"error":{"message":"bad value {a:{b:1}, rate limit reached} at x"}}"#,
            r#"{"error":{"message":"bad value 'rate limit reached' at x"}}"#,
        ],
    );
    let whole = r#"{"error":{"message":"'your credit balance is too low'"}}"#;
    is_read_as(QUOTA, 400, &[whole]);
}

#[test]
fn statuses_of_one_class_have_one_kind() {
    for class in [
        &[401, 407][..],
        &[403, 451],
        &[404, 410],
        &[413, 431],
        &[424, 425, 499, 500, 502],
        &[498, 503, 529],
    ] {
        let kinds: Vec<_> = class.iter().map(|status| read(*status, "").kind()).collect();
        assert!(kinds.windows(2).all(|pair| pair[0] == pair[1]), "{class:?}: {kinds:?}");
        assert_ne!(kinds[0], Kind::Unknown);
        assert_ne!(kinds[0], read(400, "").kind(), "{class:?}");
    }
}

#[test]
fn waits_are_read_in_every_form() {
    let millis = Duration::from_millis;
    for (body, wait) in [
        (r#"{"error":{"retry_after":{"seconds":2,"nanos":500000000}}}"#, millis(2_500)),
        (r#"{"error":{"retry_after":{"nanos":500000000}}}"#, millis(500)),
        (r#"{"error":{"retry_after_ms":1500}}"#, millis(1_500)),
        (r#"{"error":{"retryAfterMs":"1500"}}"#, millis(1_500)),
        (r#"{"error":{"resets_at":1760000007}}"#, millis(7_000)),
        (r#"{"error":{"message":"Rate limit. Try again at 1760000600."}}"#, millis(600_000)),
        (r#"{"response":{"headers":{"retry-after":7}},"error":{"message":"no"}}"#, millis(7_000)),
        (r#"{"response":{"headers":{"retry-after":"7"}},"error":{"message":"no"}}"#, millis(7_000)),
    ] {
        assert_eq!(read(429, body).wait(), Some(wait), "{body}");
    }
}

#[test]
fn google_names_the_window_of_a_quota() {
    let of = |reason: &str, quota: &str| {
        let info = format!(r#"{{"@type":"t/google.rpc.ErrorInfo","reason":"{reason}"}}"#);
        let failure = format!(
            r#"{{"@type":"t/google.rpc.QuotaFailure","violations":[{{"quotaId":"{quota}"}}]}}"#
        );
        read(429, &format!(r#"{{"error":{{"code":429,"details":[{info},{failure}]}}}}"#))
    };
    let minute = of("RATE_LIMIT_EXCEEDED", "RequestsPerMinutePerProject");
    assert_eq!(minute.kind(), Kind::RateLimit);
    assert!(matches!(minute.rule(), Rule::Code(_)), "{:?}", minute.rule());
    let day = of("RATE_LIMIT_EXCEEDED", "RequestsPerDayPerProject");
    assert_eq!((day.kind(), day.rule()), (QUOTA, Rule::Google("quota per day")));
    let billing = of("BILLING_DISABLED", "RequestsPerDayPerProject");
    assert_eq!(billing.kind(), QUOTA);
    assert!(matches!(billing.rule(), Rule::Code(_)), "{:?}", billing.rule());
}

#[test]
fn a_code_in_parentheses_is_one_word() {
    let found = |words: &str| Failure::find_in_text(words).map(|failure| failure.kind());
    assert_eq!(found("429 Too Many Requests: no (code: insufficient_quota)"), Some(QUOTA));
    assert_eq!(found("400 Bad Request: no (code: rate_limit_exceeded)"), Some(Kind::RateLimit));
    assert_eq!(found("429 Too Many Requests: no (code: )"), Some(Kind::RateLimit));
}

#[test]
fn a_status_before_an_object_is_read() {
    for (status, reason) in [
        (402, "Payment Required"),
        (404, "Not Found"),
        (413, "Payload Too Large"),
        (422, "Unprocessable Entity"),
        (502, "Bad Gateway"),
        (503, "Service Unavailable"),
        (504, "Gateway Timeout"),
    ] {
        let body = format!(r#"the proxy: {status} {reason} {{"error":{{"message":"no"}}}}"#);
        let failure = Reply::new(body.as_bytes()).classify(SystemTime::UNIX_EPOCH);
        assert_eq!(failure.status(), Some(status), "{body}: {failure:?}");
    }
}

#[test]
fn each_mark_of_an_error_suffices_in_a_good_answer() {
    let is_error = |body: &str| {
        let reply = Reply::new(body.as_bytes()).with_status(200);
        reply.find(SystemTime::UNIX_EPOCH).is_some()
    };
    // Four fields and an `id`, so a message alone makes no error.
    let rest = r#""message":"no","id":"x","b":2,"c":3"#;
    assert!(!is_error(&format!("{{{rest}}}")));
    for mark in [
        r#""error":{"x":1}"#,
        r#""errors":["x"]"#,
        r#""fault":{"x":1}"#,
        r#""type":"error""#,
        r#""object":"error""#,
        r#""is_error":true"#,
        r#""isError":true"#,
        r#""success":false"#,
        r#""ThrottlingException":{"x":1}"#,
        r#""$fault":"client""#,
    ] {
        assert!(is_error(&format!("{{{mark},{rest}}}")), "{mark}");
    }
    for mark in [r#""error":null"#, r#""code":200"#, r#""success":true"#] {
        let answer = r#""choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]"#;
        assert!(!is_error(&format!("{{{mark},{answer}}}")), "{mark}");
    }
    assert!(is_error("{'success': False, 'message': 'no', 'a': 1, 'b': 2}"));
}

#[test]
fn googles_words_for_a_quota_depend_on_its_code() {
    let of = |fields: &str| {
        let words = r#""message":"You exceeded your current quota""#;
        read(429, &format!(r#"{{"error":{{{words}{fields}}}}}"#)).kind()
    };
    assert_eq!(of(""), QUOTA);
    assert_eq!(of(r#","type":"odd""#), QUOTA);
    assert_eq!(of(r#","status":"RESOURCE_EXHAUSTED""#), Kind::RateLimit);
    let long = r#"{"error":{"message":"too many tokens in the prompt"}}"#;
    assert_eq!(read(400, long).kind(), Kind::ContextLength);
    assert_eq!(read(429, long).kind(), Kind::RateLimit);
}

#[test]
fn a_class_or_a_code_in_a_sentence_decides_over_the_words() {
    let of = |words: &str| Reply::new(words.as_bytes()).classify(SystemTime::UNIX_EPOCH).kind();
    assert_eq!(of("openai.AuthenticationError: no"), Kind::Auth);
    assert_eq!(of("openai.APITimeoutError(no)"), Kind::Timeout);
    assert_eq!(of("run: zzz.ConnectError(no)"), Kind::Network);
    assert_eq!(of("run: zzz.ValidationException(no)"), Kind::InvalidRequest);
    assert_eq!(of("run: an Error, an Exception"), Kind::Unknown);
    let denied = "An error occurred (AccessDeniedException) when calling the Invoke operation: no";
    assert_eq!(of(denied), Kind::Permission);
}

#[test]
fn a_good_answer_may_say_that_it_has_no_error() {
    let answer = r#""choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]"#;
    for error in ["null", "false"] {
        for body in [format!(r#"{{"error":{error},{answer}}}"#), format!("{{{answer}}}")] {
            let reply = Reply::new(body.as_bytes()).with_status(200);
            assert!(reply.find(SystemTime::UNIX_EPOCH).is_none(), "{body}");
        }
    }
}
