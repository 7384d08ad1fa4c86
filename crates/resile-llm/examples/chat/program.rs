use futures_util::TryStreamExt;
use resile::quota::{Cost, Rate};
use resile::{FallbackPolicy, GaveUp, Never, Quota, StreamResilienceExt, Upstream, fallback};
use resile_llm::{Bill, Failure, another_model, charge, retry_events};
use std::io::{Write, stdout};
use std::time::Duration;

const fn model(name: &'static str) -> Upstream {
    let quota = Quota::new().with_tokens(Rate::per_minute(30_000)).with_charge(charge::OPENAI);
    resile_llm::upstream(name).with_quota(quota).with_breaker(resile_llm::breaker())
}
const LIMIT: Duration = Duration::from_secs(240); // of all models together
static MODELS: [Upstream; 2] = [model("gpt-4o"), model("gpt-4o-mini")];

/// Asks the models in turn until one has shown a word. Bills all attempts.
async fn chat(
    post: &impl Fn() -> reqwest::RequestBuilder,
    models: &[Upstream],
    question: &str,
    show: &impl Fn(&str),
    bill: &Bill,
) -> Result<(), GaveUp<Failure>> {
    let policy = resile_llm::interactive().with_attempt_timeout(Duration::from_secs(20));
    let next = FallbackPolicy::new().with_total_timeout(LIMIT).with_classifier(another_model);
    let ask = async |model: &Upstream, share: Duration, rest: Duration| {
        let body = serde_json::json!({
            "model": model.name(), "max_completion_tokens": 1_000,
            "stream": true, "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": question }],
        });
        let open = async |_| {
            let events = bill.events(post().json(&body).send()).await?;
            Ok(events.idle_timeout(Duration::from_secs(30)))
        };
        retry_events(open, policy.with_total_timeout(share), Never)
            .with_whole_timeout(rest)
            .on(model.at_cost(Cost::input(question.len() as u64 / 3).with_max_output(1_000)))
            .try_for_each(async |event| {
                show(&event.text());
                Ok(())
            })
            .await
    };
    let answer = fallback(models, |it| ask(it.value(), it.share(), it.remaining()), next, Never);
    answer.on("chat").await.map_err(GaveUp::flatten)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let http = reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
    let url = std::env::var("OPENAI_BASE_URL")? + "/chat/completions";
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_default();
    let post = || http.post(&url).bearer_auth(&key);
    let show = |words: &str| {
        print!("{words}");
        stdout().flush().unwrap_or_default();
    };
    let bill = Bill::new();
    let end = chat(&post, &MODELS, "What do I wear in Paris at 8 °C?", &show, &bill).await;
    println!("\n{bill}");
    Ok(end?)
}
