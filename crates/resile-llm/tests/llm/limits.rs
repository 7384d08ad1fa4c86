//! `resile_llm::limits`: the limits in the headers of answers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use resile::observe::{Event, EventKind};
use resile::quota::{Cost, Dimension, Learning, Limit, Limits, Rate};
use resile::{Never, Quota, Upstream, retry};
use resile_llm::{Failure, charge, events, learn_limits, limits, retry_events};
use serde_json::json;

/// 2025-10-09 08:53:20 UTC.
const NOW: u64 = 1_760_000_000;

/// The number of an absent header.
const NONE: Option<u64> = None;

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(
            name.parse::<HeaderName>().unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    headers
}

fn read_at(status: u16, fields: &[(&str, &str)]) -> Limits {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    limits(StatusCode::from_u16(status).unwrap(), &headers(fields), now)
}

fn read(fields: &[(&str, &str)]) -> Limits {
    read_at(200, fields)
}

/// Returns the limit, the remaining number and the seconds to the reset of one dimension.
fn of(limits: &Limits, dimension: Dimension) -> [Option<u64>; 3] {
    let Limit { limit, remaining, reset, .. } = limits.get(dimension);
    [limit, remaining, reset.map(|reset| reset.as_secs())]
}

#[test]
fn openai_reports_requests_and_tokens() {
    let found = read(&[
        ("x-ratelimit-limit-requests", "5000"),
        ("x-ratelimit-limit-tokens", "160000"),
        ("x-ratelimit-limit-tokens_usage_based", "1"),
        ("x-ratelimit-remaining-requests", "4999"),
        ("x-ratelimit-remaining-tokens", "159976"),
        ("x-ratelimit-remaining-tokens_usage_based", "1"),
        ("x-ratelimit-reset-requests", "6m0s"),
        ("x-ratelimit-reset-tokens", "1120ms"),
        ("x-ratelimit-remaining-project-tokens", "1"),
    ]);
    assert_eq!(of(&found, Dimension::Requests), [Some(5_000), Some(4_999), Some(360)]);
    assert_eq!(of(&found, Dimension::Tokens), [Some(160_000), Some(159_976), Some(1)]);
    assert_eq!(found.get(Dimension::Tokens).reset, Some(Duration::from_millis(1_120)));
    assert_eq!(found.get(Dimension::Input), Limit::default());
}

#[test]
fn anthropic_reports_four_dimensions() {
    let found = read(&[
        ("date", "Thu, 09 Oct 2025 08:53:10 GMT"),
        ("anthropic-ratelimit-requests-limit", "1000"),
        ("anthropic-ratelimit-requests-remaining", "999"),
        ("anthropic-ratelimit-requests-reset", "2025-10-09T08:53:40Z"),
        ("anthropic-ratelimit-input-tokens-limit", "80000"),
        ("anthropic-ratelimit-input-tokens-remaining", "79000"),
        ("anthropic-ratelimit-output-tokens-limit", "16000"),
        ("anthropic-ratelimit-output-tokens-remaining", "15000"),
        ("anthropic-ratelimit-tokens-limit", "96000"),
        ("anthropic-ratelimit-tokens-remaining", "94000"),
        ("anthropic-ratelimit-unified-remaining", "1"),
    ]);
    assert_eq!(of(&found, Dimension::Requests), [Some(1_000), Some(999), Some(30)]);
    assert_eq!(of(&found, Dimension::Input), [Some(80_000), Some(79_000), NONE]);
    assert_eq!(of(&found, Dimension::Output), [Some(16_000), Some(15_000), NONE]);
    assert_eq!(of(&found, Dimension::Tokens), [Some(96_000), Some(94_000), NONE]);
}

#[test]
fn the_shortest_window_of_any_words_counts() {
    for reversed in [false, true] {
        let mut fields = [
            ("x-ratelimit-limit-tokens-day", "1000000"),
            ("x-ratelimit-remaining-tokens-day", "5"),
            ("x-ratelimit-limit-tokens-minute", "60000"),
            ("x-ratelimit-remaining-tokens-minute", "59000"),
            ("x-ratelimit-remaining-requests-day", "14400"),
            ("x-ratelimit-tokens-query-cost", "52"),
        ];
        if reversed {
            fields.reverse();
        }
        let found = read(&fields);
        assert_eq!(of(&found, Dimension::Tokens), [Some(60_000), Some(59_000), NONE]);
        assert_eq!(of(&found, Dimension::Requests), [NONE, Some(14_400), NONE]);
    }
    // An unreadable number does not hide the number of a longer window.
    let found = read(&[
        ("x-ratelimit-remaining-req-minute", "-1"),
        ("x-ratelimit-remaining-req-hour", "717"),
    ]);
    assert_eq!(of(&found, Dimension::Requests), [NONE, Some(717), NONE]);
}

