//! `resile_llm::usage`: the LLM tokens that answers report. The fixtures are written in the
//! formats of the providers.

use proptest::prelude::*;
use resile::quota::Usage;
use resile_llm::{self as llm, Kind, Reply, record_usage};

/// The input, the cache reads, the cache writes and the output.
type Numbers = (Option<u64>, u64, u64, Option<u64>);

fn read(body: &str) -> Option<Numbers> {
    let usage = llm::usage(body.as_bytes())?;
    Some((usage.input(), usage.cache_reads(), usage.cache_writes(), usage.output()))
}

/// Answers of each format with their numbers.
const ANSWERS: &[(&str, &str, Numbers)] = &[
    (
        "chat completions",
        r#"{"object":"chat.completion","choices":[{"message":{"content":"usage"}}],"usage":{"prompt_tokens":1200,"completion_tokens":350,"total_tokens":1550,"prompt_tokens_details":{"cached_tokens":1000,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":300}}}"#,
        (Some(200), 1_000, 0, Some(350)),
    ),
    (
        "last chunk of chat completions",
        r#"{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16,"prompt_tokens_details":null}}"#,
        (Some(7), 0, 0, Some(9)),
    ),
    (
        "embeddings",
        r#"{"object":"list","data":[],"usage":{"prompt_tokens":8,"total_tokens":8}}"#,
        (Some(8), 0, 0, None),
    ),
    (
        "reasoning beside the output",
        r#"{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}}"#,
        (Some(32), 0, 0, Some(103)),
    ),
    (
        "deepseek",
        r#"{"usage":{"prompt_tokens":100,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36,"completion_tokens":5}}"#,
        (Some(36), 64, 0, Some(5)),
    ),
    (
        "a gateway with zeros of a second format",
        r#"{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"input_tokens":0,"output_tokens":0,"input_tokens_details":null}}"#,
        (Some(10), 0, 0, Some(5)),
    ),
    (
        "groq's last chunk",
        r#"{"choices":[],"usage":null,"x_groq":{"id":"r","usage":{"prompt_tokens":4,"completion_tokens":6,"queue_time":0.01}}}"#,
        (Some(4), 0, 0, Some(6)),
    ),
    (
        "responses",
        r#"{"object":"response","usage":{"input_tokens":75,"input_tokens_details":{"cached_tokens":70},"output_tokens":11,"output_tokens_details":{"reasoning_tokens":8}}}"#,
        (Some(5), 70, 0, Some(11)),
    ),
    (
        "response.completed",
        r#"{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":75,"input_tokens_details":{"cached_tokens":0},"output_tokens":11}}}"#,
        (Some(75), 0, 0, Some(11)),
    ),
    (
        "messages",
        r#"{"type":"message","content":[],"usage":{"input_tokens":30,"cache_creation_input_tokens":400,"cache_read_input_tokens":5000,"output_tokens":60}}"#,
        (Some(30), 5_000, 400, Some(60)),
    ),
    (
        "message_start",
        r#"{"type":"message_start","message":{"usage":{"input_tokens":30,"cache_read_input_tokens":null,"output_tokens":1}}}"#,
        (Some(30), 0, 0, Some(1)),
    ),
    (
        "message_delta",
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":null,"output_tokens":60}}"#,
        (None, 0, 0, Some(60)),
    ),
    (
        "gemini",
        r#"{"candidates":[],"usageMetadata":{"promptTokenCount":500,"cachedContentTokenCount":480,"candidatesTokenCount":20,"thoughtsTokenCount":100,"totalTokenCount":620}}"#,
        (Some(20), 480, 0, Some(120)),
    ),
    (
        "gemini without an array of events",
        r#"[{"usageMetadata":{"promptTokenCount":5}},{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":7}}]"#,
        (Some(5), 0, 0, Some(7)),
    ),
    (
        "gemini inside an envelope",
        r#"{"response":{"usageMetadata":{"promptTokenCount":5,"thoughtsTokenCount":2}}}"#,
        (Some(5), 0, 0, Some(2)),
    ),
    (
        "converse",
        r#"{"output":{},"usage":{"inputTokens":30,"outputTokens":628,"totalTokens":658,"cacheReadInputTokens":9,"cacheWriteInputTokens":8}}"#,
        (Some(30), 9, 8, Some(628)),
    ),
    (
        "converse stream",
        r#"{"metadata":{"usage":{"inputTokens":47,"outputTokens":20},"metrics":{"latencyMs":100}}}"#,
        (Some(47), 0, 0, Some(20)),
    ),
    (
        "invocation metrics",
        r#"{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":12,"outputTokenCount":34,"invocationLatency":900,"cacheReadInputTokenCount":5}}"#,
        (Some(12), 5, 0, Some(34)),
    ),
    (
        "cohere",
        r#"{"usage":{"billed_units":{"input_tokens":5,"output_tokens":418},"tokens":{"input_tokens":71,"output_tokens":418}}}"#,
        (Some(71), 0, 0, Some(418)),
    ),
    (
        "cohere's message-end",
        r#"{"type":"message-end","delta":{"usage":{"tokens":{"input_tokens":71,"output_tokens":4}}}}"#,
        (Some(71), 0, 0, Some(4)),
    ),
    (
        "cohere's first version",
        r#"{"text":"hi","meta":{"billed_units":{"input_tokens":5,"output_tokens":4}}}"#,
        (Some(5), 0, 0, Some(4)),
    ),
    (
        "ollama",
        r#"{"model":"m","done":true,"prompt_eval_count":26,"eval_count":298,"eval_duration":1}"#,
        (Some(26), 0, 0, Some(298)),
    ),
];

