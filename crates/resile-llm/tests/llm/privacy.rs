//! The words of a conversation are in no error: an answer that breaks off says where, not what.

use std::error::Error;
use std::fmt::Write;
use std::time::SystemTime;

use futures_util::{FutureExt, StreamExt};
use resile_llm::{Failure, Kind, Phase, Reply, Rule, events};
use serde_json::Value;

/// Whole answers of several formats. Their words and the arguments of their tools are private.
const ANSWERS: [&str; 9] = [
    r#"{"id":"c-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"My PIN is 4711"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7}}"#,
    r#"{"id":"c-1","choices":[{"message":{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"note","arguments":"{\"message\":\"My PIN is 4711\"}"}}]},"finish_reason":"tool_calls"}]}"#,
    r#"{"id":"r-1","object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"My PIN is 4711"}]}],"usage":{"input_tokens":7}}"#,
    r#"{"id":"msg-1","type":"message","role":"assistant","content":[{"type":"text","text":"My PIN is 4711"}],"stop_reason":"end_turn"}"#,
    r#"{"id":"msg-1","type":"message","role":"assistant","content":[{"type":"tool_use","name":"note","input":{"reason":"PIN_4711","message":"My PIN is 4711","status":"PIN_4711","code":"PIN_4711","type":"PIN_4711","detail":"My PIN","error":"My PIN is 4711: rate limit"}}],"stop_reason":"tool_use"}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":"My PIN is 4711"}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7}}"#,
    r#"{"model":"llama","message":{"role":"assistant","content":"My PIN is 4711"},"done":true}"#,
    r#"{"model":"llama","response":"My PIN is 4711, the rate limit is reached","done":true}"#,
    r#"[{"candidates":[{"content":{"parts":[{"text":"My PIN is 4711"}]}}]},{"candidates":[{"content":{"parts":[{"text":"My PIN is 4711"}]},"finishReason":"STOP"}]}]"#,
];

/// Returns everything that a log may show of a failure.
fn shown(failure: &Failure) -> String {
    let mut shown = format!("{failure} {failure:?} {failure:#?}");
    let facts = [failure.message(), failure.code(), failure.error_type()];
    shown.extend(facts.into_iter().flatten());
    let mut source = failure.source();
    while let Some(error) = source {
        write!(shown, "{error} {error:?}").unwrap();
        source = error.source();
    }
    shown
}

fn assert_private(failure: &Failure, body: &str) {
    let shown = shown(failure);
    assert!(!shown.contains("PIN") && !shown.contains("4711"), "{body}\n{shown}");
}

