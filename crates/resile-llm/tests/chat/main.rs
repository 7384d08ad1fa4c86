//! The program of the guide's chapter on streams, under faults. The table in the chapter is the one
//! that this test prints.

mod server;

use std::sync::Mutex;

use resile::StopReason;
use resile::fallback::Alternative;
use resile::quota::Usage;
use resile::stream::Resumption;
use resile_llm::{Event, Kind, Recovery, recovery};
use server::{Provider, Step, run_clock};
use tokio::time::Instant;

include!("../../examples/chat/program.rs");

/// A fault, and what the consumer of the stream must see.
struct Case {
    fault: &'static str,
    /// The answers of the first model.
    answers: Vec<Vec<Step>>,
    shown: &'static str,
    /// The requests to the first model and to the second.
    requests: (usize, usize),
    /// The bounds of the time in seconds.
    took: (u64, u64),
    end: End,
    /// True if the next model is asked after a part of an answer.
    goes_on: bool,
}

enum End {
    Answer,
    /// The call gave up. The kind is that of the last failure.
    GaveUp(StopReason, Option<Kind>),
}

const ROLE: &str = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
const HALF: &str = r#"{"choices":[{"delta":{"content":"A sc"#;

fn head(status: &str, headers: &str) -> Step {
    Step::Send(format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\n\r\n"))
}

fn events_of(data: &[&str]) -> Step {
    Step::Send(data.iter().flat_map(|data| ["data: ", data, "\n\n"]).collect())
}

fn word(word: &str) -> String {
    serde_json::json!({ "choices": [{ "delta": { "content": word }, "finish_reason": null }] })
        .to_string()
}

/// A stream that begins with these events.
fn stream(data: &[&str]) -> Vec<Step> {
    vec![head("200 OK", "content-type: text/event-stream\r\n"), events_of(data)]
}

fn with(mut steps: Vec<Step>, more: impl IntoIterator<Item = Step>) -> Vec<Step> {
    steps.extend(more);
    steps
}

/// A good answer from its first word on.
fn rest() -> Step {
    let stop = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3}}"#;
    events_of(&[&word("A "), &word("scarf."), stop, usage, "[DONE]"])
}

fn good() -> Vec<Step> {
    with(stream(&[ROLE]), [rest()])
}

fn refusal(status: &str, headers: &str, body: &str) -> Vec<Step> {
    vec![head(status, headers), Step::Send(body.to_owned())]
}

/// The fault comes once, and the same model gives the answer.
fn passing(fault: &'static str, answer: Vec<Step>, took: (u64, u64)) -> Case {
    let answers = vec![answer, good()];
    Case {
        fault,
        answers,
        shown: "A scarf.",
        requests: (2, 0),
        took,
        end: End::Answer,
        goes_on: false,
    }
}

/// The fault comes after a word.
fn partial(fault: &'static str, more: impl IntoIterator<Item = Step>, kind: Kind) -> Case {
    let answers = vec![with(stream(&[ROLE, &word("A ")]), more)];
    let end = End::GaveUp(StopReason::Partial, Some(kind));
    Case { fault, answers, shown: "A ", requests: (1, 0), took: (0, 1), end, goes_on: false }
}

