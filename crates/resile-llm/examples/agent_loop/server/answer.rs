//! The HTTP answers of the provider.

use std::future::pending;
use std::io;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Response;
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};

use super::script::{Act, Fault};

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Returns the answer to one request.
pub(super) async fn answer(act: Act) -> Result<Response<Body>, hyper::http::Error> {
    let limited = || Response::builder().status(429).header("content-type", "application/json");
    let fault = match act {
        Act::Call(name, arguments) => return stream_of(call(name, arguments), End::Whole),
        Act::Fail(fault) => fault,
    };
    match fault {
        Fault::HintMillis => limited().header("retry-after-ms", 600).body(rate("Slow down.")),
        Fault::HintSeconds => limited().header("retry-after", 1).body(rate("Slow down.")),
        Fault::HintDate => {
            let now = SystemTime::now();
            let date = |at| httpdate::fmt_http_date(at);
            let answer = limited().header("date", date(now));
            answer
                .header("retry-after", date(now + Duration::from_secs(1)))
                .body(rate("Slow down."))
        }
        Fault::HintBody => {
            let info = json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.7s" });
            let error = json!({ "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Slow down.", "details": [info] });
            limited().body(full(json!({ "error": error }).to_string()))
        }
        Fault::HintReset => limited()
            .header("x-ratelimit-remaining-requests", 0)
            .header("x-ratelimit-reset-requests", "800ms")
            .body(rate("Slow down.")),
        Fault::HintSentence => {
            limited().body(rate("Rate limit reached. Please try again in 0.9s."))
        }
        Fault::Quota => {
            let error = json!({
                "type": "insufficient_quota", "code": "insufficient_quota", "resets_in_seconds": 86_400,
                "message": "You exceeded your current quota, please check your plan and billing details.",
            });
            limited().body(full(json!({ "error": error }).to_string()))
        }
        Fault::Unavailable => json_of(
            503,
            &json!({ "message": "The server is busy.", "code": "service_unavailable" }),
        ),
        Fault::Overloaded => {
            json_of(529, &json!({ "type": "overloaded_error", "message": "Overloaded" }))
        }
        Fault::Html => page(500, "<html><body><h1>Internal Server Error</h1></body></html>"),
        Fault::ErrorIn200 => {
            json_of(200, &json!({ "message": "The upstream gave up.", "code": 502 }))
        }
        Fault::TooLong => {
            let message = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.";
            json_of(
                400,
                &json!({ "type": "invalid_request_error", "code": "context_length_exceeded", "message": message }),
            )
        }
        Fault::Hang | Fault::Reset => pending().await,
        Fault::Drip => stream_of(vec![chunk(&json!({ "role": "assistant" }), None)], End::Drip),
        Fault::Cut => {
            let mut half = call("send_mail", r#"{"to":"ada","text":"this call was cut off"}"#);
            half.truncate(4);
            stream_of(half, End::Cut)
        }
        Fault::ErrorEvent => {
            let error =
                json!({ "error": { "type": "server_error", "message": "The model stumbled." } });
            let text = chunk(&json!({ "role": "assistant", "content": "Let me" }), None);
            stream_of(vec![text, error.to_string()], End::Whole)
        }
        Fault::Malformed => {
            stream_of(vec![r#"{"choices":[{"delta":{"content":"Hel"#.to_owned()], End::Whole)
        }
    }
}

/// Returns an HTML page.
pub(super) fn page(status: u16, html: &'static str) -> Result<Response<Body>, hyper::http::Error> {
    Response::builder().status(status).header("content-type", "text/html").body(full(html))
}

/// Returns the events of an answer with a tool call. The arguments come in pieces.
fn call(name: &str, arguments: &str) -> Vec<String> {
    let of = |id: Option<&str>, name: Option<&str>, arguments: &str| {
        let mut call = json!({ "index": 0, "function": { "arguments": arguments } });
        if let (Some(id), Some(name)) = (id, name) {
            (call["id"], call["type"], call["function"]["name"]) =
                (json!(id), json!("function"), json!(name));
        }
        chunk(&json!({ "tool_calls": [call] }), None)
    };
    let mut events = vec![
        chunk(&json!({ "role": "assistant", "content": null }), None),
        of(Some("call_1"), Some(name), ""),
    ];
    let letters: Vec<char> = arguments.chars().collect();
    events.extend(letters.chunks(12).map(|part| of(None, None, &part.iter().collect::<String>())));
    events.push(chunk(&json!({}), Some("tool_calls")));
    let usage = json!({ "prompt_tokens": 120, "completion_tokens": letters.len(), "total_tokens": 120 + letters.len() });
    events.push(
        json!({ "object": "chat.completion.chunk", "choices": [], "usage": usage }).to_string(),
    );
    events
}

/// Returns one event with a delta.
fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice] })
        .to_string()
}

/// The end of a stream.
#[derive(Clone, Copy)]
enum End {
    /// The stream ends as it should.
    Whole,
    /// The connection breaks.
    Cut,
    /// A character comes every 250 ms, without an end.
    Drip,
}

/// Returns an answer with these events and this end.
fn stream_of(events: Vec<String>, end: End) -> Result<Response<Body>, hyper::http::Error> {
    let frame = |data: String| Ok(Frame::data(Bytes::from(format!("data: {data}\n\n"))));
    let events = stream::iter(events.into_iter().map(frame));
    let end = match end {
        End::Whole => stream::iter([frame("[DONE]".to_owned())]).boxed(),
        End::Cut => stream::once(async {
            // The earlier events need time to leave.
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(io::ErrorKind::ConnectionAborted.into())
        })
        .boxed(),
        End::Drip => stream::repeat(chunk(&json!({ "content": "." }), None))
            .then(move |letter| async move {
                tokio::time::sleep(Duration::from_millis(250)).await;
                frame(letter)
            })
            .boxed(),
    };
    let body = StreamBody::new(events.chain(end)).boxed_unsync();
    Response::builder().header("content-type", "text/event-stream").body(body)
}

/// Returns the body of a rate limit error.
fn rate(message: &str) -> Body {
    let error = json!({ "type": "requests", "code": "rate_limit_exceeded", "message": message });
    full(json!({ "error": error }).to_string())
}

/// Returns an answer with a JSON error.
fn json_of(status: u16, error: &Value) -> Result<Response<Body>, hyper::http::Error> {
    let body = full(json!({ "error": error }).to_string());
    Response::builder().status(status).header("content-type", "application/json").body(body)
}

pub(super) fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}