#[test]
fn an_answer_that_breaks_off_says_where_and_not_what() {
    let whole = ANSWERS[0];
    let cut = whole.find("4711").unwrap() + 2;
    let reply = Reply::new(&whole.as_bytes()[..cut]).with_status(200);
    let failure = reply.find(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!((failure.kind(), failure.rule()), (Kind::Network, Rule::Truncated));
    assert_eq!(
        failure.to_string(),
        format!(
            "the answer of the provider is truncated: its JSON ends after {cut} bytes: \
             EOF while parsing a string at line 1 column {cut} (status 200)"
        )
    );
    for whole in ANSWERS {
        for cut in 1..whole.len() {
            let body = &whole[..cut];
            let reply = Reply::new(body.as_bytes()).with_status(200);
            for phase in [Phase::Response, Phase::Preamble, Phase::Content] {
                let reply = reply.with_phase(phase);
                assert_private(&reply.classify(SystemTime::UNIX_EPOCH), body);
                if let Some(failure) = reply.find(SystemTime::UNIX_EPOCH) {
                    assert_private(&failure, body);
                    assert_eq!(failure.kind(), Kind::Network, "{body}");
                }
            }
            // Without a status: a stream has begun with a good one.
            let reply = Reply::new(body.as_bytes()).with_phase(Phase::Content);
            assert_private(&reply.classify(SystemTime::UNIX_EPOCH), body);
        }
    }
}

#[test]
fn an_answer_that_is_no_json_says_where_and_not_what() {
    let body = r#"{"choices":[{"message":{"content":"My PIN is "4711"."}}]}"#;
    let reply = Reply::new(body.as_bytes()).with_status(200);
    let failure = reply.find(SystemTime::UNIX_EPOCH).unwrap();
    assert_private(&failure, body);
    assert_eq!(
        failure.message(),
        Some("its JSON of 57 bytes is broken: expected `,` or `}` at line 1 column 47")
    );
    for whole in ANSWERS {
        for quote in whole.match_indices('"').map(|(at, _)| at) {
            let body = format!("{}{}", &whole[..quote], &whole[quote + 1..]);
            let reply = Reply::new(body.as_bytes()).with_status(200);
            if let Some(failure) = reply.find(SystemTime::UNIX_EPOCH) {
                assert_private(&failure, &body);
            }
        }
    }
    // A body this long is an answer, whatever it holds.
    let long = format!(r#"{{"text":"{}"#, "My PIN is 4711. ".repeat(20_000));
    let reply = Reply::new(long.as_bytes()).with_status(200);
    assert_private(&reply.classify(SystemTime::UNIX_EPOCH), "long");
}

/// `?` on an error of `serde_json` says where, whatever the program expects.
#[test]
fn an_error_of_json_says_where_and_not_what() {
    fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
        Ok(serde_json::from_slice(body)?)
    }
    #[derive(Debug, serde::Deserialize)]
    enum Only {
        Nothing,
    }
    let mut failures = Vec::new();
    let typed = r#""My PIN is 4711""#;
    for whole in ANSWERS.into_iter().chain([typed, r#"["My PIN is 4711"]"#]) {
        failures.extend(
            (0..whole.len()).filter_map(|cut| read::<Value>(&whole.as_bytes()[..cut]).err()),
        );
        failures.push(read::<u8>(whole.as_bytes()).unwrap_err());
        failures.push(read::<Only>(whole.as_bytes()).unwrap_err());
        let value = serde_json::from_str::<Value>(whole).unwrap();
        failures.push(serde_json::from_value::<Only>(value).unwrap_err().into());
    }
    assert_eq!(Only::Nothing as u8, 0);
    assert!(failures.len() > 1_000);
    for failure in &failures {
        assert_private(failure, "an error of `serde_json`");
        assert_eq!((failure.kind(), failure.rule()), (Kind::InvalidOutput, Rule::Caller));
    }
    let words = |failure: Failure| failure.message().unwrap().to_owned();
    let said = [
        words(read::<u8>(typed.as_bytes()).unwrap_err()),
        words(read::<Value>(b"{\n  \"a\": 4711").unwrap_err()),
        words(read::<Value>(b"{a").unwrap_err()),
        words(serde_json::from_value::<u8>(typed.into()).unwrap_err().into()),
    ];
    assert_eq!(
        said,
        [
            "another type at line 1 column 16",
            "its JSON ends at line 2 column 11",
            "its JSON is broken at line 1 column 2",
            "another type, at an unknown place",
        ]
    );
    // A reader that breaks off is a broken connection.
    let reader = std::io::Read::chain(&b"{"[..], Broken);
    let failure = Failure::from(serde_json::from_reader::<_, Value>(reader).unwrap_err());
    assert_eq!(failure.kind(), Kind::Network);
}

struct Broken;

impl std::io::Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::ConnectionReset.into())
    }
}

