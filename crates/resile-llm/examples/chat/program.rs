use futures_util::TryStreamExt;
use resile::quota::{Cost, Rate, Usage};
use resile::{FallbackPolicy, GaveUp, Never, Quota, StreamResilienceExt, Upstream, fallback};
use resile_llm::{Event, Failure, another_model, charge, events};
use std::io::{Write, stdout};
use std::time::Duration;

const fn model(name: &'static str) -> Upstream {
    let quota = Quota::new().with_tokens(Rate::per_minute(30_000));
    resile_llm::upstream(name).with_quota(quota.with_charge(charge::OPENAI))
}
const LIMIT: Duration = Duration::from_secs(240); // of all models together
static MODELS: [Upstream; 2] = [model("gpt-4o"), model("gpt-4o-mini")];

/// Asks the models in turn until one has shown a word. Returns the usage.
async fn chat(
    post: &impl Fn() -> reqwest::RequestBuilder,
    models: &[Upstream],
    question: &str,
    show: &impl Fn(&str),
) -> Result<Usage, GaveUp<Failure>> {
    let policy = resile_llm::interactive().with_attempt_timeout(Duration::from_secs(20));
    let next = FallbackPolicy::new().with_total_timeout(LIMIT).with_classifier(another_model);
    let ask = async |model: &Upstream, share: Option<Duration>, rest: Option<Duration>| {
        let body = serde_json::json!({
            "model": model.name(), "max_completion_tokens": 1_000,
            "stream": true, "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": question }],
        });
        let open = async |_| {
            Ok(events(post().json(&body).send().await?).idle_timeout(Duration::from_secs(30)))
        };
        resile::retry_stream(open, policy.with_total_timeout(share.unwrap_or(LIMIT)), Never)
            .with_parts(Event::part)
            .with_whole_timeout(rest.unwrap_or(LIMIT))
            .on(model.at_cost(Cost::input(question.len() as u64 / 3).with_max_output(1_000)))
            .try_fold(Usage::new(), |used, event| {
                show(&event.text());
                std::future::ready(Ok(used.merged(event.usage())))
            })
            .await
    };
    let answer = fallback(models, |it| ask(it.value(), it.share(), it.remaining()), next, Never);
    answer.on("chat").await.map_err(GaveUp::flatten)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let http = reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
    let url = std::env::var("OPENAI_BASE_URL")? + "/chat/completions";
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_default();
    let post = || http.post(&url).bearer_auth(&key);
    let show = |words: &str| {
        print!("{words}");
        stdout().flush().unwrap_or_default();
    };
    let used = chat(&post, &MODELS, "What do I wear in Paris at 8 °C?", &show).await?;
    println!("\n{used}");
    Ok(())
}
