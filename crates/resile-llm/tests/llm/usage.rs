//! The places of a usage: the objects and lists around it, and the end of a long answer.

use resile_llm as llm;

fn input(body: &str) -> Option<u64> {
    llm::usage(body.as_bytes()).and_then(|usage| usage.input())
}

#[test]
fn a_usage_has_at_most_two_objects_around_it() {
    for name in ["message", "response", "delta", "metadata", "x_groq"] {
        let wrapped = |times: usize| {
            let (open, close) = (format!(r#"{{"{name}":"#).repeat(times), "}".repeat(times));
            format!(r#"{open}{{"usage":{{"input_tokens":7}}}}{close}"#)
        };
        for times in 0..=2 {
            assert_eq!(input(&wrapped(times)), Some(7), "{name} {times} times");
        }
        for times in 3..=6 {
            assert_eq!(input(&wrapped(times)), None, "{name} {times} times");
        }
        // A list of answers counts as one of these objects.
        assert_eq!(input(&format!("[{}]", wrapped(0))), Some(7), "{name}");
        assert_eq!(input(&format!("[{}]", wrapped(1))), Some(7), "{name}");
        assert_eq!(input(&format!("[{}]", wrapped(2))), None, "{name}");
        // Other lists hold no answers.
        assert_eq!(input(&format!("[[{}]]", wrapped(0))), None, "{name}");
        assert_eq!(input(&format!(r#"{{"{name}":[{}]}}"#, wrapped(0))), None, "{name}");
    }
}

#[test]
fn a_count_of_tokens_is_no_usage() {
    for body in [r#"{"input_tokens":14}"#, r#"{"prompt_tokens":14,"completion_tokens":2}"#] {
        assert_eq!(llm::usage(body.as_bytes()), None, "{body}");
    }
}

#[test]
fn caches_are_read_in_every_format() {
    for (body, reads, writes) in [
        (
            r#"{"usage":{"prompt_tokens":12,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":4}}}"#,
            3,
            4,
        ),
        (
            r#"{"amazon-bedrock-invocationMetrics":{"inputTokenCount":5,"cacheReadInputTokenCount":3,"cacheWriteInputTokenCount":4}}"#,
            3,
            4,
        ),
        (
            r#"{"usage":{"inputTokens":5,"cacheReadInputTokenCount":3,"cacheWriteInputTokenCount":4}}"#,
            3,
            4,
        ),
        (r#"{"usage":{"prompt_tokens":8,"cached_tokens":3}}"#, 3, 0),
    ] {
        let usage = llm::usage(body.as_bytes()).unwrap();
        let numbers = (usage.input(), usage.cache_reads(), usage.cache_writes());
        assert_eq!(numbers, (Some(5), reads, writes), "{body}");
    }
}

#[test]
fn only_the_end_of_a_long_answer_is_searched() {
    const TAIL: usize = 16 * 1024;
    let at = |left: usize| {
        let (start, usage) = (r#"{"content":""#, r#""usage":{"input_tokens":7}"#);
        let before = format!(r#"{start}{}","#, "x".repeat(300 * 1024));
        input(&format!("{before}{usage}{}}}", " ".repeat(left - usage.len() - 1)))
    };
    for left in [100, TAIL - 1, TAIL] {
        assert_eq!(at(left), Some(7), "{left}");
    }
    for left in [TAIL + 1, TAIL * 2, TAIL * 8] {
        assert_eq!(at(left), None, "{left}");
    }
}
