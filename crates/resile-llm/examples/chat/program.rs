use std::io::{Write, stdout};
use std::pin::pin;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use resile::quota::{Cost, Rate, Usage};
use resile::{
    Budget, Cooldown, FallbackPolicy, GaveUp, Never, Quota, StopReason, StreamResilienceExt,
    Upstream, fallback, retry_stream,
};
use resile_llm::{Event, Failure, charge, events, usage};
use serde_json::{Value, json};

static MODELS: [Upstream; 2] = [model("gpt-4o"), model("gpt-4o-mini")];
const MOST: u64 = 1_000;

const fn model(name: &'static str) -> Upstream {
    let quota = Quota::new().with_tokens(Rate::per_minute(30_000));
    Upstream::new(name)
        .with_budget(Budget::new())
        .with_cooldown(Cooldown::new())
        .with_quota(quota.with_charge(charge::OPENAI))
}

struct Chat {
    http: reqwest::Client,
    base: String,
}

impl Chat {
    /// Opens the stream of one answer. This is one attempt.
    async fn open(
        &self,
        model: &str,
        question: &str,
    ) -> Result<impl Stream<Item = Result<Event, Failure>> + use<>, Failure> {
        let key = std::env::var("OPENAI_API_KEY").unwrap_or_default();
        let body = json!({
            "model": model,
            "max_completion_tokens": MOST,
            "messages": [{ "role": "user", "content": question }],
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        let request = self
            .http
            .post(format!("{}/chat/completions", self.base))
            .bearer_auth(key)
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer = events(request.send().await?);
        Ok(answer.idle_timeout(Duration::from_secs(30)))
    }

    /// Shows the words of one model as they come. Returns the usage.
    async fn stream(
        &self,
        model: &Upstream,
        question: &str,
        show: impl Fn(&str),
    ) -> Result<Usage, GaveUp<Failure>> {
        // About four characters make a token.
        let cost = Cost::input(question.len() as u64 / 4 + 10);
        let policy = resile_llm::interactive()
            .with_attempts(3)
            .with_attempt_timeout(Duration::from_secs(20)); // to the first word
        let open = |_| self.open(model.name(), question);
        let answer = retry_stream(open, policy, Never)
            .with_parts(Event::part)
            .with_whole_timeout(Duration::from_secs(120))
            .on(model.at_cost(cost.with_max_output(MOST)));
        let (mut answer, mut used) = (pin!(answer), Usage::new());
        while let Some(event) = answer.try_next().await? {
            let data = event.data();
            used = used.merged(usage(data.as_bytes()).unwrap_or_default());
            let json: Value = serde_json::from_str(data).unwrap_or_default();
            show(json["choices"][0]["delta"]["content"].as_str().unwrap_or(""));
        }
        Ok(used)
    }

    /// Asks the models in turn, until one has shown a word.
    async fn ask(
        &self,
        models: &[Upstream],
        question: &str,
        show: impl Fn(&str) + Copy,
    ) -> Result<Usage, GaveUp<Failure>> {
        let elsewhere = |it: &GaveUp<Failure>| it.reason() != StopReason::Partial;
        let policy = FallbackPolicy::new().with_classifier(elsewhere);
        fallback(models, |model| self.stream(model.value(), question, show), policy, Never)
            .await
            .map_err(GaveUp::flatten)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let http = reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
    let base =
        std::env::var("OPENAI_BASE_URL").unwrap_or_else(|_| "https://api.openai.com/v1".to_owned());
    let show = |word: &str| {
        print!("{word}");
        let _ = stdout().flush();
    };
    let question = "It is 8 °C and it rains in Paris. What do I wear?";
    let used = Chat { http, base }.ask(&MODELS, question, show).await?;
    println!("\n{used:?}");
    Ok(())
}
