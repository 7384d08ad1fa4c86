//! A failure of an LLM call: its text, its parts, the verdict on it, and calls that fail with it.

use std::time::{Duration, SystemTime};

use resile::classify::Cut;
use resile::policy::Decision;
use resile::timeout::{ClassifyOperation, Elapsed};
use resile::{
    Attempt, Classify, Health, Never, ResilienceExt, RetryPolicy, StopReason, Verdict, retry,
};
use resile_llm::{self as llm, Classifier, Failure, Kind, Phase, Recovery, Reply};
use serde_json::json;

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
    let union = resile::timeout::Error::Operation(limited());
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
        Verdict::overloaded()
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

#[test]
fn failures_print_whole_sentences() {
    let failure = limited().with_provider("openai");
    assert_eq!(
        failure.to_string(),
        "rate limited by the provider, try again in 644.0ms (openai: rate_limit_exceeded)"
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

/// The line says which limit it was, and has its numbers in the words of the provider. The words about the
/// wait are left out because the line has the wait.
#[test]
fn a_rate_limit_says_over_what_it_counts() {
    for (message, shown) in [
        (
            "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, \
             Used 29500, Requested 1010. Please try again in 1.02s. Visit https://platform.example to \
             learn more.",
            ", try again in 1.0s: Rate limit reached for gpt-4o in organization org-x on \
              tokens per min (TPM): Limit 30000, Used 29500, Requested 1010",
        ),
        (
            "Rate limit reached: 5 requests per second",
            ": Rate limit reached: 5 requests per second",
        ),
        (
            "Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1. \
             Please try again in 7m12s.",
            " (per day), try again in 432.0s: Rate limit reached on requests per day (RPD): Limit \
             200, Used 200, Requested 1",
        ),
        (
            "Too many concurrent requests",
            " (requests at the same time): Too many concurrent requests",
        ),
        ("Slow down", ": Slow down"),
        ("Please try again later.", ""),
        ("", ""),
    ] {
        let error = json!({ "code": "rate_limit_exceeded", "message": message });
        let failure = Failure::from_text(429, &json!({ "error": error }).to_string());
        let words = format!("rate limited by the provider{shown} (rate_limit_exceeded)");
        assert_eq!(failure.to_string(), words);
    }
    // Without words of the provider the line says it.
    let bare = r#"{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure",
        "violations":[{"quotaId":"RequestsPerMinute"}]}]}}"#;
    let bare = Failure::from_text(429, bare).to_string();
    assert_eq!(bare, "rate limited by the provider (per minute or second) (status 429)");
    let long = format!("Rate limit reached: {}", "9".repeat(200));
    let shown = Failure::from_text(429, &long).to_string();
    assert_eq!(shown.chars().filter(|c| *c == '9').count(), 143 + 1, "{shown}");
    assert!(shown.ends_with("9… (status 429)"), "{shown}");
}

/// The provider knows more than that it is overloaded: for which model, in which region, until when.
#[test]
fn an_overload_and_a_long_prompt_have_the_words_of_the_provider() {
    let shown = |status, message: &str| {
        let error = json!({ "type": "server_error", "message": message });
        Failure::from_text(status, &json!({ "error": error }).to_string()).to_string()
    };
    for (message, words) in [
        (
            "The model gpt-4o in region westeurope is at capacity until 14:00 UTC",
            ": The model gpt-4o in region westeurope is at capacity until 14:00 UTC",
        ),
        (
            "The engine is currently overloaded, please try again later. (request id 42)",
            ": The engine is currently overloaded, please try again later. (request id 42)",
        ),
        // The line has the wait already, and it has these words.
        (
            "The engine is overloaded, try again in 5s",
            ", try again in 5.0s: The engine is overloaded",
        ),
        ("Overloaded, try again in 5s", ", try again in 5.0s"),
        ("Overloaded.", ""),
        ("overloaded_error", ""),
        ("", ""),
    ] {
        let words = format!("the provider is overloaded{words} (server_error)");
        assert_eq!(shown(503, message), words);
    }
    let long = shown(503, &format!("The model is overloaded: {}", "9".repeat(300)));
    assert_eq!(long.chars().filter(|c| *c == '9').count(), 240 - 21, "{long}");
    assert!(long.ends_with("9… (server_error)"), "{long}");
    // A prompt that is too long without numbers.
    let words = "Your input exceeds the context window of this model";
    assert_eq!(
        shown(400, words),
        format!("the prompt is too long for the model, shorten it: {words} (server_error)")
    );
}

