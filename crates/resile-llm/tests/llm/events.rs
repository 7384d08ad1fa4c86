//! Streams of models: their parts, their failures and their ends, in any pieces.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::time::Duration;

use ::http::Response;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use proptest::prelude::*;
use resile::fallback::Alternative;
use resile::quota::{Cost, Dimension, Rate, Usage};
use resile::stream::{Part, Resumption};
use resile::time::ManualTimer;
use resile::{Attempt, FallbackPolicy, Never, Quota, StopReason, Upstream, fallback, retry_stream};
use resile_llm::{
    Event, Failure, Kind, Phase, Recovery, Rule, another_model, events, retry_events,
};

const ROLE: &str = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
const WORD: &str = r#"{"choices":[{"delta":{"content":"Hello"}}]}"#;
const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const BUSY: &str = r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#;

fn framed(events: &[&str]) -> String {
    events.iter().flat_map(|data| ["data: ", data, "\n\n"]).collect()
}

/// Reads an answer to its end. Returns the data of its events and the failure.
fn read_answer<B>(answer: Response<B>) -> (Vec<String>, Option<Failure>)
where
    B: http_body::Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    let mut events = events(answer);
    let (mut all, mut failure) = (Vec::new(), None);
    while let Some(item) = events.next().now_or_never().expect("the whole answer is there") {
        assert_eq!(failure, None, "a failure is the last item");
        match item {
            Ok(event) => all.push(event.data().to_owned()),
            Err(last) => failure = Some(last),
        }
    }
    assert!(events.next().now_or_never().unwrap().is_none(), "the end stays the end");
    (all, failure)
}

fn read(body: &str) -> (Vec<String>, Option<Failure>) {
    read_answer(Response::new(body.to_owned()))
}

fn kind_of(body: &str) -> Option<Kind> {
    read(body).1.map(|failure| failure.kind())
}

#[test]
fn a_good_stream_yields_its_events_and_no_pings() {
    let body = format!(
        ": OPENROUTER PROCESSING\n\nevent: ping\ndata: {{\"type\": \"ping\"}}\n\n{}\
         data:\n\ndata: {{\"type\":\"keepalive\"}}\n\n{}",
        framed(&[ROLE, WORD]),
        framed(&[STOP, "[DONE]", "{ not read"]),
    );
    let want = [ROLE, WORD, STOP, "[DONE]"].map(str::to_owned).to_vec();
    assert_eq!(read(&body), (want, None));
}

#[test]
fn a_last_event_is_needed_and_may_be_the_last_line() {
    for last in [STOP, "[DONE]", r#"{"type":"message_stop"}"#, r#"{"type":"response.completed"}"#] {
        for end in ["", "\n", "\n\n", "\r\n\r\n"] {
            let body = format!("{}data: {last}{end}", framed(&[WORD]));
            assert_eq!(kind_of(&body), None, "{body:?}");
        }
    }
    for (events, phase) in
        [(&[ROLE][..], Phase::Preamble), (&[ROLE, WORD], Phase::Content), (&[], Phase::Preamble)]
    {
        let failure = read(&(": ping\n\n".to_owned() + &framed(events))).1.unwrap();
        assert_eq!((failure.rule(), failure.phase()), (Rule::Truncated, phase), "{events:?}");
        assert!(failure.is_retryable());
        let words = failure.to_string();
        assert!(words.ends_with("truncated: the stream ended before its last event"), "{words}");
    }
}