#[test]
fn every_format_is_read() {
    for (name, body, expected) in ANSWERS.iter().copied() {
        assert_eq!(read(body), Some(expected), "{name}");
        assert_eq!(read(&format!("\u{feff}\n {body}\n")), Some(expected), "{name}, with blanks");
        let event = format!("event: x\r\ndata: {body}\r\n\r\n");
        assert_eq!(read(&event), Some(expected), "{name}, as an event");
    }
}

#[test]
fn the_events_of_a_stream_add_up() {
    let events = [
        r#"{"type":"message_start","message":{"usage":{"input_tokens":30,"cache_read_input_tokens":9,"output_tokens":1}}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"usage"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":60}}"#,
    ];
    let expected = Some((Some(30), 9, 0, Some(60)));
    let framed = events.map(|event| format!("event: e\ndata: {event}\n\n")).concat();
    assert_eq!(read(&framed), expected);
    let lines = events.map(|event| format!("data: {event}\n")).concat();
    assert_eq!(read(&lines), expected);
    // Ollama's streams are lines of JSON.
    assert_eq!(read(&events.join("\n")), expected);
    let merged = events.iter().filter_map(|event| llm::usage(event.as_bytes()));
    assert_eq!(merged.reduce(Usage::merged), llm::usage(framed.as_bytes()));
    assert_eq!(read(&format!("{framed}data: [DONE]\n\n")), expected);
}

#[test]
fn other_bodies_have_no_usage() {
    for body in [
        "",
        "usage",
        "[DONE]",
        "data: [DONE]\n\n",
        "null",
        "\"usage\"",
        r#"{"usage":null}"#,
        r#"{"usage":{}}"#,
        r#"{"usage":7}"#,
        r#"{"usage":{"prompt_tokens":-1,"completion_tokens":1.5}}"#,
        r#"{"usage":{"prompt_tokens":"7","completion_tokens":null}}"#,
        r#"{"usage":{"prompt_tokens":1e300}}"#,
        r#"{"usage":{"prompt_tokens_details":{"cached_tokens":7}}}"#,
        r#"{"choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":7}}"}}]}"#,
        r#"{"error":{"message":"usage limit","type":"rate_limit_error"}}"#,
        r#"{"usage":{"prompt_tokens":7"#,
    ] {
        assert_eq!(read(body), None, "{body}");
        assert!(!record_usage(body.as_bytes()), "{body}");
    }
    // A missing half does not hide the other one.
    let half = r#"{"usage":{"prompt_tokens":-1,"completion_tokens":4}}"#;
    assert_eq!(read(half), Some((None, 0, 0, Some(4))));
}

