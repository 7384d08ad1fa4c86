//! The classification of failures of LLM providers: one fixture for each rule. The fixtures are
//! written from the rules, in the formats of the providers.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use resile::llm::{self, Classifier, Failure, Kind, Phase, Recovery, Reply};
use resile::timeout::Elapsed;
use resile::{
    Attempt, Classify, ClassifyOperation, Cut, Decision, Health, Never, ResilienceExt, RetryPolicy,
    StopReason, Verdict, retry,
};
use serde_json::Value;

const KINDS: &str = include_str!("../data/llm/kinds.jsonl");
const CLASHES: &str = include_str!("../data/llm/clashes.jsonl");
const WAITS: &str = include_str!("../data/llm/waits.jsonl");
const GRAMMAR: &str = include_str!("../data/llm/grammar.jsonl");
/// Failures that really occurred or that a documentation states, in our own words.
const PROVIDERS: &str = include_str!("../data/llm/providers.jsonl");

fn cases(lines: &str) -> impl Iterator<Item = Value> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

fn classify(case: &Value) -> Failure {
    let body = case["body"].as_str().map_or_else(|| case["body"].to_string(), str::to_owned);
    let fields = case["headers"].as_object().into_iter().flatten();
    let headers: HeaderMap = fields
        .map(|(name, value)| {
            (
                name.parse::<HeaderName>().unwrap(),
                value.as_str().unwrap().parse::<HeaderValue>().unwrap(),
            )
        })
        .collect();
    let phase = match case["phase"].as_str() {
        None => Phase::Response,
        Some("transport") => Phase::Connect,
        Some("sse_pre_content") => Phase::Preamble,
        Some("sse_mid") => Phase::Content,
        Some(other) => panic!("no such phase: {other}"),
    };
    let now = case["now"]
        .as_str()
        .map_or(SystemTime::UNIX_EPOCH, |now| now.parse::<jiff::Timestamp>().unwrap().into());
    let reply = Reply::new(body.as_bytes()).with_headers(&headers).with_phase(phase);
    let status = case["status"].as_u64().map(|status| u16::try_from(status).unwrap());
    status.map_or(reply, |status| reply.with_status(status)).classify(now)
}

/// Returns the case and its failure if one of its expectations does not hold.
fn wrong(case: &Value) -> Option<String> {
    let failure = classify(case);
    let wait = failure.wait().map(|wait| u64::try_from(wait.as_micros().div_ceil(1000)).unwrap());
    let same = failure.kind().as_str() == case["kind"]
        && failure.is_retryable() == case["retry"]
        && wait == case["wait"].as_u64()
        && (case["scope"].is_null()
            || failure.scope().map(|scope| scope.as_str()) == case["scope"].as_str())
        && (case["limit"].is_null() || failure.tokens().limit() == case["limit"].as_u64())
        && (case["prompt"].is_null() || failure.tokens().prompt() == case["prompt"].as_u64());
    (!same).then(|| format!("{}: {failure:?}\n", case["name"]))
}

fn all_hold(lines: &str) {
    let wrong: Vec<_> = cases(lines).filter_map(|case| wrong(&case)).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.concat());
}

#[test]
fn every_fixture_has_its_expected_kind() {
    all_hold(KINDS);
}

#[test]
fn the_rule_with_the_higher_rank_wins() {
    all_hold(CLASHES);
}

#[test]
fn waits_are_read() {
    all_hold(WAITS);
}

#[test]
fn meanings_count_in_any_order_and_any_shape() {
    all_hold(GRAMMAR);
}

#[test]
fn failures_of_many_providers_have_their_kinds() {
    all_hold(PROVIDERS);
}

const ALL_KINDS: [Kind; 17] = [
    Kind::RateLimit,
    Kind::QuotaExhausted,
    Kind::Overloaded,
    Kind::Server,
    Kind::Timeout,
    Kind::Network,
    Kind::Conflict,
    Kind::Auth,
    Kind::Permission,
    Kind::NotFound,
    Kind::InvalidRequest,
    Kind::ContextLength,
    Kind::TooLarge,
    Kind::ContentFilter,
    Kind::InvalidOutput,
    Kind::Cancelled,
    Kind::Unknown,
];