#[test]
fn a_failure_keeps_the_words_of_the_provider() {
    let body = r#"{"error":{"message":"No.","type":"Some_Type","code":"Some-Code"}}"#;
    let failure = Failure::from_text(418, body);
    let facts = (failure.status(), failure.code(), failure.error_type(), failure.message());
    assert_eq!(facts, (Some(418), Some("Some-Code"), Some("Some_Type"), Some("No.")));
}

/// The table spells codes in another way than providers do.
#[test]
fn a_failure_shows_its_rule_with_the_code_as_it_was_sent() {
    for (body, rule) in [
        (r#"{"error":{"code":"insufficient_quota"}}"#, "rule: code: insufficient_quota,"),
        (
            r#"{"error":{"type":"invalid_request_error","code":"insufficient_quota"}}"#,
            "rule: code: insufficient_quota,",
        ),
        (
            r#"{"__type":"com.amazon#ThrottlingException"}"#,
            "rule: code: com.amazon#ThrottlingException,",
        ),
        (r#"{"error":{"message":"no"}}"#, "rule: status: 429,"),
    ] {
        let failure = Failure::from_text(429, body);
        let shown = format!("{failure:?}");
        assert!(shown.contains(rule), "{shown}");
    }
}

#[test]
fn cut_lines_are_no_good_answer() {
    let cut = "{\"response\":\"a\"}\n{\"response\":\"b\"}\n{\"error\":\"model run";
    assert!(Reply::new(cut.as_bytes()).with_status(200).find(SystemTime::now()).is_some());
    let whole = "{\"response\":\"a\"}\n{\"response\":\"b\"}\n{\"done\":true}";
    assert!(Reply::new(whole.as_bytes()).with_status(200).find(SystemTime::now()).is_none());
}

#[test]
fn a_failure_tells_whether_the_status_alone_decided() {
    for (status, body, alone) in [
        (429, "no", true),
        (500, "", true),
        (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, false),
        (503, "the model is overloaded", false),
    ] {
        let failure = Failure::from_text(status, body);
        assert_eq!(failure.is_by_status_alone(), alone, "{failure:?}");
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

/// A bad ending says what ended the answer and what to do.
#[test]
fn a_bad_ending_names_itself_and_its_remedy() {
    let limit = "the token limit cut off the answer, correct the request: raise the limit";
    let filter = "the provider's content filter stopped the answer, rephrase the request";
    for (reason, words, recovery) in [
        ("length", limit, Recovery::FixRequest),
        ("max_tokens", limit, Recovery::FixRequest),
        ("max_output_tokens", limit, Recovery::FixRequest),
        ("content_filter", filter, Recovery::Rephrase),
        ("safety", filter, Recovery::Rephrase),
        (
            "refusal",
            "the provider's content filter refused the content, rephrase it",
            Recovery::Rephrase,
        ),
        (
            "malformed_function_call",
            "the model's answer cannot be used, ask again",
            Recovery::ReAsk,
        ),
    ] {
        let body = format!(r#"{{"choices":[{{"finish_reason":"{reason}"}}]}}"#);
        let whole = Reply::new(body.as_bytes()).with_status(200).find(SystemTime::now()).unwrap();
        let event = Failure::find_in_event(&body, Phase::Content).unwrap();
        for failure in [whole, event] {
            assert_eq!(failure.to_string(), format!("{words} ({reason})"));
            assert_eq!(failure.recovery(), recovery, "{reason}");
            // The advice is the same action.
            let is_request = recovery == Recovery::FixRequest;
            assert_eq!(failure.to_string().contains(Recovery::FixRequest.advice()), is_request);
        }
    }
}

#[test]
fn a_truncated_stream_and_invalid_output_have_their_kinds() {
    let truncated = Failure::truncated(Phase::Preamble);
    assert_eq!(truncated.kind(), Kind::Network);
    assert_eq!(
        truncated.to_string(),
        "the answer of the provider is truncated: the stream ended before its last event"
    );
    assert!(!Failure::cancelled().is_retryable());
    assert_eq!(Failure::invalid_output("no JSON").recovery(), Recovery::ReAsk);
}