#[test]
fn failures_in_band_are_classified() {
    for (last, kind) in [
        (format!("data: {BUSY}\n\n"), Kind::Overloaded),
        (format!("event: error\ndata: {BUSY}\n\n"), Kind::Overloaded),
        // A failure may be cut off too.
        (format!("data: {BUSY}"), Kind::Overloaded),
        ("event: error\ndata: {\"a\":1}\n\n".to_owned(), Kind::Server),
        ("event: error\ndata: insufficient_quota\n\n".to_owned(), Kind::QuotaExhausted),
        ("data: Too Many Requests\n\n".to_owned(), Kind::RateLimit),
        (framed(&[r#"{"choices":[{"finish_reason":"content_filter"}]}"#]), Kind::ContentFilter),
        (framed(&[r#"{"choices":[{"finish_reason":"length"}]}"#]), Kind::InvalidOutput),
        (framed(&[r#"{"choices":[{"delta":{"content":"hal"#]), Kind::Network),
        (framed(&["{]"]), Kind::Network),
    ] {
        let (events, failure) = read(&format!("{}{last}{}", framed(&[WORD]), framed(&["[DONE]"])));
        assert_eq!(events, [WORD], "{last}");
        let failure = failure.unwrap_or_else(|| panic!("{last}"));
        assert_eq!(failure.kind(), kind, "{last}: {failure}");
        assert!(!failure.to_string().contains("hal"), "content in a log: {failure}");
    }
    // Some providers send words as content, under a name.
    assert_eq!(kind_of("event: output\ndata: Hello\n\nevent: done\ndata: {}\n\n"), None);
}

/// The events report their usage, and the headers their limits, to the quota of the attempt.
#[tokio::test]
async fn a_quota_learns_what_a_stream_used() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":700,"completion_tokens":50}}"#;
    for (told, level) in [(None, 9_250), (Some("400"), 350)] {
        let open = |_| async move {
            let mut answer = Response::builder();
            if let Some(told) = told {
                answer = answer.header("x-ratelimit-remaining-tokens", told);
            }
            let body = framed(&[WORD, STOP, usage, "[DONE]"]);
            Ok::<_, Failure>(events(answer.body(body).unwrap()))
        };
        let quota = Quota::new().with_tokens(Rate::per_minute(10_000));
        let upstream = Upstream::new("model").with_quota(quota).with_timer(ManualTimer::new());
        let cost = Cost::input(700).with_max_output(300);
        let stream =
            retry_events(open, resile_llm::interactive(), Never).on(upstream.at_cost(cost));
        assert_eq!(stream.try_collect::<Vec<_>>().await.unwrap().len(), 4);
        assert_eq!(upstream.quota_level(Dimension::Tokens), Some(level));
    }
}

const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":700,"completion_tokens":50}}"#;
const CUT: &str = r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#;
const FILTERED: &str = r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#;

/// The usage behind a bad ending reaches the quota and the failure.
#[tokio::test]
async fn a_bad_ending_has_the_usage_behind_it() {
    let used = Usage::new().with_input(700).with_output(50);
    for (ending, kind) in [(CUT, Kind::InvalidOutput), (FILTERED, Kind::ContentFilter)] {
        for rest in [&[USAGE][..], &[CUT, USAGE, WORD], &[ROLE, USAGE, "[DONE]"]] {
            let body = framed(&[WORD, ending]) + ": ping\n\n" + &framed(rest);
            let open = |_| {
                // The provider does not close the connection.
                let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(body.clone())));
                let pieces = stream::iter([frame]).chain(stream::pending());
                ready(Ok::<_, Failure>(events(Response::new(StreamBody::new(pieces)))))
            };
            let quota = Quota::new().with_tokens(Rate::per_minute(10_000));
            let upstream = Upstream::new("model").with_quota(quota).with_timer(ManualTimer::new());
            let stream = retry_events(open, resile_llm::interactive(), Never)
                .on(upstream.at_cost(Cost::input(700).with_max_output(300)));
            let gave_up = stream.try_collect::<Vec<_>>().now_or_never().expect("no more is read");
            let gave_up = gave_up.unwrap_err();
            let failure = gave_up.last().unwrap();
            assert_eq!((failure.kind(), failure.usage()), (kind, used), "{ending} {rest:?}");
            assert_eq!(upstream.quota_level(Dimension::Tokens), Some(9_250), "{ending} {rest:?}");
        }
    }
}

/// The streams of a refusal: OpenAI's two interfaces and Anthropic's.
const CHAT_REFUSAL: [&str; 5] = [
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"refusal":"I'm sorry"},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"refusal":", but no."},"finish_reason":null}]}"#,
    STOP,
    USAGE,
];
const RESPONSES_REFUSAL: [&str; 7] = [
    r#"{"type":"response.created","response":{"id":"r","object":"response","status":"in_progress","output":[]}}"#,
    r#"{"type":"response.content_part.added","item_id":"m","part":{"type":"refusal","refusal":""}}"#,
    r#"{"type":"response.refusal.delta","item_id":"m","delta":"I'm sorry, but no."}"#,
    r#"{"type":"response.refusal.done","item_id":"m","refusal":"I'm sorry, but no."}"#,
    r#"{"type":"response.content_part.done","item_id":"m","part":{"type":"refusal","refusal":"I'm sorry, but no."}}"#,
    r#"{"type":"response.output_item.done","item":{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"I'm sorry, but no."}]}}"#,
    r#"{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"I'm sorry, but no."}]}],"usage":{"input_tokens":700,"output_tokens":50}}}"#,
];
const ANTHROPIC_REFUSAL: [&str; 3] = [
    r#"{"type":"message_start","message":{"type":"message","role":"assistant","content":[],"usage":{"input_tokens":700,"output_tokens":1}}}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"output_tokens":50}}"#,
    r#"{"type":"message_stop"}"#,
];

/// A model that refuses ends its stream as it ends its whole answer. Nothing of the answer was shown, so
/// another model may answer. The failure has the usage and none of the model's words.
#[test]
fn a_model_that_refuses_is_a_failure_in_any_pieces() {
    let used = Usage::new().with_input(700).with_output(50);
    for stream in [&CHAT_REFUSAL[..], &RESPONSES_REFUSAL, &ANTHROPIC_REFUSAL] {
        let body = framed(stream);
        for at in 0..body.len() {
            let (one, two) = body.split_at(at);
            let frames =
                [one, two].map(|it| Ok::<_, io::Error>(Frame::data(Bytes::from(it.to_owned()))));
            let failure = read_answer(Response::new(StreamBody::new(stream::iter(frames)))).1;
            let failure = failure.unwrap_or_else(|| panic!("{stream:?} at {at}"));
            let ending = (failure.kind(), failure.rule(), failure.phase());
            assert_eq!(
                ending,
                (Kind::ContentFilter, Rule::Finish("refusal"), Phase::Preamble),
                "{stream:?} at {at}"
            );
            assert_eq!(failure.usage(), used, "{stream:?} at {at}");
            assert_eq!(failure.message(), None, "words of a conversation have no place in a log");
        }
    }
    // A refusal behind words comes too late for another model.
    let (events, failure) = read(&framed(&[WORD, CHAT_REFUSAL[1], STOP]));
    let failure = failure.unwrap();
    assert_eq!((failure.kind(), failure.phase()), (Kind::ContentFilter, Phase::Content));
    assert_eq!(events, [WORD]);
    // The last event tells it too, for a gateway that leaves out the parts.
    assert_eq!(kind_of(&framed(&[RESPONSES_REFUSAL[6]])), Some(Kind::ContentFilter));
    // A field without words is no refusal.
    let empty = r#"{"choices":[{"delta":{"content":"Hello","refusal":""}}]}"#;
    assert_eq!(kind_of(&framed(&[RESPONSES_REFUSAL[1], empty, STOP])), None);
}

/// A program that reads its events by hand finds it in each of them.
#[test]
fn a_refusal_is_no_content() {
    let words = [CHAT_REFUSAL[1], RESPONSES_REFUSAL[2], RESPONSES_REFUSAL[3]];
    for data in words {
        let event = Event::new("", data);
        assert_eq!((event.part(), &*event.text()), (Part::Preamble, ""), "{data}");
        let failure = Failure::find_in_event(data, Phase::Preamble).expect(data);
        assert_eq!(failure.kind(), Kind::ContentFilter, "{data}");
    }
}

/// The second model answers if the first one refuses, as a stream and as a whole answer.
#[tokio::test(start_paused = true)]
async fn another_model_answers_a_question_that_one_refuses() {
    for stream in [&CHAT_REFUSAL[..], &RESPONSES_REFUSAL, &ANTHROPIC_REFUSAL] {
        let models = [framed(stream), framed(&[WORD, STOP])];
        let ask = async |model: Alternative<'_, String>| {
            let body = model.value().clone();
            let open = move |_| ready(Ok::<_, Failure>(events(Response::new(body.clone()))));
            let answer = retry_events(open, resile_llm::interactive(), Never);
            answer.try_fold(String::new(), async |text, event| Ok(text + &event.text())).await
        };
        let policy = FallbackPolicy::new().with_classifier(another_model);
        let answer = fallback(&models, ask, policy, Never).await;
        assert_eq!(answer.unwrap(), "Hello", "{stream:?}");
    }
}