#[test]
fn every_kind_has_a_fixture() {
    for kind in ALL_KINDS {
        assert!(cases(KINDS).any(|case| case["kind"] == kind.as_str()), "{kind}");
    }
}

/// A failure without a provider is the text of a client library.
#[test]
fn the_fixtures_of_providers_are_many_and_have_sources() {
    let all: Vec<_> = cases(PROVIDERS).collect();
    assert!(all.len() >= 300, "{}", all.len());
    let distinct = |field: &str| -> HashSet<_> {
        all.iter().filter_map(|case| case[field].as_str()).collect()
    };
    assert!(distinct("provider").len() >= 40, "{:?}", distinct("provider"));
    assert_eq!(distinct("name").len(), all.len());
    assert_eq!(distinct("phase").len(), 3);
    assert!(all.iter().all(|case| case["source"].is_string()));
    // No provider cancels a call. A failure of unknown kind needs no fixture of a provider.
    let never = [Kind::Cancelled, Kind::Unknown];
    for kind in ALL_KINDS.into_iter().filter(|kind| !never.contains(kind)) {
        assert!(distinct("kind").contains(kind.as_str()), "{kind}");
    }
}

/// Each kind also has the health of the provider, for breakers and cooldowns.
#[test]
fn every_kind_has_the_health_of_the_provider() {
    for case in cases(KINDS) {
        let failure = classify(&case);
        let expected = match failure.kind() {
            Kind::RateLimit | Kind::Overloaded => Health::Throttling,
            Kind::Server | Kind::Timeout | Kind::Network => Health::Failing,
            Kind::Cancelled | Kind::Unknown => Health::Unknown,
            _ => Health::Healthy,
        };
        let verdict = failure.verdict();
        assert_eq!(
            (verdict.health(), verdict.is_again()),
            (expected, failure.is_retryable()),
            "{}",
            case["name"]
        );
        assert_eq!(verdict.hint(), failure.wait(), "{}", case["name"]);
        let is_own = failure.kind() == Kind::RateLimit;
        assert_eq!(verdict.is_own_limit(), is_own, "{}", case["name"]);
        assert_eq!(Classifier::new().verdict(&failure).health(), expected);
    }
}

/// 2025-10-09 08:53:20 UTC, the time of the answer by the server's clock.
const SERVED: u64 = 1_760_000_000;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Bodies that name the moment one minute after `SERVED`, in every form.
const BODIES_WITH_A_MOMENT: [&str; 9] = [
    r#"{"error":{"message":"no","resets_at":1760000060}}"#,
    r#"{"error":{"message":"no","resets_at":1760000060000}}"#,
    r#"{"error":{"message":"no","resets_at":"2025-10-09T08:54:20Z"}}"#,
    r#"{"error":{"message":"Try again at 2025-10-09T08:54:20Z."}}"#,
    r#"{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","metadata":{"quotaResetTimeStamp":"2025-10-09T08:54:20Z"}}]}}"#,
    r#"{"error":{"message":"no","metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1760000060000"}}}}"#,
    r#"{"error":{"message":"no","resets_at":"2025-10-09T08:54:20Z""#,
    "data: {\"error\":{\"message\":\"no\",\"resets_at\":1760000060}}\n\n",
    "Rate limited, try again at 2025-10-09T08:54:20Z",
];

/// Returns the waits of a 429 with this body and these headers, in seconds, as read by `classify`
/// and `find` at `now`.
fn waits(body: &str, headers: &[(&str, &str)], now: u64) -> [Option<u64>; 2] {
    let fields = headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
    let headers: HeaderMap = fields.collect();
    let reply = Reply::new(body.as_bytes()).with_status(429).with_headers(&headers);
    let failures = [reply.classify(at(now)), reply.find(at(now)).unwrap()];
    failures.map(|failure| failure.wait().map(|wait| wait.as_secs()))
}