fn cases() -> Vec<Case> {
    let rate = r#"{"error":{"message":"Slow down.","code":"rate_limit_exceeded"}}"#;
    let busy = r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#;
    let credit = r#"{"error":{"message":"No credit.","code":"insufficient_quota"}}"#;
    let pings = (0..8).flat_map(|_| [Step::Send(": ping\n\n".to_owned()), Step::Wait(5)]);
    let words = (0..60).flat_map(|_| [events_of(&[&word("la ")]), Step::Wait(10)]);
    let minutes = words.clone().take(30).chain([rest()]);
    let (soon, at_once) = ((0, 2), (0, 1));
    let down = r#"{"error":{"message":"Try again.","type":"server_error"}}"#;
    let event = |error| stream(&[ROLE, error]);
    let mut cases = vec![
        passing("429 with `retry-after: 7`", refusal("429 X", "retry-after: 7\r\n", rate), (7, 11)),
        passing("529: an overload waits for 2 s at least", refusal("529 X", "", busy), (2, 4)),
        passing("a reset before the first word", with(stream(&[ROLE]), [Step::Reset]), soon),
        partial("a reset after a word", [Step::Reset], Kind::Network),
        passing("`overloaded_error` as an event before the first word", event(busy), (2, 4)),
        passing("`server_error` as an event before the first word", event(down), soon),
        partial("a clean end without a last event", [], Kind::Network),
        passing("half a JSON as the first word", stream(&[ROLE, HALF]), soon),
        partial("half a JSON after a word", [events_of(&[HALF])], Kind::Network),
    ];
    // Four attempts of 20 s, and then the other model.
    cases.push(Case {
        fault: "nothing but pings",
        answers: vec![with(stream(&[ROLE]), pings)],
        shown: "A scarf.",
        requests: (4, 1),
        took: (80, 87),
        end: End::Answer,
        goes_on: false,
    });
    cases.push(Case {
        fault: "a first word after 15 s",
        answers: vec![with(stream(&[ROLE]), [Step::Wait(15), rest()])],
        shown: "A scarf.",
        requests: (1, 0),
        took: (15, 16),
        end: End::Answer,
        goes_on: false,
    });
    cases.push(Case {
        fault: "the quota is used up",
        answers: vec![refusal("429 X", "", credit)],
        shown: "A scarf.",
        requests: (1, 1),
        took: at_once,
        end: End::Answer,
        goes_on: false,
    });
    cases.push(Case {
        fault: "words for 150 s",
        answers: vec![with(stream(&[ROLE]), minutes)],
        shown: "la la la la la la la la la la la la la la la A scarf.",
        requests: (1, 0),
        took: (150, 151),
        end: End::Answer,
        goes_on: false,
    });
    cases.push(Case {
        fault: "words without an end",
        answers: vec![with(stream(&[ROLE]), words.clone())],
        shown: "la la la la la la la la la la la la la la la la la la la la la la la la ",
        requests: (1, 0),
        took: (240, 241),
        end: End::GaveUp(StopReason::Partial, None),
        goes_on: false,
    });
    // The second answer never begins, so the part of the first one is still there.
    let reset = with(stream(&[ROLE, &word("A ")]), [Step::Reset]);
    let key = r#"{"error":{"message":"Incorrect API key.","code":"invalid_api_key"}}"#;
    cases.push(Case {
        fault: "a reset after a word and then a wrong key, with `next_model`",
        answers: vec![reset, refusal("401 X", "", key)],
        shown: "A scarf.",
        requests: (2, 1),
        took: soon,
        end: End::Answer,
        goes_on: true,
    });
    // Each model has its share of the time.
    cases.push(Case {
        fault: "words without an end, with `next_model`",
        answers: vec![with(stream(&[ROLE]), words)],
        shown: "A scarf.",
        requests: (1, 1),
        took: (120, 121),
        end: End::Answer,
        goes_on: true,
    });
    let cut = r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#;
    let fault = "the token limit cuts the answer, with `next_model`";
    let limited = partial(fault, [events_of(&[cut])], Kind::InvalidOutput);
    let end = End::GaveUp(StopReason::Fatal, Some(Kind::InvalidOutput));
    cases.push(Case { end, goes_on: true, ..limited });
    cases
}

/// The second program of the chapter, with the requests of the first one.
async fn chat_anew(
    post: &impl Fn() -> reqwest::RequestBuilder,
    models: &[Upstream],
    shown: &Mutex<String>,
    bill: &Bill,
) -> Result<(), GaveUp<Failure>> {
    let next_model = |gave_up: &GaveUp<Failure>| {
        let is_over = gave_up.reason() == StopReason::Cancelled;
        let is_wrong = recovery(gave_up) == Recovery::FixRequest;
        another_model(gave_up) || gave_up.is_partial() && !is_over && !is_wrong
    };
    let clear = || shown.lock().unwrap().clear();
    let ask = async |model: Alternative<'_, Upstream>| {
        clear();
        let (upstream, share) = (model.value(), model.share());
        let body = serde_json::json!({ "model": upstream.name() });
        let open = |_| bill.events(post().json(&body).send());
        let policy = resile_llm::interactive().with_total_timeout(share);
        retry_events(open, policy, Never)
            .with_resumption(|_| Resumption::Restart(Event::new("restart", "")))
            .with_whole_timeout(share)
            .on(upstream)
            .try_for_each(async |event| {
                if event.name() == "restart" {
                    clear();
                }
                shown.lock().unwrap().push_str(&event.text());
                Ok(())
            })
            .await
    };
    let next = FallbackPolicy::new().with_total_timeout(LIMIT).with_classifier(next_model);
    let answer = fallback(models, ask, next, Never).on("chat").await;
    answer.map_err(GaveUp::flatten)
}