/// Nothing behind a bad ending changes the failure or delays it for long.
#[test]
fn a_bad_ending_stays_the_failure() {
    let large = "x".repeat(17 << 20);
    for rest in ["", "data: [DONE]\n\n", "data: {", &framed(&[BUSY]), &framed(&[WORD]), &large] {
        let (events, failure) = read(&(framed(&[WORD, FILTERED]) + rest));
        assert_eq!(events, [WORD]);
        let failure = failure.unwrap();
        assert_eq!((failure.kind(), failure.usage()), (Kind::ContentFilter, Usage::new()));
    }
    let pieces = [Ok(Frame::data(Bytes::from(framed(&[FILTERED])))), Err(reset())];
    let failure = read_answer(Response::new(StreamBody::new(stream::iter(pieces)))).1.unwrap();
    assert_eq!((failure.kind(), failure.phase()), (Kind::ContentFilter, Phase::Preamble));
    // Another answer of the same request goes on, whose words nobody may have.
    for last in [WORD, BUSY, "words", "[DONE]"] {
        let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(framed(&[FILTERED, last]))));
        let body = StreamBody::new(stream::iter([frame]).chain(stream::pending()));
        let failure = events(Response::new(body)).next().now_or_never();
        assert!(failure.is_some_and(|item| item.unwrap().is_err()), "{last}");
    }
}