#[test]
fn a_moment_is_measured_from_the_answers_own_date() {
    for body in BODIES_WITH_A_MOMENT {
        for now in [SERVED - 3_600, SERVED, SERVED + 3_600] {
            let dated = waits(body, &[("date", "Thu, 09 Oct 2025 08:53:20 GMT")], now);
            assert_eq!(dated, [Some(60); 2], "{body} at {now}");
        }
    }
    // Moments in the headers are measured in the same way.
    let reset = [
        ("date", "Thu, 09 Oct 2025 08:53:20 GMT"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "2025-10-09T08:54:20Z"),
    ];
    assert_eq!(waits("", &reset, SERVED + 3_600), [Some(60); 2]);
}

#[test]
fn without_a_readable_date_a_moment_is_measured_from_now() {
    for body in BODIES_WITH_A_MOMENT {
        for headers in [
            &[][..],
            &[("date", "yesterday")],
            &[("date", "")],
            &[("date", "Thu, 41 Oct 2025 08:53:20 GMT")],
        ] {
            assert_eq!(waits(body, headers, SERVED), [Some(60); 2], "{body} {headers:?}");
            assert_eq!(
                waits(body, headers, SERVED - 3_600),
                [Some(3_660); 2],
                "{body} {headers:?}"
            );
            assert_eq!(waits(body, headers, SERVED + 3_600), [None; 2], "{body} {headers:?}");
        }
    }
}

/// The date of a clock that is not set says nothing about the time of the answer.
#[test]
fn an_impossible_date_does_not_count() {
    for date in [
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Tue, 01 Jan 1980 00:00:00 GMT",
        "Wed, 01 Jan 3000 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ] {
        for body in BODIES_WITH_A_MOMENT {
            assert_eq!(
                waits(body, &[("date", date)], SERVED),
                [Some(60); 2],
                "{body}, dated {date}"
            );
        }
        let retry_after = [("date", date), ("retry-after", "Thu, 09 Oct 2025 08:54:20 GMT")];
        assert_eq!(waits("", &retry_after, SERVED), [Some(60); 2], "dated {date}");
    }
}

/// Headers passed on by a gateway have their own date, if they include one.
#[test]
fn headers_in_a_body_are_measured_from_their_own_date() {
    let body = r#"{"error":{"message":"no","metadata":{"headers":{"Date":"Thu, 09 Oct 2025 09:53:20 GMT","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1760003660"}}}}"#;
    assert_eq!(waits(body, &[("date", "Thu, 09 Oct 2025 08:53:20 GMT")], SERVED), [Some(60); 2]);
    assert_eq!(waits(body, &[], SERVED + 7_200), [Some(60); 2]);
}

/// These functions read the wall clock themselves. With a date in the answer the wait does not
/// depend on the wall clock.
#[tokio::test]
async fn an_answers_date_counts_for_parts_and_for_reqwest() {
    let answer = |body| {
        let answer =
            http::Response::builder().status(429).header("date", "Thu, 09 Oct 2025 08:53:20 GMT");
        answer.body(body).unwrap()
    };
    for body in BODIES_WITH_A_MOMENT {
        let (parts, body) = answer(body).into_parts();
        assert_eq!(
            Failure::from_parts(&parts, body).wait(),
            Some(Duration::from_secs(60)),
            "{body}"
        );
        let checked =
            llm::error_for_status(reqwest::Response::from(answer(body))).await.unwrap_err();
        assert_eq!(checked.wait(), Some(Duration::from_secs(60)), "{body}");
    }
}

