//! Streams of LLM answers: their events, their last event, and lines of JSON.

use std::time::SystemTime;

use resile_llm::{Failure, Kind, Phase, Reply, Rule};

/// An event with content.
const CONTENT: &str = r#"{"id":"x","choices":[{"delta":{"content":"hi"}}]}"#;

/// The event of a usage, which may come behind the last event.
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":7}}"#;

fn framed(events: &[&str]) -> String {
    events.iter().flat_map(|data| ["data: ", data, "\n\n"]).collect()
}

fn found(body: &str) -> Option<Kind> {
    let reply = Reply::new(body.as_bytes()).with_status(200);
    reply.find(SystemTime::UNIX_EPOCH).map(|failure| failure.kind())
}

fn is_truncated(body: &str) -> bool {
    let [before, after] = [Phase::Preamble, Phase::Content].map(|phase| {
        let reply = Reply::new(body.as_bytes()).with_status(200).with_phase(phase);
        reply.classify(SystemTime::UNIX_EPOCH).rule() == Rule::Truncated
    });
    assert_eq!(before, after, "{body}");
    after
}

#[test]
fn a_stream_with_its_last_event_is_not_truncated() {
    assert!(is_truncated(CONTENT));
    assert!(is_truncated(&framed(&[CONTENT])));
    assert!(is_truncated(&framed(&[r#"{"type":"message_start"}"#, r#"{"done":false}"#, USAGE])));
    for last in [
        r#"{"type":"message_stop"}"#,
        r#"{"type":"response.completed"}"#,
        r#"{"type":"message-end"}"#,
        r#"{"type":"stream-end"}"#,
        r#"{"done":true}"#,
        r#"{"choices":[{"finish_reason":"stop"}]}"#,
        r#"{"candidates":[{"finishReason":"STOP"}]}"#,
        r#"{"delta":{"stop_reason":"end_turn"}}"#,
    ] {
        assert!(!is_truncated(last), "{last}");
        for events in [&[last][..], &[CONTENT, last], &[last, USAGE], &[CONTENT, last, USAGE]] {
            assert!(!is_truncated(&framed(events)), "{events:?}");
        }
    }
    assert!(!is_truncated(&framed(&[CONTENT, "[DONE]"])));
}

/// Some formats have an object `message` for the answer itself, and bare errors have a text there.
#[test]
fn an_event_with_the_message_of_the_model_is_no_error() {
    for event in [
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],
            "model":"claude","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#,
        r#"{"type":"message_start","message":{"usage":{"input_tokens":9}}}"#,
        r#"{"model":"llama","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant","content":"hi"},"done":false}"#,
        r#"{"model":"llama","message":{"role":"assistant","content":"hi"},"done_reason":"stop","done":true}"#,
    ] {
        assert_eq!(Failure::find_in_event(event, Phase::Preamble), None, "{event}");
        assert_eq!(found(event), None, "{event}");
    }
    for (error, kind) in [
        (r#"{"message":"Slow down"}"#, Kind::RateLimit),
        (r#"{"message":{"error":{"code":"insufficient_quota"}}}"#, Kind::QuotaExhausted),
    ] {
        assert_eq!(found(error), Some(kind), "{error}");
    }
}

#[test]
fn an_event_of_words_is_an_error() {
    assert_eq!(found("event: error\ndata: insufficient_quota\n\n"), Some(Kind::QuotaExhausted));
    for silent in ["data:\n\n", "data: \n\n", ": ping\n\n", "event: ping\n\n", "data: [DONE]\n\n"] {
        assert_eq!(found(&format!("{silent}{}", framed(&[CONTENT]))), None, "{silent}");
        assert_eq!(found(&format!("{}{silent}", framed(&[CONTENT]))), None, "{silent}");
    }
}

#[test]
fn a_truncated_event_is_an_error_if_it_says_so() {
    for data in [
        r#"{"error":{"message":"no","type":"insufficient_quota"#,
        r#"{"error":{"type":"insufficient_quota","message":"n"#,
        r#"{"type":"error","error":{"type":"insufficient_quota","message":"n"#,
        r#"{"type":"error","code":"insufficient_quota","message":"n"#,
        r#"{"is_error":true,"code":"insufficient_quota","message":"n"#,
    ] {
        assert_eq!(found(&framed(&[CONTENT, data])), Some(Kind::QuotaExhausted), "{data}");
        assert_eq!(found(&framed(&[data])), Some(Kind::QuotaExhausted), "{data}");
    }
    for data in [
        r#"{"type":"content_block_delta","delta":{"text":"h"#,
        r#"{"choices":[{"delta":{"content":"hi"#,
        r#"{"message":"h"#,
        "[1,",
    ] {
        assert_eq!(found(&framed(&[CONTENT, data])), None, "{data}");
    }
}

#[test]
fn lines_of_json_are_read_up_to_an_error() {
    let error = r#"{"error":{"type":"insufficient_quota"}}"#;
    for count in 2..5 {
        assert_eq!(found(&vec![CONTENT; count].join("\n")), None, "{count}");
        for place in 0..count {
            let mut lines = vec![CONTENT; count];
            lines[place] = error;
            assert_eq!(found(&lines.join("\n")), Some(Kind::QuotaExhausted), "{place} of {count}");
        }
    }
}

/// The first event of Azure has the verdict of its filter on the prompt, and no choice.
#[test]
fn the_verdict_of_a_filter_on_the_prompt_is_no_failure() {
    let first = r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"},"jailbreak":{"filtered":false,"detected":false}}}]}"#;
    let last = r#"{"choices":[{"finish_reason":"stop"}]}"#;
    assert_eq!(found(&framed(&[first, CONTENT, last])), None);
    for phase in [Phase::Preamble, Phase::Content] {
        // Some gateways send an event without a choice to keep the connection.
        for event in [first, r#"{"choices":[]}"#, r#"{"candidates":[]}"#] {
            assert_eq!(Failure::find_in_event(event, phase), None, "{event}");
        }
    }
}

#[test]
fn an_answer_without_items_is_empty_and_an_event_is_not() {
    for (body, want) in [
        (r#"{"choices":[]}"#, Some(Kind::InvalidOutput)),
        (r#"{"candidates":[]}"#, Some(Kind::InvalidOutput)),
        (r#"{"object":"chat.completion","choices":[]}"#, Some(Kind::InvalidOutput)),
        (r#"{"object":"chat.completion.chunk","choices":[]}"#, None),
        (USAGE, None),
        (r#"{"candidates":[],"promptFeedback":{"blockReason":"X"}}"#, Some(Kind::ContentFilter)),
    ] {
        assert_eq!(found(body), want, "{body}");
        assert_eq!(found(&framed(&[CONTENT, body])), want, "{body}");
    }
}