/// Each failure has what the events before it reported.
#[test]
fn a_failure_has_the_usage_of_its_stream() {
    let start = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":700,"output_tokens":1}}}"#;
    let last = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":50}}"#;
    let whole = r#"{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":700,"completion_tokens":50}}"#;
    for (body, output) in [
        (framed(&[start]), 1),
        (framed(&[start, BUSY]), 1),
        (framed(&[start, "{"]), 1),
        (framed(&[start, last]), 50),
        (whole.to_owned(), 50),
    ] {
        let used = Usage::new().with_input(700).with_output(output);
        let failure = read(&body).1.unwrap();
        assert_eq!(failure.usage(), used, "{body}: {failure:?}");
    }
    let refused = Response::builder().status(429).body(whole.to_owned()).unwrap();
    assert_eq!(read_answer(refused).1.unwrap().usage(), Usage::new());
}

#[test]
fn a_refusal_is_the_only_item() {
    for (status, kind) in [(429, Kind::RateLimit), (529, Kind::Overloaded), (401, Kind::Auth)] {
        let body = framed(&[WORD]).repeat(20_000);
        let answer = Response::builder().status(status).header("retry-after", "7").body(body);
        let (events, failure) = read_answer(answer.unwrap());
        let failure = failure.unwrap();
        assert_eq!((failure.kind(), failure.status()), (kind, Some(status)), "{status}");
        assert_eq!(failure.phase(), Phase::Response, "{status}");
        assert_eq!(failure.wait().is_some(), kind.is_passing(), "{status}");
        assert!(events.is_empty(), "{status}");
    }
    // A redirect is no stream.
    let answer = Response::builder().status(302).body(framed(&[WORD, STOP])).unwrap();
    assert!(read_answer(answer).1.is_some());
}