#[test]
fn other_services_have_other_names() {
    let fireworks = read(&[
        ("x-ratelimit-limit-tokens-prompt", "7200000"),
        ("x-ratelimit-remaining-tokens-prompt", "7193993"),
        ("x-ratelimit-remaining-tokens-cache-adjusted-prompt", "1"),
        ("x-ratelimit-remaining-tokens-generated", "69338"),
    ]);
    assert_eq!(of(&fireworks, Dimension::Input), [Some(7_200_000), Some(7_193_993), NONE]);
    assert_eq!(of(&fireworks, Dimension::Output), [NONE, Some(69_338), NONE]);
    let together = read(&[
        ("x-ratelimit-limit", "10"),
        ("x-ratelimit-remaining", "9"),
        ("x-ratelimit-reset", "1"),
        ("x-tokenlimit-limit", "3000"),
        ("x-tokenlimit-remaining", "2900"),
    ]);
    assert_eq!(of(&together, Dimension::Requests), [Some(10), Some(9), Some(1)]);
    assert_eq!(of(&together, Dimension::Tokens), [Some(3_000), Some(2_900), NONE]);
    // GitHub's reset is a moment.
    let github = read(&[("x-ratelimit-remaining", "59"), ("x-ratelimit-reset", "1760000060")]);
    assert_eq!(of(&github, Dimension::Requests), [NONE, Some(59), Some(60)]);
}

#[test]
fn unknown_numbers_are_absent() {
    let azure = [
        ("x-ratelimit-limit-tokens", "-1"),
        ("x-ratelimit-remaining-tokens", "-1"),
        ("x-ratelimit-reset-tokens", "0"),
        ("ratelimit", "\"a\";r=-1"),
    ];
    for status in [200, 429] {
        assert_eq!(read_at(status, &azure), Limits::new(), "{status}");
    }
    let zero = [
        ("x-ratelimit-limit-tokens", "0"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("ratelimit", "\"a\";r=0"),
    ];
    assert!(read_at(200, &zero).is_empty() && read_at(399, &zero).is_empty());
    let refused = read_at(429, &zero);
    assert_eq!(refused.get(Dimension::Tokens).remaining, Some(0));
    assert_eq!(refused.get(Dimension::Requests).remaining, Some(0));
    for text in ["", " ", "many", "NaN", "inf", "1e9", "0x10", "+5", "5 of 10", "\u{00a0}5"] {
        assert_eq!(read(&[("x-ratelimit-remaining", text)]), Limits::new(), "{text:?}");
    }
}

#[test]
fn a_field_of_a_draft_is_read_too() {
    let found = read(&[
        ("ratelimit-policy", "\"minute\";q=100;w=60"),
        ("ratelimit", "\"minute\";r=40;t=12"),
        ("ratelimit-reset", "6m0s"),
        ("x-ratelimit-remaining-req-hour", "717"),
    ]);
    assert_eq!(
        of(&found, Dimension::Requests),
        [NONE, NONE, Some(360)],
        "no window is the shortest"
    );
    let found = read(&[("ratelimit", "\"a\";r=40"), ("x-ratelimit-remaining-req-hour", "7")]);
    assert_eq!(of(&found, Dimension::Requests), [NONE, Some(40), NONE]);
}

#[test]
fn every_unit_of_a_reset_is_read() {
    for (text, nanos) in [
        ("7ns", 7),
        ("7 nanoseconds", 7),
        ("3us", 3_000),
        ("3µs", 3_000),
        ("3 microseconds", 3_000),
        ("3ms", 3_000_000),
        ("2s", 2_000_000_000),
        ("2m", 120_000_000_000),
        ("2h", 7_200_000_000_000),
        ("2d", 172_800_000_000_000),
        ("2w", 1_209_600_000_000_000),
    ] {
        let value = HeaderValue::from_bytes(text.as_bytes()).unwrap();
        let headers = HeaderMap::from_iter([(
            "x-ratelimit-reset-requests".parse::<HeaderName>().unwrap(),
            value,
        )]);
        let found = limits(StatusCode::OK, &headers, SystemTime::UNIX_EPOCH);
        let reset = found.get(Dimension::Requests).reset;
        if text.is_ascii() {
            assert_eq!(reset, Some(Duration::from_nanos(nanos)), "{text}");
        } else {
            assert_eq!(reset, None, "a header value beyond ASCII is not text");
        }
    }
}

#[test]
fn a_moment_in_another_form_is_no_reset() {
    let of =
        |text: &str| read(&[("x-ratelimit-reset-requests", text)]).get(Dimension::Requests).reset;
    assert!(of("2025-10-09T08:54:20Z").is_some());
    assert!(of("2025-10-09T08:54:20.5Z").is_some());
    for text in ["2025/10/09T08:54:20Z", "2025-10-09 08:54:20Z", "2025-10-09T08:54:20,5Z"] {
        assert_eq!(of(text), None, "{text}");
    }
}

fn fields() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let names = prop::sample::select(vec![
        "date",
        "ratelimit",
        "ratelimit-policy",
        "ratelimit-remaining",
        "x-ratelimit-remaining",
        "x-ratelimit-limit-tokens-minute",
        "x-ratelimit-reset-requests",
        "anthropic-ratelimit-input-tokens-reset",
    ]);
    let soup = prop::sample::select(vec![
        "\"",
        "\\",
        ";",
        ",",
        "=",
        "r=",
        "q",
        "qu=",
        "w=60",
        "t=",
        "0",
        "-",
        "9",
        ".",
        "6m",
        "é",
        "tokens",
        "a",
        " ",
        "99999999999999999999",
    ]);
    let soup = prop::collection::vec(soup, 0..24).prop_map(|words| words.concat().into_bytes());
    let bytes = prop::collection::vec(any::<u8>(), 0..64);
    prop::collection::vec((names, prop_oneof![soup, bytes]), 0..6)
}