/// The text of a transport error has no `Date`. A moment in it is measured from the wall clock, not
/// from 1970.
#[test]
fn a_moment_in_a_transport_error_is_measured_from_now() {
    let over = std::io::Error::other("rate limited, try again at 2024-01-01T00:00:00Z");
    assert_eq!(Failure::from_transport(&over).wait(), None);
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let failure = Failure::from_transport(&std::io::Error::other(format!(
        "rate limited, try again at {soon}"
    )));
    let wait = failure.wait().unwrap();
    assert!(wait <= Duration::from_secs(3_600) && wait > Duration::from_secs(3_000), "{wait:?}");
}

#[derive(Debug, thiserror::Error)]
enum MyError {
    #[error("the model failed")]
    Llm(#[from] Failure),
    #[error("too slow")]
    Slow(#[from] Elapsed),
    #[error("mine")]
    Mine,
}

fn limited() -> Failure {
    Failure::from_text(
        429,
        r#"{"error":{"code":"rate_limit_exceeded","message":"Please try again in 644ms."}}"#,
    )
}

#[test]
fn the_classifier_finds_the_failure_inside_an_error() {
    let classifier = Classifier::new();
    let wait = Duration::from_millis(644);
    assert_eq!(classifier.classify(&limited()), Some(Verdict::throttled().after(wait)));
    assert_eq!(
        classifier.classify(&MyError::from(limited())),
        Some(Verdict::throttled().after(wait))
    );
    assert_eq!(classifier.classify(&MyError::Mine), None);
    let refused = MyError::from(Failure::from_text(401, ""));
    let verdict = classifier.classify(&refused).unwrap();
    assert_eq!((verdict.is_again(), verdict.hint()), (false, None));
    let anyhow = anyhow::Error::new(limited()).context("while asking");
    assert_eq!(classifier.classify_dyn(anyhow.as_ref()), Some(Verdict::throttled().after(wait)));
    let union = resile::Error::Operation(limited());
    assert_eq!(classifier.classify(&union), Some(Verdict::throttled().after(wait)));
    assert_eq!(
        ClassifyOperation(classifier).classify(&union),
        Some(Verdict::throttled().after(wait))
    );
    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    assert_eq!(classifier.classify(&reset), Some(Verdict::transient()));
}

#[tokio::test(start_paused = true)]
async fn failure_is_enough_as_the_error_type_of_an_operation() {
    let began = tokio::time::Instant::now();
    let slow = |attempt: Attempt| async move {
        if attempt.is_first() {
            std::future::pending::<()>().await;
        }
        if attempt.number() == 2 { Err(limited()) } else { Ok(attempt.number()) }
    };
    let policy = llm::interactive();
    let done = retry(|attempt| slow(attempt).timeout(Duration::from_secs(9)), &policy, Never).await;
    assert_eq!(done.unwrap(), 3);
    assert!(began.elapsed() >= Duration::from_millis(9_644));
    // The attempt timeout of the policy gives the same times, and does not change the error.
    let began = tokio::time::Instant::now();
    let policy = policy.with_attempt_timeout(Duration::from_secs(9));
    assert_eq!(retry(slow, &policy, Never).await.unwrap(), 3);
    assert!(began.elapsed() >= Duration::from_millis(9_644));
    let hangs = |_| std::future::pending::<Result<(), Failure>>();
    let gave_up = retry(hangs, policy.with_attempts(1), Never).await.unwrap_err();
    assert_eq!(gave_up.cut(), Some(Cut::AttemptTimeout(Duration::from_secs(9))));
}

#[tokio::test(start_paused = true)]
async fn a_failure_inside_an_own_error_type_is_classified() {
    let policy = RetryPolicy::new().with_classifier(Classifier::new());
    let op = |_| async { Err::<(), _>(MyError::from(Failure::from_text(402, ""))) };
    let gave_up = retry(|attempt| op(attempt).timeout(Duration::from_secs(9)), &policy, Never)
        .await
        .unwrap_err();
    assert_eq!((gave_up.reason(), gave_up.attempts()), (StopReason::Fatal, 1));
}

#[test]
fn overload_waits_longer_than_a_server_error() {
    use rand::{RngExt, SeedableRng};
    let (overloaded, broken) = (Failure::from_text(529, ""), Failure::from_text(500, ""));
    let delays = |failure: &Failure| {
        let policy = llm::interactive();
        let verdict = policy.classifier().classify(failure).unwrap();
        (0..200_u64)
            .map(|seed| {
                let mut rng = rand::rngs::ChaCha8Rng::seed_from_u64(seed);
                match policy.decide(Attempt::new(1), Some(verdict), |range| rng.random_range(range))
                {
                    Decision::Retry(delay) => delay,
                    other => panic!("{other:?}"),
                }
            })
            .collect::<Vec<_>>()
    };
    assert!(delays(&overloaded).iter().min() > delays(&broken).iter().max());
    let hinted = Failure::from_text(529, r#"{"error":{"message":"try again in 1s"}}"#);
    assert_eq!(Classifier::new().verdict(&hinted).hint(), Some(Duration::from_secs(1)));
    assert_eq!(
        Classifier::new().without_overload_floor().verdict(&overloaded),
        Verdict::overloaded().unsure() // only the status is known
    );
}

#[test]
fn a_hint_above_the_cap_ends_the_call_at_once() {
    let policy = llm::interactive();
    let stop = |body| {
        let far = Failure::from_text(429, body);
        let verdict = policy.classifier().classify(&far).unwrap();
        policy.decide(Attempt::new(1), Some(verdict), |range| *range.start())
    };
    let minutes = stop(r#"{"error":{"message":"try again in 50m"}}"#);
    assert_eq!(minutes, Decision::Stop(StopReason::HintTooLong));
    // A limit that is reset after hours is a quota.
    let hours = stop(r#"{"error":{"message":"try again in 9h"}}"#);
    assert_eq!(hours, Decision::Stop(StopReason::Fatal));
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

#[test]
fn failures_print_whole_sentences() {
    let failure = limited().with_provider("openai");
    assert_eq!(
        failure.to_string(),
        "rate limited by the provider, try again in 644 ms (openai: rate_limit_exceeded)"
    );
    let long = Failure::from_text(400, "prompt is too long: 210000 tokens > 200000 maximum");
    assert_eq!(
        long.to_string(),
        "the prompt is too long for the model, shorten it: 210000 tokens, limit 200000 (status 400)"
    );
    assert_eq!(long.tokens().excess(), Some(10_000));
    assert_eq!(long.recovery(), Recovery::Shrink);
    let lines = Failure::from_text(400, "{\"error\":\"one\\n two\\u0007\"}");
    assert_eq!(lines.to_string(), "the request is invalid, correct it: one two (status 400)");
    assert_eq!(Failure::cancelled().to_string(), "the call was cancelled");
}

#[test]
fn a_failure_keeps_the_words_of_the_provider() {
    let body = r#"{"error":{"message":"No.","type":"Some_Type","code":"Some-Code"}}"#;
    let failure = Failure::from_text(418, body);
    let facts = (failure.status(), failure.code(), failure.error_type(), failure.message());
    assert_eq!(facts, (Some(418), Some("Some-Code"), Some("Some_Type"), Some("No.")));
}

#[test]
fn transport_errors_are_classified_by_type_and_keep_their_source() {
    use std::error::Error;
    use std::io;
    for (kind, want) in [
        (io::ErrorKind::ConnectionReset, Kind::Network),
        (io::ErrorKind::UnexpectedEof, Kind::Network),
        (io::ErrorKind::TimedOut, Kind::Timeout),
    ] {
        let failure = Failure::from(io::Error::from(kind));
        assert_eq!((failure.kind(), failure.is_retryable()), (want, true));
        assert!(failure.source().is_some_and(<dyn Error>::is::<io::Error>));
    }
    let outer = io::Error::other(io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!(Failure::from(outer).kind(), Kind::Network);
}

#[test]
fn cut_lines_are_no_good_answer() {
    let cut = "{\"response\":\"a\"}\n{\"response\":\"b\"}\n{\"error\":\"model run";
    assert!(Reply::new(cut.as_bytes()).with_status(200).find(SystemTime::now()).is_some());
    let whole = "{\"response\":\"a\"}\n{\"response\":\"b\"}\n{\"done\":true}";
    assert!(Reply::new(whole.as_bytes()).with_status(200).find(SystemTime::now()).is_none());
}

#[test]
fn a_verdict_by_the_status_alone_is_unsure() {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_static("2"));
    let asked = Reply::new(b"").with_status(503).with_headers(&headers);
    assert!(!asked.classify(SystemTime::now()).verdict().is_unsure(), "the provider gave a wait");
    for (status, body, unsure) in [
        (429, "no", true),
        (500, "", true),
        (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, false),
        (503, "the model is overloaded", false),
    ] {
        let failure = Failure::from_text(status, body);
        assert_eq!(failure.verdict().is_unsure(), unsure, "{failure:?}");
        assert_eq!(Classifier::new().verdict(&failure).is_unsure(), unsure, "{failure:?}");
    }
}

#[test]
fn successful_events_are_no_failures() {
    let content = r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"rate limit"},"finish_reason":null}]}"#;
    let usage =
        r#"{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"total_tokens":5}}"#;
    let created =
        r#"{"type":"response.created","response":{"id":"r","status":"in_progress","error":null}}"#;
    let done = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    // Earlier events had the output.
    let completed = r#"{"type":"response.completed","response":{"object":"response","status":"completed","output":[],"usage":{"output_tokens":31}}}"#;
    for event in [content, usage, created, done, completed, "[DONE]", ""] {
        assert!(Failure::find_in_event(event, Phase::Content).is_none(), "{event}");
    }
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let found = Failure::find_in_event(overloaded, Phase::Content).unwrap();
    assert_eq!((found.kind(), found.phase()), (Kind::Overloaded, Phase::Content));
    assert_eq!(found.verdict().health(), Health::Throttling);
    for answer in [
        r#"{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}"#,
        r#"{"id":"r","message":"the daily limit is reached"}"#,
    ] {
        let reply = Reply::new(answer.as_bytes()).with_status(200);
        assert!(reply.find(SystemTime::now()).is_none(), "{answer}");
    }
}

#[test]
fn a_truncated_stream_and_invalid_output_have_their_kinds() {
    assert_eq!(Failure::truncated(Phase::Preamble).kind(), Kind::Network);
    assert!(!Failure::cancelled().is_retryable());
    assert_eq!(Failure::invalid_output("no JSON").recovery(), Recovery::ReAsk);
}

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

#[tokio::test]
async fn reqwest_answers_are_checked() {
    let answer = |status: u16, body: &'static str| {
        reqwest::Response::from(
            http::Response::builder().status(status).header("retry-after", "7").body(body).unwrap(),
        )
    };
    assert_eq!(
        llm::error_for_status(answer(200, "fine")).await.unwrap().text().await.unwrap(),
        "fine"
    );
    let failure = llm::error_for_status(answer(429, r#"{"error":{"code":"rate_limit_exceeded"}}"#))
        .await
        .unwrap_err();
    assert_eq!((failure.kind(), failure.wait()), (Kind::RateLimit, Some(Duration::from_secs(7))));
    assert_eq!(failure.code(), Some("rate_limit_exceeded"));
}

#[test]
fn reqwest_errors_are_classified_by_their_own_kind() {
    use std::error::Error;
    let error = reqwest::Client::new().get("no address").build().unwrap_err();
    let failure = Failure::from(error);
    assert_eq!((failure.kind(), failure.is_retryable()), (Kind::InvalidRequest, false));
    assert!(failure.source().is_some_and(<dyn Error>::is::<reqwest::Error>));
    let error = reqwest::Client::new().get("no address").build().unwrap_err();
    assert!(!Classifier::new().classify(&error).unwrap().is_again());
}
