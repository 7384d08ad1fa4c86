//! An agent asks a model, runs the tools that the model calls, and ends with an answer. Its models
//! are limited, overloaded and out of credit, and its tools fail. Run it with:
//!
//! ```sh
//! cargo run --example agent
//! ```
//!
//! A scripted server in this file has the models and the tools, so the example needs no key.
//! `OPENAI_BASE_URL` names another server with chat completions, for the models only.
//! `OPENAI_MODEL` names one of its models, or several separated by commas:
//!
//! ```sh
//! OPENAI_BASE_URL=http://localhost:11434/v1 OPENAI_MODEL=qwen3 cargo run --example agent
//! ```
//!
//! The example has no TLS. For an `https` address add `--features reqwest/rustls`, and set
//! `OPENAI_API_KEY`. The exit code is 0 after an answer, and 1 without one. Ctrl-C stops the agent.

use std::env;
use std::time::Duration;

use anyhow::bail;
use resile::fallback::Alternative;
use resile::{
    Breaker, Budget, Cooldown, FallbackPolicy, GaveUp, RetryPolicy, Upstream, fallback, http, retry,
};
use resile_llm::{Classifier, Failure, Recovery};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::format::debug_fn;

const TASK: &str = "What do I wear in Paris and in Atlantis? Mail it to ann@example.com.";

/// The most turns of a run, because a model may call tools for ever.
const TURNS: u32 = 8;

/// The time limit of a run.
const RUN_LIMIT: Duration = Duration::from_secs(300);

/// The time limit of a turn with all its models, attempts and waits.
const TURN_LIMIT: Duration = Duration::from_secs(90);

/// The retries of one model. A short wait after an overload lets one read along. The default of two
/// seconds suits a real provider.
const MODEL_POLICY: RetryPolicy<Classifier> = resile_llm::interactive()
    .with_attempts(3)
    .with_attempt_timeout(Duration::from_secs(60))
    .with_classifier(Classifier::new().with_overload_floor(Duration::from_millis(500)));

/// The retries of a tool. The classifier depends on the tool.
const TOOL_POLICY: RetryPolicy =
    RetryPolicy::new().with_attempts(3).with_attempt_timeout(Duration::from_secs(1));

/// The state that all calls to the tools share.
static TOOLS: Upstream = Upstream::new("tools").with_budget(Budget::new());

/// Returns the state that all calls to one model share. After four bad answers of five the breaker
/// refuses calls for a while, so the next turn does not wait for this model.
fn model(name: &str) -> Upstream {
    Upstream::named(name)
        .with_budget(Budget::new())
        .with_breaker(Breaker::new().with_failure_rate(0.8, 5))
        .with_cooldown(Cooldown::new())
}

struct Agent {
    /// The best model comes first.
    models: Vec<Upstream>,
    /// The address of the models.
    base: String,
    key: String,
    /// The address of the tools.
    tools: String,
    http: reqwest::Client,
    /// Stops the calls to models and tools.
    token: CancellationToken,
}

impl Agent {
    /// Asks the models and runs tools until an answer calls no tool.
    async fn run(&self, task: &str) -> anyhow::Result<String> {
        println!("user: {task}");
        let deadline = Instant::now() + RUN_LIMIT;
        let mut messages = vec![json!({ "role": "user", "content": task })];
        for _ in 0..TURNS {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.turn(&messages, left.min(TURN_LIMIT)).await?;
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            if calls.is_empty() {
                return Ok(message["content"].as_str().unwrap_or_default().to_owned());
            }
            messages.push(message);
            for call in calls {
                let text = |of: &str| call["function"][of].as_str().unwrap_or_default();
                println!("model: {}({})", text("name"), text("arguments"));
                let content = self.tool(text("name"), text("arguments")).await;
                println!("tool: {content}");
                let id = &call["id"];
                messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
            }
        }
        bail!("no answer within {TURNS} turns")
    }