proptest! {
    /// Any bytes are read without a panic, and no reset is zero.
    #[test]
    fn any_headers_are_read(fields in fields(), status in 100..1000_u16, now in 0..4_000_000_000_u64) {
        let mut headers = HeaderMap::new();
        for (name, value) in &fields {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                headers.append(*name, value);
            }
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        let found = limits(StatusCode::from_u16(status).unwrap(), &headers, now);
        for dimension in Dimension::ALL {
            let limit = found.get(dimension);
            prop_assert!(limit.reset.is_none_or(|reset| !reset.is_zero()));
            prop_assert!(status >= 400 || (limit.remaining != Some(0) && limit.limit != Some(0)));
        }
        learn_limits(StatusCode::from_u16(status).unwrap(), &headers);
    }
}

/// The limit, what is left and the reset of the tokens of OpenAI, with no window.
fn tokens(limit: &str, remaining: &str, reset: &str) -> HeaderMap {
    headers(&[
        ("x-ratelimit-limit-tokens", limit),
        ("x-ratelimit-remaining-tokens", remaining),
        ("x-ratelimit-reset-tokens", reset),
    ])
}

/// One answer does not tell a limit that refills from the end of a fixed window.
#[test]
fn one_answer_of_openai_tells_no_window() {
    for (limit, remaining, reset) in
        [("10000", "9000", "6s"), ("30000", "0", "1s"), ("30000", "1", "59.998s")]
    {
        let now = SystemTime::UNIX_EPOCH;
        let found = limits(StatusCode::OK, &tokens(limit, remaining, reset), now);
        let found = found.get(Dimension::Tokens);
        assert_eq!(found.window, None);
        assert_eq!(found.limit.map(|it| it.to_string()).as_deref(), Some(limit));
        assert!(found.reset.is_some());
    }
}

/// Returns the count of the quota after these answers with their limit, what is left and the reset, and
/// the lines that it has logged.
async fn after(learning: Learning, answers: &[[&str; 3]]) -> (u32, Vec<String>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = told.clone();
    let observe = move |event: &Event<'_>| {
        if matches!(event.kind, EventKind::Learned(_)) {
            seen.lock().unwrap().push(event.to_string());
        }
    };
    let quota = Quota::new().with_tokens(Rate::per_minute(30_000)).with_learning(learning);
    let model = Upstream::new("model").with_quota(quota).with_shared_observer(observe);
    for [limit, remaining, reset] in answers {
        let ask = |_| async {
            assert!(learn_limits(StatusCode::OK, &tokens(limit, remaining, reset)));
            Ok::<_, Failure>(())
        };
        let call = retry(ask, resile_llm::interactive(), Never);
        call.on(model.at_cost(Cost::input(10))).await.unwrap();
    }
    let rate = model.quota_rate(Dimension::Tokens).unwrap();
    assert_eq!(rate.period(), Duration::from_secs(60));
    let told = told.lock().unwrap().clone();
    (rate.count(), told)
}

#[tokio::test(start_paused = true)]
async fn a_lower_limit_of_openai_is_used_and_told_once_its_window_is_known() {
    let answers =
        [["10000", "9000", "6.001s"], ["10000", "8000", "12.001s"], ["10000", "8700", "7.802s"]];
    assert_eq!(after(Learning::Lower, &answers).await, (30_000, vec![]));
    let [a, b, c] = answers;
    let (count, told) = after(Learning::Lower, &[a, b, c, ["10000", "7000", "18.01s"]]).await;
    assert_eq!(count, 10_000);
    assert!(matches!(&*told, [one] if one.contains("10000 tokens per 60s")), "{told:?}");
}

