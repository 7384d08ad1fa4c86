use std::time::SystemTime;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::{OpenAIError, StreamError};
use async_openai::middleware::HttpRequestFactory;
use async_openai::types::chat::{
    ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs,
};
use resile::{Never, Verdict, retry};
use resile_llm::{Classifier, Failure, Phase, Reply};
use serde_json::json;
use tower::service_fn;

/// Returns the SDK without retries of its own. A refusal keeps its headers.
fn client(http: reqwest::Client, config: OpenAIConfig) -> Client<OpenAIConfig> {
    let send = move |request: HttpRequestFactory| {
        let http = http.clone();
        async move {
            let answer = http.execute(request.build().await?).await;
            let answer = answer.map_err(OpenAIError::Reqwest)?;
            let checked = resile_llm::error_for_status(answer).await;
            checked.map_err(|refusal| OpenAIError::Boxed(refusal.into()))
        }
    };
    Client::with_config(config).with_http_service(service_fn(send))
}

/// Returns what an error of the SDK means, or `None` for no opinion.
fn failure(error: &OpenAIError) -> Option<Failure> {
    match error {
        OpenAIError::Boxed(refusal) => Failure::find_in_error(&**refusal),
        OpenAIError::Reqwest(error) => Some(Failure::from_transport(error)),
        // A good status, but no completion.
        OpenAIError::JSONDeserialize(fault, body) => {
            let reply = Reply::new(body.as_bytes()).with_status(200);
            let inside = reply.find(SystemTime::now());
            let odd = || Failure::invalid_output(fault.to_string());
            Some(inside.unwrap_or_else(odd))
        }
        // Only a client without `client` above has this.
        OpenAIError::ApiError(refusal) => {
            let body = json!({ "error": refusal.api_error }).to_string();
            Some(Failure::from_text(refusal.status_code.as_u16(), &body))
        }
        // The answer breaks off while it streams.
        OpenAIError::StreamError(fault) => match &**fault {
            StreamError::EventStream(_) => {
                Some(Failure::truncated(Phase::Content))
            }
            StreamError::UnknownEvent(_) => None,
        },
        _ => None,
    }
}

fn classify(llm: &Classifier, error: &OpenAIError) -> Option<Verdict> {
    Some(llm.verdict(&failure(error)?))
}

/// One attempt.
async fn ask(
    model: &Client<OpenAIConfig>,
    question: &str,
) -> Result<String, OpenAIError> {
    let message = ChatCompletionRequestUserMessage::from(question);
    let request = CreateChatCompletionRequestArgs::default()
        .model("gpt-4o-mini")
        .messages([message.into()])
        .build()?;
    let answer = model.chat().create(request).await?;
    let choice = answer.choices.into_iter().next();
    Ok(choice.and_then(|it| it.message.content).unwrap_or_default())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let http =
        reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
    let model = client(http, OpenAIConfig::new());
    let question = "It is 8 °C and it rains in Paris. What do I wear?";
    let classifier = Classifier::new().over(classify);
    let policy = resile_llm::interactive().with_classifier(classifier);
    println!("{}", retry(|_| ask(&model, question), policy, Never).await?);
    Ok(())
}