/// Words in an answer are a failure. Only words that mean one are sure to be the provider's.
#[test]
fn words_without_a_known_meaning_may_be_the_answer() {
    for (body, bytes) in
        [("My PIN is 4711.", 15), (r#""My PIN is 4711.""#, 15), ("[My PIN is 4711.]", 17)]
    {
        let reply = Reply::new(body.as_bytes()).with_status(200);
        for reply in [reply, reply.with_phase(Phase::Preamble), reply.with_phase(Phase::Content)] {
            let failure = reply.find(SystemTime::UNIX_EPOCH).unwrap();
            assert_private(&failure, body);
            let words = format!("it is {bytes} bytes of words and not an answer in JSON");
            assert_eq!(failure.message(), Some(&*words));
        }
    }
    let busy = "The server is overloaded.";
    let failure = Reply::new(busy.as_bytes()).with_status(200).find(SystemTime::UNIX_EPOCH);
    assert_eq!(failure.unwrap().message(), Some(busy));
}

/// An error object keeps the words of the provider, also if it breaks off.
#[test]
fn an_error_keeps_its_words() {
    for body in [
        r#"{"error":{"message":"No such tool","type":"odd"}}"#,
        r#"{"error":{"type":"odd","message":"No such tool"#,
        r#"[{"error":{"type":"odd","message":"No such tool"#,
        r#"{"choices":[{"error":{"message":"No such tool"}}]}"#,
        r#"{"type":"error","message":"No such tool"#,
    ] {
        let reply = Reply::new(body.as_bytes()).with_status(200);
        let failure = reply.find(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(failure.message(), Some("No such tool"), "{body}");
    }
    // A refusal has no answer.
    for body in [r#"{"odd":"No such tool"#, "No such tool", r#"{"odd":"No such" tool}"#] {
        let failure = Failure::from_text(418, body);
        assert!(failure.message().unwrap().contains("No such"), "{failure:?}");
    }
}

/// The failure of a body, read as a stream of events.
fn streamed(body: &str) -> Option<Failure> {
    let mut events = events(http::Response::new(body.to_owned()));
    loop {
        match events.next().now_or_never().expect("the whole answer is there")? {
            Ok(_) => {}
            Err(failure) => return Some(failure),
        }
    }
}

#[test]
fn a_stream_that_breaks_off_says_where_and_not_what() {
    for whole in ANSWERS {
        for cut in 1..whole.len() {
            for body in [whole[..cut].to_owned(), format!("data: {}\n\n", &whole[..cut])] {
                if let Some(failure) = streamed(&body) {
                    assert_private(&failure, &body);
                }
            }
        }
    }
    for body in ["data: My PIN is 4711\n\n", "event: message\ndata: My PIN is 4711\n\n"] {
        assert_private(&streamed(body).unwrap(), body);
    }
    // An event of this name is the provider's own.
    let failure = streamed("event: error\ndata: No such tool\n\n").unwrap();
    assert_eq!(failure.message(), Some("No such tool"));
}

/// An SDK's error may quote the answer that it could not read.
#[test]
fn the_answer_that_an_error_quotes_is_left_out() {
    for whole in ANSWERS {
        for answer in [whole, &whole[..whole.len() - 9]] {
            let text = format!("failed to deserialize api response: {answer}");
            for failure in [
                Failure::from_error_text(&text),
                Failure::from_transport(&std::io::Error::other(text.clone())),
            ] {
                assert_private(&failure, &text);
                let message = failure.message().unwrap();
                assert!(message.starts_with("failed to deserialize api response"), "{message}");
            }
        }
    }
}

#[cfg(feature = "reqwest")]
#[tokio::test]
async fn an_answer_of_another_type_is_not_quoted() {
    let answer = |body: &str| reqwest::Response::from(http::Response::new(body.to_owned()));
    let body = r#"{"content":"My PIN is 4711"}"#;
    let error = answer(body).json::<std::collections::BTreeMap<String, u8>>().await.unwrap_err();
    let failure = Failure::from(error);
    assert_eq!(failure.kind(), Kind::InvalidOutput);
    assert_private(&failure, body);
    assert_eq!(
        failure.message(),
        Some("error decoding response body: another type at line 1 column 27")
    );
    let failure = resile_llm::read_answer(answer(&ANSWERS[0][..130])).await.unwrap_err();
    assert_private(&failure, ANSWERS[0]);
}

/// The words that decide have no place in a message that does not quote them.
#[test]
fn a_message_without_the_words_of_an_answer_has_no_place_for_them() {
    let body = "[\"error\": { l>\"; message = \"The server had an error. Sorry!\"; type = \"server_error\"; }]";
    let explained = Reply::new(body.as_bytes()).with_status(200).explain(SystemTime::UNIX_EPOCH);
    let message = explained.failure().message().unwrap();
    assert!(!message.contains("Sorry"), "{message}");
    for reason in explained.lost().iter().chain([explained.decisive()]) {
        let quoted = reason.span().map(|span| message.get(span));
        assert!(quoted.is_none_or(|quoted| quoted == reason.text()), "{reason:?} in {message}");
    }
}