    /// Asks one model after another until one answers. The fallback is outermost. Within it each
    /// model has its own retry, on its own upstream.
    async fn turn<'a>(
        &'a self,
        messages: &[Value],
        left: Duration,
    ) -> Result<Value, GaveUp<Failure>> {
        let policy = FallbackPolicy::new().with_total_timeout(left);
        let policy = policy.with_classifier(may_elsewhere);
        let one = |model: Alternative<'a, Upstream>| {
            // A model that hangs leaves time for the others. One that the end of the run cuts has not failed.
            let policy = MODEL_POLICY.shortened_to(model.share());
            let model = model.value();
            retry(move |_| self.ask(model.name(), messages), policy, &self.token).on(model)
        };
        let turn = fallback(&self.models, one, policy, &self.token).on("agent").await;
        turn.map_err(GaveUp::flatten)
    }

    /// Makes one attempt at one model.
    async fn ask(&self, model: &str, messages: &[Value]) -> Result<Value, Failure> {
        let body = json!({ "model": model, "messages": messages, "tools": tools() });
        let request = self.http.post(format!("{}/chat/completions", self.base));
        let request = request.bearer_auth(&self.key).header("content-type", "application/json");
        // A good status with an error inside is a failure too.
        let body = resile_llm::read_answer(request.body(body.to_string()).send().await?).await?;
        let mut answer = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        let message = answer.pointer_mut("/choices/0/message").map(Value::take);
        message.ok_or_else(|| Failure::invalid_output("an answer without a message"))
    }

    /// Runs a tool. Returns its result, or its failure in words for the model.
    async fn tool(&self, name: &str, arguments: &str) -> String {
        let classifier = match name {
            "forecast" => http::Classifier::idempotent(),
            // A mail must not be sent twice, so an attempt that was cut is not repeated.
            "send_mail" => http::Classifier::non_idempotent(),
            _ => return format!("There is no tool {name}."),
        };
        let policy = TOOL_POLICY.with_classifier(classifier);
        let attempt = |_| async move {
            let request = self.http.post(format!("{}/{name}", self.tools));
            let answer = request.body(arguments.to_owned()).send().await?;
            Ok::<_, http::Failure>(http::error_for_status(answer).await?.text().await?)
        };
        match retry(attempt, policy, &self.token).on(&TOOLS).await {
            Ok(result) => result,
            Err(gave_up) if !classifier.is_idempotent() && may_have_acted(&gave_up) => {
                format!("{gave_up:#}. It may have worked all the same. Do not repeat it.")
            }
            Err(gave_up) => format!("{gave_up:#}"),
        }
    }
}

/// Returns whether another model may answer. A wrong request is wrong everywhere. An overload, an
/// empty account, an open breaker and a timeout concern one model.
fn may_elsewhere(gave_up: &GaveUp<Failure>) -> bool {
    use Recovery::{FixRequest, Rephrase, Shrink, Split};
    let recovery = gave_up.last().map(Failure::recovery);
    !matches!(recovery, Some(FixRequest | Rephrase | Shrink | Split))
}

/// Returns whether the tool may have done its work before the call failed.
fn may_have_acted(gave_up: &GaveUp<http::Failure>) -> bool {
    let acted = |failure: &http::Failure| match failure.status() {
        Some(status) => status.is_server_error(),
        None => !failure.is_not_sent(),
    };
    gave_up.cut().is_some() || gave_up.last().is_some_and(acted)
}

