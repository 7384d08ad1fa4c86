use std::time::SystemTime;

use resile::{Never, retry};
use resile_llm::{Failure, Reply};
use serde_json::{Value, json};

/// Returns the body of a good answer.
async fn read(answer: reqwest::Response) -> Result<Vec<u8>, Failure> {
    let (status, headers) = (answer.status(), answer.headers().clone());
    resile_llm::learn_limits(status, &headers);
    let body = answer.bytes().await.map_err(unanswered)?;
    resile_llm::record_usage(&body);
    let reply =
        Reply::new(&body).with_status(status.as_u16()).with_headers(&headers);
    match reply.find(SystemTime::now()) {
        Some(failure) => Err(failure),
        None => Ok(body.into()),
    }
}

/// The address is removed because it may hold a key.
fn unanswered(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    Failure::from_transport(&error).with_source(error)
}

/// One attempt.
async fn ask(
    http: &reqwest::Client,
    base: &str,
    question: &str,
) -> Result<String, Failure> {
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_default();
    let body = json!({
        "model": "gpt-4o-mini",
        "messages": [{ "role": "user", "content": question }],
    });
    let request = http
        .post(format!("{base}/chat/completions"))
        .bearer_auth(key)
        .header("content-type", "application/json")
        .body(body.to_string());
    let body = read(request.send().await.map_err(unanswered)?).await?;
    let words = serde_json::from_slice::<Value>(&body).ok().and_then(|it| {
        Some(it["choices"][0]["message"]["content"].as_str()?.to_owned())
    });
    words.ok_or_else(|| Failure::invalid_output("an answer without words"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (http, base) = (reqwest::Client::new(), "https://api.openai.com/v1");
    let question = "It is 8 °C and it rains in Paris. What do I wear?";
    let op = |_| ask(&http, base, question);
    let call = retry(op, resile_llm::interactive(), Never);
    println!("{}", call.await?);
    Ok(())
}