/// The last second of a fixed window of a minute.
#[tokio::test(start_paused = true)]
async fn one_answer_raises_no_quota() {
    for learning in [Learning::Off, Learning::Lower, Learning::Both] {
        for answer in [["30000", "1", "1s"], ["30000", "1", "999ms"], ["30000", "15000", "500ms"]] {
            assert_eq!(after(learning, &[answer]).await, (30_000, vec![]), "{answer:?}");
        }
    }
}

/// A limit of a second that refills at an even rate: half of it is back in half a second.
#[tokio::test(start_paused = true)]
async fn a_line_does_not_deny_that_a_higher_limit_is_used() {
    let answers = [
        ["30000", "15000", "501ms"],
        ["30000", "9000", "701ms"],
        ["30000", "24000", "201ms"],
        ["30000", "3000", "899ms"],
        ["30000", "20000", "334ms"],
    ];
    let (count, told) = after(Learning::Both, &answers).await;
    // At most 16 times the configured limit.
    assert_eq!(count, 16 * 30_000);
    assert!(matches!(&*told, [one] if one.contains("and uses the reported limit")), "{told:?}");
    let (count, told) = after(Learning::Lower, &answers).await;
    assert_eq!(count, 30_000);
    assert!(matches!(&*told, [one] if one.contains("the rest is not used")), "{told:?}");
}

/// Returns the level of 6,000 tokens after a refusal of a whole answer, and of a stream.
async fn left_after(fields: &[(&str, &str)], error: &serde_json::Value) -> [i64; 2] {
    let answer = || {
        let body = json!({ "error": error }).to_string();
        let mut answer = http::Response::new(body);
        (*answer.status_mut(), *answer.headers_mut()) =
            (StatusCode::TOO_MANY_REQUESTS, headers(fields));
        answer
    };
    let policy = resile_llm::interactive().with_attempts(1);
    let cost = Cost::input(10).with_max_output(1_000);
    let models = [(); 2].map(|()| {
        let quota = Quota::new().with_tokens(Rate::per_minute(6_000));
        Upstream::new("model").with_quota(quota.with_charge(charge::OPENAI))
    });
    let whole = |_| resile_llm::read_answer(answer().into());
    retry(whole, policy, Never).on(models[0].at_cost(cost)).await.unwrap_err();
    let events = async |_| Ok(events(answer()));
    let events = retry_events(events, policy, Never).on(models[1].at_cost(cost));
    events.try_for_each(async |_| Ok(())).await.unwrap_err();
    models.map(|model| model.quota_level(Dimension::Tokens).unwrap())
}

/// The words of a refusal say that the limit is one of requests, so the tokens are not used up. Other words,
/// and headers that say what is left, count as before.
#[tokio::test(start_paused = true)]
async fn a_limit_of_requests_in_words_leaves_the_tokens() {
    /// Nothing refills for a sixteenth of the period.
    const USED: i64 = -6_000 / 16;
    const TOKENS: &str = "Rate limit reached on tokens per min (TPM): Limit 6000, Used 5900";
    let [left, used] = [("x-ratelimit-remaining-tokens", "70"), ("retry-after", "2")];
    for (fields, message, level) in [
        (
            &[used][..],
            "Rate limit reached on requests per min (RPM). Please try again in 2s.",
            6_000,
        ),
        (&[], "request reached organization max RPM: 3, try again after 1 seconds", 6_000),
        (&[], "Calls have exceeded call rate limit of your current pricing tier.", 6_000),
        (&[], "This request would exceed your rate limit of 50 requests per minute.", 6_000),
        (&[], "Quota exceeded for metric: free_tier_requests, limit: 15", 6_000),
        (&[], "Quota exceeded for metric: free_tier_input_token_count, limit: 15", USED),
        (&[], "Crossed TPM / RPM / Max Parallel Request Limit", USED),
        (&[used], TOKENS, USED),
        (&[left], "Rate limit reached on requests per min (RPM): Limit 3, Used 3.", 70),
        (&[], "Too many requests", USED),
        (&[], "", USED),
    ] {
        let error = json!({ "code": "rate_limit_exceeded", "message": message });
        assert_eq!(Box::pin(left_after(fields, &error)).await, [level; 2], "{message}");
    }
    let mut error = json!({ "code": "rate_limit_exceeded", "message": "Need more tokens?" });
    assert_eq!(Box::pin(left_after(&[], &error)).await, [USED; 2]);
    error["type"] = "requests".into();
    assert_eq!(Box::pin(left_after(&[], &error)).await, [6_000; 2]);
}