/// Makes one call. Returns its row of the table.
async fn row(case: Case) -> String {
    let provider = Provider::start("gpt-4o", &case.answers, good()).await;
    let http = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never());
    let (http, url) = (http.build().unwrap(), format!("{}/chat/completions", provider.base));
    let models = [model("gpt-4o"), model("gpt-4o-mini")];
    let shown = Mutex::new(String::new());
    let show = |word: &str| shown.lock().unwrap().push_str(word);
    let began = Instant::now();
    let post = || http.post(&url);
    let bill = Bill::new();
    let outcome = if case.goes_on {
        chat_anew(&post, &models, &shown, &bill).await
    } else {
        chat(&post, &models, "What do I wear?", &show, &bill).await
    };
    let took = began.elapsed().as_secs();

    let shown = shown.into_inner().unwrap();
    let requests = provider.requests.lock().unwrap();
    let first = requests.iter().filter(|model| *model == "gpt-4o").count();
    let fault = case.fault;
    assert_eq!(shown, case.shown, "{fault}: {outcome:?}");
    assert_eq!((first, requests.len() - first), case.requests, "{fault}: {outcome:?}");
    assert!((case.took.0..=case.took.1).contains(&took), "{fault}: {took} s, {outcome:?}");
    let end = match (case.end, outcome) {
        (End::Answer, Ok(())) => {
            assert_eq!(bill.total(), Usage::new().with_input(12).with_output(3), "{fault}");
            "the answer is whole".to_owned()
        }
        (End::GaveUp(reason, kind), Err(gave_up)) => {
            assert_eq!(gave_up.reason(), reason, "{fault}: {gave_up}");
            assert_eq!(bill.to_string(), "1 attempt without a whole usage", "{fault}");
            let last = gave_up.last().map(Failure::kind);
            assert_eq!(last, kind, "{fault}: {gave_up}");
            match kind {
                Some(kind) => format!("`{reason:?}`, with a failure of kind `{kind:?}`"),
                None => format!("`{reason:?}`, at the limit of the whole stream"),
            }
        }
        (_, outcome) => panic!("{fault}: {outcome:?}"),
    };
    let (first, second) = case.requests;
    let many = shown.matches("la ").count().saturating_sub(1).max(2);
    let shown = shown.trim().replace(&"la ".repeat(many), "la … ");
    format!("| {fault} | {shown} | {first} | {second} | {took} s | {end} |")
}

/// A model that hangs costs a question four attempts of 20 s, and these open its breaker.
#[tokio::test(start_paused = true)]
async fn an_open_breaker_leads_to_the_other_model_at_once() {
    let clock = run_clock();
    let pings = (0..8).flat_map(|_| [Step::Send(": ping\n\n".to_owned()), Step::Wait(5)]);
    let hang = with(stream(&[ROLE]), pings);
    let provider = Provider::start("gpt-4o", &vec![hang; 4], good()).await;
    let http = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never());
    let (http, url) = (http.build().unwrap(), format!("{}/chat/completions", provider.base));
    let models = [model("gpt-4o"), model("gpt-4o-mini")];
    let mut took = Vec::new();
    for _ in 0..2 {
        let (began, post, bill) = (Instant::now(), || http.post(&url), Bill::new());
        chat(&post, &models, "What do I wear?", &|_| {}, &bill).await.unwrap();
        took.push(began.elapsed().as_secs());
    }
    clock.abort();
    let first = provider.requests.lock().unwrap().iter().filter(|it| *it == "gpt-4o").count();
    assert_eq!(first, 4, "{took:?}");
    assert!((80..=87).contains(&took[0]) && took[1] <= 1, "{took:?}");
}

/// The chapter has this table. Its times are those of one run, so they are left out of the comparison.
#[tokio::test(start_paused = true)]
async fn each_fault_ends_as_the_chapter_says() {
    let clock = run_clock();
    let page = include_str!("../../docs/guide/streams.md");
    let essence = |row: &str| {
        let cells: Vec<_> = row.split(" | ").map(str::to_owned).collect();
        [&cells[..4], &cells[5..]].concat()
    };
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let told: Vec<_> =
        rows.iter().filter(|row| row.contains(" s | ")).map(|row| essence(row)).collect();
    let mut seen = Vec::new();
    for case in cases() {
        let row = Box::pin(row(case)).await;
        println!("{row}");
        seen.push(essence(&row));
    }
    clock.abort();
    assert_eq!(seen, told);
}