/// Returns the tools as the model sees them.
fn tools() -> Value {
    let tool = |name, about, parameters: Value, required: Value| {
        let schema = json!({ "type": "object", "properties": parameters, "required": required });
        let function = json!({ "name": name, "description": about, "parameters": schema });
        json!({ "type": "function", "function": function })
    };
    let text = json!({ "type": "string" });
    let (city, mail) = (json!({ "city": text }), json!({ "to": text, "text": text }));
    json!([
        tool("forecast", "Returns the weather of a city.", city, json!(["city"])),
        tool("send_mail", "Sends a mail.", mail, json!(["to", "text"])),
    ])
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // The message of an event is enough here. Its fields have the same facts for a machine.
    let message = debug_fn(|to, field, value| match field.name() {
        "message" => write!(to, "{value:?}"),
        _ => Ok(()),
    });
    tracing_subscriber::fmt().fmt_fields(message).with_target(false).without_time().init();

    let token = CancellationToken::new();
    tokio::spawn({
        let token = token.clone();
        async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                println!("stop: Ctrl-C");
                token.cancel();
            }
        }
    });

    let tools = server::start().await?;
    let var = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let base = var("OPENAI_BASE_URL", &tools).trim_end_matches('/').to_owned();
    let models = var("OPENAI_MODEL", "large,medium,small").split(',').map(model).collect();
    // Retries at two levels multiply, so the client makes none. A redirect after a mail would be followed by a
    // GET, whose failure looks like that of the mail.
    let http = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .redirect(reqwest::redirect::Policy::none());
    let http = if base == tools { http.no_proxy() } else { http }.build()?;
    let agent = Agent { models, base, key: var("OPENAI_API_KEY", ""), tools, http, token };
    println!("answer: {}", agent.run(TASK).await?);
    Ok(())
}

/// A server with three models and two tools. It follows a script.
mod server {
    use std::collections::BTreeMap;
    use std::future::pending;
    use std::io;
    use std::sync::Mutex;

    use http_body_util::{BodyExt, Full};
    use hyper::body::{Bytes, Incoming};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use hyper_util::rt::TokioIo;
    use serde_json::{Value, json};

    /// The number of requests to each model, for each city and to each tool.
    static SEEN: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

    /// Starts the server on a free loopback port and returns its URL.
    pub(crate) async fn start() -> io::Result<String> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (stream, answer) = (TokioIo::new(stream), service_fn(answer));
                tokio::spawn(http1::Builder::new().serve_connection(stream, answer));
            }
        });
        Ok(url)
    }

    async fn answer(request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let subject = body["model"].as_str().or(body["city"].as_str()).unwrap_or(&path);
        let nth = {
            let mut seen = SEEN.lock().unwrap();
            let count = seen.entry(subject.to_owned()).or_default();
            *count += 1;
            *count
        };
        let status = |code: u16| Response::builder().status(code);
        let error = |code| json!({ "error": { "type": code, "code": code } }).to_string();
        let city = |city| json!({ "city": city });
        let mail = || json!({ "to": "ann@example.com", "text": "Take a coat to Paris." });
        let (head, text) = match (subject, nth) {
            ("large", 1) => (status(429).header("retry-after", 1), error("rate_limit_exceeded")),
            ("large", 2) => (status(200), calls("forecast", &[city("Paris"), city("Atlantis")])),
            ("large", _) => (status(529), error("overloaded_error")),
            ("medium", _) => (status(429), error("insufficient_quota")),
            ("small", 1) => (status(200), calls("send_mail", &[mail()])),
            ("small", _) => (status(200), completion(&json!({ "content": ADVICE }))),
            ("Paris", 1) => (status(503), String::new()),
            ("Paris", _) => (status(200), "8 °C and rain".to_owned()),
            ("/send_mail", _) => pending().await,
            _ => (status(404), "no such city".to_owned()),
        };
        Ok(head.body(text.into())?)
    }

    const ADVICE: &str = "Take a coat to Paris, where it rains at 8 °C. There is no forecast for \
        Atlantis. It is not known whether the mail was sent, so look before you send it again.";

    /// Returns an answer that calls a tool once for each of the arguments.
    fn calls(name: &str, arguments: &[Value]) -> String {
        let call = |(id, arguments): (usize, &Value)| {
            let function = json!({ "name": name, "arguments": arguments.to_string() });
            json!({ "id": format!("{name}-{id}"), "type": "function", "function": function })
        };
        let calls: Vec<_> = arguments.iter().enumerate().map(call).collect();
        completion(&json!({ "role": "assistant", "tool_calls": calls }))
    }

    fn completion(message: &Value) -> String {
        json!({ "choices": [{ "message": message }] }).to_string()
    }
}
