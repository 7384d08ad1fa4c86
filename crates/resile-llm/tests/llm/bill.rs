//! The bill of a question: the tokens of all its attempts, good ones, failed ones and dropped ones.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::pin;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use http::Response;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use resile::fallback::Alternative;
use resile::quota::{Cost, Rate, Usage};
use resile::stream::Resumption;
use resile::{
    Attempt, FallbackPolicy, GaveUp, Never, Quota, StopReason, Upstream, fallback, retry,
};
use resile_llm::{
    Bill, Event, Failure, Kind, Recovery, Reply, another_model, events, retry_events,
};
use static_assertions::assert_impl_all;
use tokio::time::Instant;

assert_impl_all!(Bill: Clone, Default, Send, Sync, std::fmt::Debug, std::fmt::Display);

const START: &str =
    r#"{"type":"message_start","message":{"usage":{"input_tokens":700,"output_tokens":1}}}"#;
const WORD: &str = r#"{"type":"content_block_delta","delta":{"text":"A scarf."}}"#;
const END: &str =
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":90}}"#;
const CUT: &str =
    r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":8}}"#;

type Body = StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

/// An answer with these events in pieces of one byte. If it `hangs`, nothing follows and it does not end.
fn answer(status: u16, data: &[&str], hangs: bool) -> Response<Body> {
    let bytes: String = data.iter().flat_map(|data| ["data: ", data, "\n\n"]).collect();
    let frame = |byte: u8| Ok(Frame::data(Bytes::from(vec![byte])));
    let bytes = stream::iter(bytes.into_bytes()).map(frame);
    let body = if hangs { bytes.chain(stream::pending()).boxed() } else { bytes.boxed() };
    Response::builder().status(status).body(StreamBody::new(body)).unwrap()
}

fn tokens(input: u64, output: u64) -> Usage {
    Usage::new().with_input(input).with_output(output)
}

/// The tokens of one stream that is read to its end.
fn of(data: &[&str]) -> Usage {
    let bill = Bill::new();
    let items = events(answer(200, data, false)).billed(&bill).collect::<Vec<_>>();
    items.now_or_never().expect("the whole answer is there");
    bill.total()
}

#[test]
fn a_stream_counts_as_its_events_come_and_its_failure_counts_once() {
    assert_eq!(of(&[START, WORD, END]), tokens(700, 90));
    assert_eq!(of(&[START, WORD]), tokens(700, 1)); // breaks off
    assert_eq!(of(&[START, WORD, CUT]), tokens(700, 8));
    assert_eq!(of(&[WORD]), Usage::new());
    // A whole answer, because the request did not ask for a stream.
    let whole = r#"{"choices":[{}],"usage":{"prompt_tokens":12,"completion_tokens":3}}"#;
    let bill = Bill::new();
    let body = http_body_util::Full::new(Bytes::from(whole));
    let mut events = events(Response::new(body)).billed(&bill);
    assert!(events.next().now_or_never().unwrap().unwrap().is_err());
    assert_eq!(bill.total(), tokens(12, 3));
}

#[test]
fn a_stream_that_is_dropped_stays_on_the_bill_and_others_go_on() {
    let bill = Bill::new();
    let mut one = events(answer(200, &[START, WORD], true)).billed(&bill);
    let mut two = events(answer(200, &[START, WORD, END], false)).billed(&bill.clone());
    assert_eq!(bill.total(), Usage::new());
    one.next().now_or_never().unwrap().unwrap().unwrap();
    assert_eq!(bill.total(), tokens(700, 1));
    two.next().now_or_never().unwrap().unwrap().unwrap();
    drop(one);
    assert_eq!(bill.total(), tokens(1_400, 2));
    while two.next().now_or_never().unwrap().is_some() {}
    assert_eq!(bill.total(), tokens(1_400, 91));
    drop(two);
    assert_eq!(bill.total(), tokens(1_400, 91));
    let told = "1491 tokens: 1400 input, 91 output, and 1 attempt without a whole usage";
    assert_eq!(bill.to_string(), told);
}