#[test]
fn the_body_of_a_refusal_may_break_off() {
    let pieces: [io::Result<_>; 2] =
        [Ok(Frame::data(&br#"{"error":{"code":"insufficient_quota""#[..])), Err(reset())];
    let body = StreamBody::new(stream::iter(pieces));
    let failure = read_answer(Response::builder().status(429).body(body).unwrap()).1.unwrap();
    assert_eq!(failure.kind(), Kind::QuotaExhausted);
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

#[test]
fn a_broken_connection_has_the_phase_and_the_error() {
    for (event, phase) in [(ROLE, Phase::Preamble), (WORD, Phase::Content)] {
        let pieces = [Ok(Frame::data(Bytes::from(framed(&[event])))), Err(reset())];
        let failure = read_answer(Response::new(StreamBody::new(stream::iter(pieces)))).1.unwrap();
        assert_eq!((failure.kind(), failure.phase()), (Kind::Network, phase));
        let source = std::error::Error::source(&failure).unwrap();
        assert!(source.is::<io::Error>(), "{source:?}");
    }
}

#[test]
fn a_body_without_events_is_classified_by_its_words() {
    let whole = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    for (body, kind) in [
        ("", Kind::Network),
        (BUSY, Kind::Overloaded),
        ("<html><title>Bad Gateway</title></html>", Kind::Server),
        (whole, Kind::InvalidOutput),
    ] {
        assert_eq!(kind_of(body), Some(kind), "{body}");
    }
    let answer = Response::builder().header("content-type", "application/json");
    let failure = read_answer(answer.body(whole.to_owned()).unwrap()).1.unwrap();
    assert_eq!(
        failure.to_string(),
        "the answer is not a stream, correct the request to ask for one: it is one whole body (application/json)"
    );
    // The model would answer in one body again.
    assert_eq!((failure.recovery(), failure.rule()), (Recovery::FixRequest, Rule::NotStream));
}

/// Each event of Perplexity also has the whole answer so far.
#[test]
fn only_the_delta_of_a_choice_adds_words() {
    for (delta, want) in
        [(r#"{"content":" there"}"#, " there"), (r#"{"content":""}"#, ""), ("{}", "")]
    {
        let choice = format!(r#"{{"message":{{"content":"Hello there"}},"delta":{delta}}}"#);
        let event = Event::new("", format!(r#"{{"choices":[{choice}]}}"#));
        assert_eq!(event.text(), want, "{delta}");
    }
}

/// The first event of Azure's streams has no choice.
#[test]
fn a_stream_may_begin_with_an_event_without_a_choice() {
    let first = r#"{"choices":[],"object":"","prompt_filter_results":[{"prompt_index":0}]}"#;
    for first in [first, r#"{"choices":[]}"#] {
        let (events, failure) = read(&framed(&[first, WORD, STOP]));
        assert_eq!((events.len(), failure), (3, None), "{first}");
    }
}

#[test]
fn an_event_that_never_ends_is_a_failure() {
    let piece = Bytes::from(vec![b'x'; 1 << 20]);
    let pieces = stream::iter((0..64).map(|_| Ok::<_, Infallible>(Frame::data(piece.clone()))));
    let mut taken = 0;
    let body = StreamBody::new(pieces.inspect(|_| taken += 1));
    let failure = read_answer(Response::new(body)).1.unwrap();
    assert_eq!(failure.kind(), Kind::InvalidOutput);
    assert_eq!(taken, 17);
}

#[test]
fn words_are_those_of_each_format() {
    let words = |data: &str| Event::new("", data).text();
    for data in [
        r#"{"choices":[{"delta":{"content":"Hi"}},{"delta":{"content":"no"}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"text","text":"Hi"}]}}]}"#,
        r#"{"choices":[{"text":"Hi"}]}"#,
        r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#,
        r#"{"type":"response.output_text.delta","delta":"Hi"}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}}"#,
        r#"{"type":"content-delta","delta":{"message":{"content":{"text":"Hi"}}}}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"no","thought":true},{"text":"H"},{"text":"i"}]}}]}"#,
        r#"{"message":{"role":"assistant","content":"Hi"},"done":false}"#,
    ] {
        assert_eq!(words(data), "Hi", "{data}");
    }
    for data in [
        ROLE,
        STOP,
        "[DONE]",
        "words",
        r#"{"choices":[{"delta":{"reasoning_content":"no"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"no"}}]}}]}"#,
        r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"no"}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"no"}}"#,
        r#"{"type":"response.reasoning_text.delta","delta":"no"}"#,
    ] {
        assert_eq!(words(data), "", "{data}");
    }
}

#[test]
fn parts_are_those_of_each_format() {
    use Part::{Complete, Content, End, Preamble};
    for (part, data) in [
        (Preamble, ROLE),
        (Preamble, r#"{"choices":[],"usage":{"prompt_tokens":7}}"#),
        (Preamble, r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#),
        (Content, r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#),
        (
            Content,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}"#,
        ),
        (Content, r#"{"choices":[{"index":0,"text":"Hello","finish_reason":null}]}"#),
        (Complete, r#"{"choices":[{"delta":{"content":"."},"finish_reason":"stop"}]}"#),
        (Preamble, r#"{"type":"response.created","response":{"id":"r","status":"in_progress"}}"#),
        (Preamble, r#"{"type":"response.output_item.added","item":{"type":"message"}}"#),
        (Content, r#"{"type":"response.output_text.delta","delta":"Hello"}"#),
        (Content, r#"{"type":"response.function_call_arguments.delta","delta":"{"}"#),
        (
            Content,
            r#"{"type":"response.image_generation_call.partial_image","partial_image_b64":"x"}"#,
        ),
        (Preamble, r#"{"type":"response.content_part.done","part":{"text":"Hello"}}"#),
        (End, r#"{"type":"response.completed","response":{"status":"completed"}}"#),
        (Preamble, r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":3}}}"#),
        (Preamble, r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#),
        (
            Content,
            r#"{"type":"content_block_start","content_block":{"type":"tool_use","name":"f"}}"#,
        ),
        (Preamble, r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":""}}"#),
        (Content, r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"H"}}"#),
        (
            Content,
            r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"H"}}"#,
        ),
        (Complete, r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}"#),
        (Preamble, r#"{"type":"message_delta","delta":{"stop_reason":null},"usage":{}}"#),
        (End, r#"{"type":"message_stop"}"#),
        (Content, r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Hello"}]}}]}"#),
        (Preamble, r#"{"candidates":[{"content":{"role":"model","parts":[{"text":""}]}}]}"#),
        (Preamble, r#"{"usageMetadata":{"promptTokenCount":3}}"#),
        (
            Complete,
            r#"{"candidates":[{"content":{"parts":[{"text":"."}]},"finishReason":"STOP"}]}"#,
        ),
        (Preamble, r#"{"type":"message-start","id":"m","delta":{"message":{"role":"assistant"}}}"#),
        (Content, r#"{"type":"content-delta","delta":{"message":{"content":{"text":"Hello"}}}}"#),
        (End, r#"{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}"#),
        (Content, r#"{"type":"odd.delta","value":"Hello"}"#),
        (Content, r#"{"token":{"text":"Hello"}}"#),
        (Content, "Hello"),
        (End, "[DONE]"),
    ] {
        assert_eq!(Event::new("", data).part(), part, "{data}");
    }
    assert_eq!(Event::new("done", "{}").part(), End);
}

proptest! {
    #[test]
    fn pieces_change_nothing(
        lines in prop::collection::vec(prop::sample::select(vec![
            "data: ", "event: error", "event: ping", ": x", WORD, ROLE, STOP, BUSY, "[DONE]", "\n", "\r\n", "\n\n", "{", "ü",
        ]), 0..20),
        status in prop::sample::select(vec![200_u16, 429]),
        size in 1_usize..40,
    ) {
        let text = lines.concat();
        let answer = |size: usize| {
            let pieces: Vec<_> = text.as_bytes().chunks(size.max(1)).map(|piece| {
                Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece)))
            }).collect();
            let body = StreamBody::new(stream::iter(pieces));
            read_answer(Response::builder().status(status).body(body).unwrap())
        };
        prop_assert_eq!(answer(size), answer(text.len()));
    }
}

/// A plain `retry_stream` takes the role as content. The entry for events knows better.
#[tokio::test(start_paused = true)]
async fn a_reset_behind_the_role_is_not_seen_by_the_consumer() {
    let open = |attempt: Attempt| {
        let whole = [ROLE, WORD, STOP, "[DONE]"];
        let data = if attempt.is_first() { &whole[..1] } else { &whole };
        ready(Ok::<_, Failure>(events(Response::new(framed(data)))))
    };
    let plain = retry_stream(open, resile_llm::interactive(), Never);
    let gave_up = plain.try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(gave_up.reason(), StopReason::Partial);
    assert_eq!(gave_up.last().unwrap().phase(), Phase::Preamble);
    // It is the same builder, so every setting stays.
    let call = retry_events(open, resile_llm::interactive(), Never)
        .with_resumption(|_| Resumption::Fail)
        .with_whole_timeout(Duration::from_secs(90))
        .on("model");
    let words = call.try_fold(String::new(), async |words, event| Ok(words + &event.text())).await;
    assert_eq!(words.unwrap(), "Hello");
}
