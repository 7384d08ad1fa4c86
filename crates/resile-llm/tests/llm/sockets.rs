//! A quota and the answers of an LLM provider over real sockets, on a manual clock.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::Response;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use resile::quota::{Charge, Cost, Dimension, Rate, Usage};
use resile::time::ManualTimer;
use resile::{Never, Quota, RetryPolicy, Upstream, retry};
use resile_llm::{self as llm, Failure};
use tokio::net::{TcpListener, TcpSocket};

/// Starts a server that gives these answers in their order.
async fn serve(answers: Vec<Response<Full<Bytes>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answers = answers.clone();
            let service = service_fn(move |_| {
                let answer = answers.lock().unwrap().next().expect("an answer for each request");
                async move { Ok::<_, Infallible>(answer) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Response<Full<Bytes>> {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(body.to_owned().into()).unwrap()
}

async fn ask(client: &reqwest::Client, address: SocketAddr) -> Result<Vec<u8>, Failure> {
    llm::read_answer(client.get(format!("http://{address}/")).send().await?).await
}

const OK: &str = r#"{
    "choices": [{ "finish_reason": "stop", "message": { "role": "assistant", "content": "hi" } }],
    "usage": { "prompt_tokens": 700, "completion_tokens": 50, "total_tokens": 750 }
}"#;
const LIMIT: &str =
    r#"{ "error": { "code": "rate_limit_exceeded", "message": "Rate limit reached" } }"#;
const BUSY: &str = r#"{ "type": "error", "error": { "type": "rate_limit_error",
    "message": "Server is temporarily limiting requests (not your usage limit)" } }"#;

/// Makes one call at a cost of 700 + 300 tokens, and returns the level of 10,000 after it.
async fn level_after(answer: Response<Full<Bytes>>) -> (bool, Option<i64>) {
    let address = serve(vec![answer]).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let quota = Quota::new().with_tokens(Rate::per_minute(10_000));
    let upstream = Upstream::new("model").with_quota(quota).with_timer(ManualTimer::new());
    let policy = RetryPolicy::none().with_classifier(llm::Classifier::new());
    let cost = Cost::input(700).with_max_output(300);
    let outcome = retry(|_| ask(&client, address), policy, Never).on(upstream.at_cost(cost)).await;
    (outcome.is_ok(), upstream.quota_level(Dimension::Tokens))
}

#[tokio::test]
async fn an_answer_settles_its_usage_and_its_headers_lower_the_level() {
    assert_eq!(level_after(answer(200, &[], OK)).await, (true, Some(9_250)));
    let told = [("x-ratelimit-remaining-tokens", "400")];
    // The headers came before the output of 50 tokens was charged.
    assert_eq!(level_after(answer(200, &told, OK)).await, (true, Some(350)));
    // Azure sends 0 and -1 for what it does not know.
    for unknown in ["0", "-1"] {
        let told = [("x-ratelimit-remaining-tokens", unknown)];
        assert_eq!(level_after(answer(200, &told, OK)).await, (true, Some(9_250)), "{unknown}");
    }
}

/// A provider charges an answer that its token limit cut off.
#[tokio::test]
async fn an_answer_with_a_bad_ending_has_its_usage() {
    let cut = OK.replace("stop", "length");
    let address = serve(vec![answer(200, &[], &cut)]).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let failure = ask(&client, address).await.unwrap_err();
    assert_eq!(failure.usage(), Usage::new().with_input(700).with_output(50));
    assert_eq!(level_after(answer(200, &[], &cut)).await, (false, Some(9_250)));
    // A refusal costs nothing, whatever it says.
    let address = serve(vec![answer(429, &[], &cut)]).await;
    assert_eq!(ask(&client, address).await.unwrap_err().usage(), Usage::new());
}

#[tokio::test]
async fn a_refusal_lowers_the_level_unless_it_is_an_overload() {
    // Without a report nothing refills for a sixteenth of the minute.
    assert_eq!(level_after(answer(429, &[], LIMIT)).await, (false, Some(-625)));
    let told = [("x-ratelimit-remaining-tokens", "400")];
    assert_eq!(level_after(answer(429, &told, LIMIT)).await, (false, Some(400)));
    assert_eq!(level_after(answer(429, &[], BUSY)).await, (false, Some(10_000)));
    assert_eq!(level_after(answer(529, &[], "overloaded")).await, (false, Some(10_000)));
    // The provider may have charged a request that failed.
    assert_eq!(level_after(answer(500, &[], "oops")).await, (false, Some(9_000)));
}

/// An address that refuses connections: the port is bound but does not listen.
fn refusing() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[derive(Debug, thiserror::Error)]
#[error("no answer")]
struct Wrapped(#[source] Failure);

/// The levels of requests and of tokens.
fn levels(upstream: &Upstream<ManualTimer>) -> [Option<i64>; 2] {
    [Dimension::Requests, Dimension::Tokens].map(|dimension| upstream.quota_level(dimension))
}

/// Nothing was sent, so the next attempt has the whole burst again.
#[tokio::test]
async fn a_refused_connection_keeps_nothing_of_the_quota() {
    let (_socket, address) = refusing();
    let client = &reqwest::Client::builder().no_proxy().build().unwrap();
    let policy = RetryPolicy::none().with_classifier(llm::Classifier::new());
    let cost = Cost::input(700).with_max_output(300);
    for charge in [Charge::ACTUAL, llm::charge::OPENAI, llm::charge::BEDROCK] {
        let quota = Quota::new().with_tokens(Rate::per_minute(1_500)).with_charge(charge);
        let quota = quota.with_requests(Rate::per_minute(5));
        let upstream = Upstream::new("model").with_quota(quota).with_timer(ManualTimer::new());
        let full = levels(&upstream);
        let plain = retry(|_| ask(client, address), policy, Never);
        plain.on(upstream.at_cost(cost)).await.unwrap_err();
        assert_eq!(levels(&upstream), full, "{charge:?}");
        // An error type of one's own names its source.
        let wrapped = async |_| ask(client, address).await.map_err(Wrapped);
        let wrapped = retry(wrapped, policy, Never).on(upstream.at_cost(cost));
        wrapped.await.unwrap_err();
        assert_eq!(levels(&upstream), full, "{charge:?}");
        let raw = async |_| client.get(format!("http://{address}/")).send().await;
        retry(raw, policy, Never).on(upstream.at_cost(cost)).await.unwrap_err();
        assert_eq!(levels(&upstream), full, "{charge:?}");
    }
}

/// Starts a task that advances the clock to the end of the next sleep, whenever a call sleeps.
fn advance_past_sleeps(timer: &ManualTimer) -> tokio::task::JoinHandle<()> {
    let timer = timer.clone();
    tokio::spawn(async move {
        loop {
            match timer.until_next() {
                Some(left) => timer.advance(left),
                None => tokio::task::yield_now().await,
            }
        }
    })
}

/// Nothing but the level of the quota tells the second call to wait.
#[tokio::test]
async fn the_next_call_waits_for_what_the_headers_reported() {
    let told = [("x-ratelimit-remaining-tokens", "400")];
    let address = serve(vec![answer(200, &told, OK), answer(200, &[], OK)]).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let timer = ManualTimer::new();
    let quota = Quota::new().with_tokens(Rate::per_minute(6_000));
    let upstream = Upstream::new("model").with_quota(quota).with_timer(&timer);
    let hands = advance_past_sleeps(&timer);
    let policy = RetryPolicy::none().with_classifier(llm::Classifier::new());
    let cost = Cost::input(700).with_max_output(300);
    for waited in [0, 6_500] {
        let call = retry(|_| ask(&client, address), policy, Never).on(upstream.at_cost(cost));
        call.await.unwrap();
        // 350 tokens are left, and 650 refill in 6.5 s.
        assert_eq!(resile::time::Timer::now(&timer), Duration::from_millis(waited));
    }
    hands.abort();
}

/// The words name the place, without what may be a key, and each text once.
#[tokio::test]
async fn a_refused_connection_names_its_place() {
    let (_socket, address) = refusing();
    let send = async || {
        let url = format!("http://me:s3cret@{address}/v1/chat?key=s3cret#s3cret");
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        client.get(url).send().await.unwrap_err()
    };
    let failure = Failure::from(send().await);
    let words = failure.to_string();
    let start = format!("no connection to http://{address}/v1/chat: Connection refused (os error ");
    assert!(words.starts_with(&start) && words.ends_with(')'), "{words}");
    assert!(!format!("{failure:?}").contains("s3cret"), "{failure:?}");
    assert_eq!(Failure::from_transport(&send().await).to_string(), words);

    let call = retry(
        async |_| Err::<(), _>(send().await.into()),
        RetryPolicy::new().with_attempts(1).with_classifier(llm::Classifier::new()),
        Never,
    );
    let gave_up: resile::GaveUp<Failure> = call.on("model").await.unwrap_err();
    let line = format!("{gave_up:#}");
    assert!(line.ends_with(&words), "{line}");
    let named = format!("{words} (local)");
    assert_eq!(failure.clone().with_provider("local").to_string(), named);
    // The layers of the client stand in no line.
    let call = retry(
        async |_| Err::<(), _>(failure.clone().with_provider("local")),
        RetryPolicy::new().with_attempts(1).with_classifier(llm::Classifier::new()),
        Never,
    );
    let line = format!("{:#}", call.on("model").await.unwrap_err());
    assert!(line.ends_with(&named), "{line}");
}