#[tokio::test]
async fn whole_answers_count_with_their_failures() {
    let bodies = [
        r#"{"choices":[{"finish_reason":"network_error"}],"usage":{"prompt_tokens":700,"completion_tokens":40}}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":700,"completion_tokens":90}}"#,
    ];
    let bill = Bill::new();
    for body in bodies {
        let reply = Reply::new(body.as_bytes()).with_status(200);
        let found = reply.find(std::time::SystemTime::UNIX_EPOCH);
        let answer = found.clone().map_or(Ok(body), Err);
        assert_eq!(bill.note(ready(answer.clone())).await, answer);
    }
    let refused = bill.note(ready(Err::<String, _>(Failure::from_text(429, "slow down"))));
    assert_eq!(refused.await.unwrap_err().kind(), Kind::RateLimit);
    assert_eq!(bill.unreported(), 0);
    assert_eq!(bill.note(ready(Ok("no usage"))).await, Ok("no usage"));
    assert_eq!((bill.total(), bill.unreported()), (tokens(1_400, 130), 1));
}

const REFUSED: &str = r#"{"error":{"type":"overloaded_error"}}"#;
/// The answer of Azure to a prompt that its filter has read.
const FILTERED: &str = r#"{"error":{"code":"content_filter","message":"the prompt was filtered"}}"#;
const STOP: &str = r#"{"choices":[{"text":"A scarf.","finish_reason":"stop"}]}"#;