#[test]
fn extreme_numbers_saturate() {
    let most = u64::from(u32::MAX);
    let vast = r#"{"usageMetadata":{"promptTokenCount":18446744073709551615,"candidatesTokenCount":18446744073709551615,"thoughtsTokenCount":2}}"#;
    assert_eq!(read(vast), Some((Some(most), 0, 0, Some(most))));
    let cached = r#"{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9}}}"#;
    assert_eq!(read(cached), Some((Some(0), 9, 0, None)));
}

fn long(usage: &str) -> String {
    format!(
        r#"{{"type":"message","content":"{}\"usage\":{{\"input_tokens\":1}}",{usage}}}"#,
        "x".repeat(300 * 1024)
    )
}

#[test]
fn the_usage_at_the_end_of_a_long_answer_is_read() {
    let numbers = r#""usage" :0,"usage": {"input_tokens":30,"output_tokens":60}"#;
    assert_eq!(read(&long(numbers)), Some((Some(30), 0, 0, Some(60))));
    let gemini = "\"usageMetadata\":\n {\"promptTokenCount\":5},\"modelVersion\":\"m\"";
    assert_eq!(read(&long(gemini)), Some((Some(5), 0, 0, None)));
    assert_eq!(read(&long(r#""usage":"#)), None);
    assert_eq!(read(&long(r#""id":"x""#)), None);
}

#[test]
fn a_long_answer_is_no_failure() {
    let body = long(r#""usage":{"input_tokens":30}"#);
    let now = std::time::SystemTime::UNIX_EPOCH;
    assert!(Reply::new(body.as_bytes()).with_status(200).find(now).is_none());
    assert!(Reply::new(body.as_bytes()).with_status(500).find(now).is_some());
}

#[tokio::test]
async fn a_whole_answer_is_read_and_checked() {
    let answer = |status: u16, body: &'static str| {
        let answer = http::Response::builder().status(status);
        reqwest::Response::from(answer.header("x-ratelimit-remaining", "7").body(body).unwrap())
    };
    let good = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#;
    assert_eq!(llm::read_answer(answer(200, good)).await.unwrap(), good.as_bytes());
    let cases = [
        (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, Kind::RateLimit),
        (200, r#"{"error":{"message":"Overloaded","code":529}}"#, Kind::Overloaded),
        (200, r#"{"choices":[{"finish_reason":"content_filter"}]}"#, Kind::ContentFilter),
        (
            200,
            r#"{"choices":[{"message":{"content":"h"},"finish_reason":"length"}]}"#,
            Kind::InvalidOutput,
        ),
        (200, "", Kind::InvalidOutput),
    ];
    for (status, body, kind) in cases {
        let failure = llm::read_answer(answer(status, body)).await.unwrap_err();
        assert_eq!(failure.kind(), kind, "{body}");
    }
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"usage\":",
        "\"usageMetadata\":",
        "\"message\":",
        "\"prompt_tokens\":",
        "\"input_tokens\":",
        "\"output_tokens\":",
        "\"eval_count\":",
        "7",
        "-1",
        "1e999",
        "18446744073709551616",
        "null",
        "\"",
        "data: ",
        "\n",
        "\n\n",
        "…",
    ]);
    let soup = prop::collection::vec(words, 0..32).prop_map(|words| words.concat().into_bytes());
    prop_oneof![soup, prop::collection::vec(any::<u8>(), 0..256)]
}

proptest! {
    /// Any bytes are read without a panic, and a usage is never empty.
    #[test]
    fn any_body_is_read(body in bodies()) {
        prop_assert!(llm::usage(&body).is_none_or(|usage| !usage.is_empty()));
        prop_assert!(!record_usage(&body));
    }
}