/// A stream counts once, when it has ended, whether it is dropped then or not.
#[test]
fn a_stream_without_a_usage_counts_as_unreported_if_it_may_be_charged() {
    for (status, data, unreported) in [
        (200, &[WORD][..], 1), // breaks off
        (200, &[STOP, "[DONE]"], 1),
        (200, &[WORD, REFUSED], 1),
        (200, &[r#"{"choices":[{"text":"A","finish_reason":"content_filter"}]}"#], 1),
        (200, &[], 1),
        (200, &[REFUSED], 0),
        (200, &[r#"{"error":{"type":"api_error"}}"#], 0),
        (200, &[r#"{"choices":[{"delta":{"role":"assistant"}}]}"#, REFUSED], 0),
        (200, &[r#"{"choices":[{"delta":{"reasoning_content":"Hm"}}]}"#, REFUSED], 1),
        (200, &[START, WORD, REFUSED], 1), // its last usage did not come
        (200, &[START, REFUSED], 0),
        (200, &[START, WORD, END], 0),
        (429, &[REFUSED], 0),
        (400, &[FILTERED], 1),
        (503, &["no service"], 0),
        (302, &[], 0),
    ] {
        let bill = Bill::new();
        let mut stream = events(answer(status, data, false)).billed(&bill);
        assert_eq!(bill.unreported(), 0, "{status} {data:?}");
        while stream.next().now_or_never().unwrap().is_some() {}
        assert_eq!(bill.unreported(), unreported, "{status} {data:?}");
        drop(stream);
        assert_eq!(bill.unreported(), unreported, "{status} {data:?}");
    }
}

/// Anthropic reports the input and one token of output at the start, and the rest with the ending.
#[test]
fn a_stream_that_ends_before_its_last_usage_is_not_whole_on_the_bill() {
    const STOPPED: &str = r#"{"type":"message_stop"}"#;
    const COUNTED: &str = r#"{"choices":[],"usage":{"prompt_tokens":700,"completion_tokens":90}}"#;
    const WHOLE: &str = "790 tokens: 700 input, 90 output";
    const PART: &str = "701 tokens: 700 input, 1 output, and 1 attempt without a whole usage";
    const NONE: &str = "1 attempt without a whole usage";
    for (data, told) in [
        (&[START, WORD][..], PART),
        (&[START], PART),
        (&[START, WORD, END], WHOLE),
        (&[START, WORD, END, STOPPED], WHOLE),
        (&[START, WORD, CUT], "708 tokens: 700 input, 8 output"), // a bad ending
        (&[START, WORD, STOPPED], "701 tokens: 700 input, 1 output"), // no other one comes
        (&[WORD], NONE),
        (&[WORD, STOP], NONE),
        (&[WORD, STOP, COUNTED], WHOLE),
        (&[WORD, STOP, COUNTED, "[DONE]"], WHOLE),
    ] {
        for hangs in [true, false] {
            let (one, two) = (Bill::new(), Bill::new());
            let mut stream = events(answer(200, data, hangs)).billed(&one);
            while stream.next().now_or_never().is_some_and(|item| item.is_some()) {}
            if hangs {
                stream = stream.billed(&two); // its entry moves
            }
            drop(stream);
            let bill = if hangs { two } else { one };
            // The ending of a bad one has come, whether its body ends or not.
            assert_eq!(bill.to_string(), told, "{hangs} {data:?}");
        }
    }
}

#[test]
fn a_dropped_stream_is_unreported_on_the_bill_that_it_was_on() {
    let (one, two) = (Bill::new(), Bill::new());
    let moved = events(answer(200, &[WORD], true)).billed(&one).billed(&two);
    assert_eq!((one.unreported(), two.unreported()), (0, 0));
    drop(moved);
    assert_eq!((one.unreported(), two.unreported()), (0, 1));
    // Its entry moves behind its end.
    let mut ended = events(answer(200, &[WORD], false)).billed(&one);
    while ended.next().now_or_never().unwrap().is_some() {}
    drop(ended.billed(&two));
    assert_eq!((one.unreported(), two.unreported()), (1, 1));
}

#[test]
fn a_bill_says_how_many_attempts_are_not_in_its_sum() {
    let bill = Bill::new();
    let mut lines = Vec::new();
    for data in [&[WORD][..], &[WORD], &[START, WORD, END]] {
        drop(events(answer(200, data, true)).billed(&bill));
        lines.push(bill.to_string());
        let mut stream = events(answer(200, data, true)).billed(&bill);
        while stream.next().now_or_never().is_some_and(|item| item.is_some()) {}
    }
    assert_eq!(
        lines,
        [
            "1 attempt without a whole usage",
            "3 attempts without a whole usage",
            "5 attempts without a whole usage",
        ]
    );
    let line = "790 tokens: 700 input, 90 output, and 5 attempts without a whole usage";
    assert_eq!(bill.to_string(), line);
}

#[test]
fn a_failure_is_unreported_if_its_request_may_have_been_answered() {
    use std::io::{Error, ErrorKind};
    let found =
        |body: &str| Reply::new(body.as_bytes()).with_status(200).find(std::time::UNIX_EPOCH);
    for (failure, unreported) in [
        (Failure::from(Error::from(ErrorKind::ConnectionReset)), 1),
        (Failure::from(Error::from(ErrorKind::ConnectionRefused)), 0), // never left
        (Failure::invalid_output("no JSON"), 1),
        (found(r#"{"choices":[{"finish_reason":"content_filter"}]}"#).unwrap(), 1),
        (found(r#"{"choices":[{"finish_reason":"error"}]}"#).unwrap(), 1),
        (found(r#"{"choices":[{"mess"#).unwrap(), 1), // breaks off
        (found(REFUSED).unwrap(), 0),
        (Failure::from_text(400, "invalid prompt"), 0),
        (Failure::from_text(401, ""), 0),
        (Failure::from_text(500, ""), 0),
        (Failure::from_text(504, "upstream request timeout"), 0),
    ] {
        let bill = Bill::new();
        let answer = bill.note(ready(Err::<&str, _>(failure.clone())));
        answer.now_or_never().unwrap().unwrap_err();
        assert_eq!(bill.unreported(), unreported, "{failure:?}");
        // So does one before the stream begins.
        let bill = Bill::new();
        let stream = bill.events(ready(Err::<Response<Body>, _>(failure.clone())));
        stream.now_or_never().unwrap().unwrap_err();
        assert_eq!(bill.unreported(), unreported, "{failure:?}");
    }
}

/// The large model is silent, breaks off after a word and refuses, and the small one answers.
fn of_model(model: &str, attempt: Attempt) -> Response<Body> {
    match (model, attempt.number()) {
        ("large", 1) => answer(200, &[START], true),
        ("large", 2) => answer(200, &[START, WORD], false),
        ("large", _) => answer(402, &["insufficient_quota"], false),
        _ => answer(200, &[START, WORD, END], false),
    }
}

#[tokio::test(start_paused = true)]
async fn all_attempts_of_a_fallback_are_on_one_bill_and_its_future_is_send() {
    let bill = Bill::new();
    let of_all = bill.clone();
    let task = tokio::spawn(async move {
        let ask = |model: Alternative<'_, &'static str>| {
            let (bill, model) = (of_all.clone(), *model.value());
            let open = move |attempt| {
                let events = events(of_model(model, attempt)).billed(&bill);
                std::future::ready(Ok::<_, Failure>(events))
            };
            let policy = resile_llm::interactive().with_attempt_timeout(Duration::from_secs(9));
            retry_events(open, policy, Never)
                .with_resumption(|_| Resumption::Restart(Event::new("restart", "")))
                .try_fold(String::new(), |mut shown, event| {
                    if event.name() == "restart" {
                        shown.clear();
                    }
                    shown.push_str(&event.text());
                    std::future::ready(Ok(shown))
                })
        };
        // The word of the large model is still there, and this consumer begins each model anew.
        let next_model = |gave_up: &GaveUp<Failure>| another_model(gave_up) || gave_up.is_partial();
        let next = FallbackPolicy::new().with_classifier(next_model);
        fallback(&["large", "small"], ask, next, Never).await.map_err(|_| "no answer")
    });
    let began = Instant::now();
    assert_eq!(task.await.unwrap(), Ok("A scarf.".to_owned()));
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(bill.total(), tokens(2_100, 92));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_cut_before_its_answer_counts_as_unreported() {
    let (whole, streamed) = (Bill::new(), Bill::new());
    let policy = resile_llm::interactive().with_attempt_timeout(Duration::from_secs(1));
    let ask = |_| whole.note(pending::<Result<String, Failure>>());
    assert!(retry(ask, policy, Never).await.is_err());
    assert_eq!(whole.to_string(), "4 attempts without a whole usage");
    let none = Usage::new();
    assert_eq!(format!("{whole:?}"), format!("Bill {{ total: {none:?}, unreported: 4 }}"));

    let open = |_| streamed.events(pending::<Result<Response<Body>, Failure>>());
    let mut call = pin!(retry_events(open, policy, Never));
    assert!(call.next().await.unwrap().is_err());
    assert_eq!(streamed.to_string(), "4 attempts without a whole usage");
}

/// Three whole answers are cut in their bodies, and then the other model answers.
#[tokio::test(start_paused = true)]
async fn answers_that_are_cut_in_their_bodies_stand_beside_the_good_one() {
    let bill = Bill::new();
    let ask = |model: Alternative<'_, &'static str>| {
        let model = *model.value();
        let of_all = bill.clone();
        let read = move || async move {
            match model {
                "large" => pending().await,
                _ => Ok::<_, Failure>(r#"{"usage":{"prompt_tokens":20,"completion_tokens":4}}"#),
            }
        };
        let policy = resile_llm::interactive().with_attempts(3);
        let policy = policy.with_attempt_timeout(Duration::from_secs(9));
        retry(move |_| of_all.note(read()), policy, Never)
    };
    let next = FallbackPolicy::new().with_classifier(another_model);
    fallback(&["large", "small"], ask, next, Never).await.unwrap();
    let told = "24 tokens: 20 input, 4 output, and 3 attempts without a whole usage";
    assert_eq!(bill.to_string(), told);
}

/// No request is small enough for a rate of 0, and the words name the rate.
#[tokio::test(start_paused = true)]
async fn a_rate_of_zero_does_not_advise_a_smaller_request() {
    let model = Upstream::new("model").with_quota(Quota::new().with_tokens(Rate::per_minute(0)));
    let ask = async |_| Ok::<(), Failure>(());
    let call = retry(ask, resile_llm::interactive(), Never).on(model.at_cost(Cost::input(1)));
    let gave_up = call.await.unwrap_err();
    assert_eq!(resile_llm::recovery(&gave_up), Recovery::SwitchModel);
    let words = "the cost of 1 tokens is above the quota's rate of 0 (`with_tokens`)";
    assert!(gave_up.to_string().ends_with(words), "{gave_up}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_never_began_counts_as_nothing() {
    let bill = Bill::new();
    drop(bill.note(pending::<Result<String, Failure>>()));
    drop(bill.events(pending::<Result<Response<Body>, Failure>>()));
    let quota = Quota::new().with_tokens(Rate::per_minute(1_000));
    let model = Upstream::new("model").with_quota(quota);
    let ask = |_| bill.note(pending::<Result<String, Failure>>());
    let held = retry(ask, resile_llm::interactive(), Never).on(model.at_cost(Cost::input(2_000)));
    let gave_up = held.await.unwrap_err();
    assert_eq!(gave_up.reason(), StopReason::TooLarge);
    assert_eq!(resile_llm::recovery(&gave_up), Recovery::Shrink);
    assert_eq!(bill.to_string(), "0 tokens");
}

/// The events count once: the attempt leaves its place to them.
#[test]
fn a_stream_counts_once_from_its_request_on() {
    for (status, data, told) in [
        (200, &[START, WORD, END][..], "790 tokens: 700 input, 90 output"),
        (200, &[WORD], "1 attempt without a whole usage"),
        (429, &[REFUSED], "0 tokens"),
        (400, &[FILTERED], "1 attempt without a whole usage"),
    ] {
        let bill = Bill::new();
        let sent = bill.events(ready(Ok::<_, Failure>(answer(status, data, false))));
        let stream = sent.now_or_never().unwrap().unwrap();
        assert_eq!(bill.to_string(), "no usage", "{status} {data:?}");
        stream.collect::<Vec<_>>().now_or_never().unwrap();
        assert_eq!(bill.to_string(), told, "{status} {data:?}");
    }
}
